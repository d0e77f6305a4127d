/** The rules: what can be done, what it changes, and what is seen. A state is a function of the commands so far. */
import { directions, LAMP, type Direction, type House, type Room } from "./map.ts";

export const commandForms = ["free", "listed"] as const;
/** Commands in words; or those that can be done are listed with numbers, which may be said in their place. */
export type CommandForm = (typeof commandForms)[number];

export interface HouseState {
  readonly room: number;
  readonly held: readonly string[];
  /** Colours of doors that are unlocked. */
  readonly opened: readonly string[];
  readonly seen: readonly number[];
  readonly moves: number;
  readonly refused: number;
}

export const atStart: HouseState = { room: 0, held: [], opened: [], seen: [0], moves: 0, refused: 0 };

export const isWon = ({ held }: HouseState): boolean => held.includes(LAMP);

/** Things that lie in the room. */
function lying({ rooms }: House, { room, held }: HouseState): readonly string[] {
  return rooms[room]!.things.filter((thing) => !held.includes(thing));
}

interface Exit {
  readonly direction: Direction;
  readonly to: number;
  /** Colour of the lock, while it is locked. */
  readonly lock?: string;
}

function exitsOf({ rooms }: House, { room, opened }: HouseState): readonly Exit[] {
  const { exits }: Room = rooms[room]!;
  return directions.flatMap((direction): Exit[] => {
    const exit = exits[direction];
    if (exit === undefined) return [];
    const locked = exit.lock !== undefined && !opened.includes(exit.lock);
    return [{ direction, to: exit.to, ...(locked ? { lock: exit.lock } : {}) }];
  });
}

/** Commands that change something, in a fixed order: things, locks, ways. */
export function commandsOf(house: House, state: HouseState): readonly string[] {
  const exits = exitsOf(house, state);
  return [
    ...lying(house, state).map((thing) => `take ${thing}`),
    ...exits.filter(({ lock }) => lock !== undefined && state.held.includes(`${lock} key`)).map(({ direction }) => `unlock ${direction}`),
    ...exits.filter(({ lock }) => lock === undefined).map(({ direction }) => `go ${direction}`),
  ];
}

/** The state after a command; one that cannot be done costs a move, too. */
export function obey(house: House, state: HouseState, said: string): HouseState {
  const possible = commandsOf(house, state);
  const text = said.trim().toLowerCase().replace(/\.$/, "");
  const command = /^\d{1,2}$/.test(text) ? possible[Number(text) - 1] : possible.find((each) => each === text);
  const after = { ...state, moves: state.moves + 1 };
  if (command === undefined) return { ...after, refused: state.refused + 1 };
  const [verb, ...rest] = command.split(" ");
  if (verb === "take") return { ...after, held: [...state.held, rest.join(" ")] };
  const exit = exitsOf(house, state).find(({ direction }) => direction === rest[0])!;
  if (verb === "unlock") return { ...after, opened: [...state.opened, exit.lock!] };
  return { ...after, room: exit.to, seen: state.seen.includes(exit.to) ? state.seen : [...state.seen, exit.to] };
}

/** What is seen: this room alone, what one holds, and the moves that are left. */
export function view(house: House, state: HouseState, form: CommandForm): string {
  const locked = exitsOf(house, state).filter(({ lock }) => lock !== undefined);
  const locks = locked.map(({ direction, lock }) => `${direction} is locked (${lock})`);
  const here = `${house.rooms[state.room]!.name}, ${house.moves - state.moves} moves left.`;
  const held = `You hold ${state.held.join(", ") || "nothing"}.`;
  if (form === "listed") {
    const list = commandsOf(house, state).map((command, i) => `${i + 1} ${command}`);
    return [here, held, ...locks.map((lock) => `${lock}.`), ...list].join("\n");
  }
  const things = lying(house, state);
  const ways = exitsOf(house, state).flatMap(({ direction, lock }) => (lock === undefined ? [direction] : []));
  const exits = [...ways, ...locks].join(", ");
  return `${here} You see ${things.join(", ") || "nothing"}. Exits: ${exits}. ${held}`;
}
