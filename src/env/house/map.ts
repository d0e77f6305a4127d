/** Houses: rooms joined as a tree, locked doors on the way to the lamp, and each key where one can be before its door. */
import { integer, permutation, rng } from "../../random.ts";
import type { RandomKey } from "../../types.ts";

export const directions = ["north", "east", "south", "west"] as const;
export type Direction = (typeof directions)[number];
const moves = { north: [0, 1], east: [1, 0], south: [0, -1], west: [-1, 0] } as const;
const opposite = { north: "south", east: "west", south: "north", west: "east" } as const;

const ROOMS = [
  ...(["hall", "kitchen", "attic", "cellar", "study", "pantry"] as const),
  ...(["garden", "studio", "nursery", "workshop", "library", "porch"] as const),
];
const COLOURS = ["red", "blue", "green", "white"] as const;
export const sizes = { rooms: ROOMS.length, keys: COLOURS.length } as const;
export const LAMP = "lamp";

export interface Room {
  readonly name: string;
  readonly exits: { readonly [D in Direction]?: { readonly to: number; readonly lock?: string } };
  /** Where things lie at first. */
  readonly things: readonly string[];
}

/** What a task holds as its data; room 0 is where one begins. */
export interface House {
  readonly rooms: readonly Room[];
  /** Moves that may be made. */
  readonly moves: number;
  /** Moves of the shortest way. */
  readonly shortest: number;
}

interface Door {
  readonly from: number;
  readonly to: number;
  readonly direction: Direction;
}

/** Rooms of a house with `keys` locked doors, or with as many as there are doors on the way to the lamp. */
export function drawRooms(key: RandomKey, { rooms: count, keys }: { readonly rooms: number; readonly keys: number }): Room[] {
  const doors = drawDoors(key, count);
  const wayTo = (room: number): Door[] => {
    const last = doors.find(({ to }) => to === room);
    return last === undefined ? [] : [...wayTo(last.from), last];
  };
  const lamp = Array.from({ length: count }, (_, room) => room).reduce((a, b) => (wayTo(b).length > wayTo(a).length ? b : a));
  const way = wayTo(lamp);
  const locked = permutation(rng(key.lo, "locks", key.hi), way.length).slice(0, keys).sort((a, b) => a - b).map((i) => way[i]!);
  const colours = permutation(rng(key.lo, "colours", key.hi), COLOURS.length).map((i) => COLOURS[i]!);
  const things = Array.from({ length: count }, (): string[] => []);
  things[lamp]!.push(LAMP);
  locked.forEach((door, i) => {
    // Rooms on this side of the door: their way does not lead through it.
    const before = things.flatMap((_, room) => (wayTo(room).includes(door) ? [] : [room]));
    things[before[integer(rng(key.lo, "keys", key.hi), before.length, i)]!]!.push(`${colours[i]!} key`);
  });
  const lockOf = (door: Door): { lock?: string } => (locked.includes(door) ? { lock: colours[locked.indexOf(door)]! } : {});
  const names = permutation(rng(key.lo, "names", key.hi), ROOMS.length);
  return things.map((own, room): Room => {
    const ahead = doors.filter(({ from }) => from === room).map((door) => [door.direction, { to: door.to, ...lockOf(door) }]);
    const back = doors.filter(({ to }) => to === room).map((door) => [opposite[door.direction], { to: door.from, ...lockOf(door) }]);
    return { name: ROOMS[names[room]!]!, exits: Object.fromEntries([...ahead, ...back]) as Room["exits"], things: own };
  });
}

/** Each room but the first is put beside one that is there. */
function drawDoors(key: RandomKey, count: number): Door[] {
  const places: (readonly [number, number])[] = [[0, 0]];
  const taken = (x: number, y: number): boolean => places.some(([a, b]) => a === x && b === y);
  const doors: Door[] = [];
  for (let draw = 0; places.length < count; draw++) {
    const from = integer(key, places.length, 2 * draw);
    const direction = directions[integer(key, 4, 2 * draw + 1)]!;
    const [x, y] = [places[from]![0] + moves[direction][0], places[from]![1] + moves[direction][1]];
    if (taken(x, y)) continue;
    doors.push({ from, to: places.length, direction });
    places.push([x, y]);
  }
  return doors;
}
