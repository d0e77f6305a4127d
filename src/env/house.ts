/**
 * "The house": a text game. Somewhere in rooms that are seen one at a time is a lamp, behind doors whose keys lie elsewhere. What was
 * seen before has to be remembered or inferred from the conversation: only the current room is told.
 */
import { z } from "zod";
import { oneOf, whole } from "../config-fields.ts";
import { scored } from "../errors.ts";
import { generatedTasks } from "../loop/prompt/generated.ts";
import { defineEnv } from "../loop/rollout/tool-env.ts";
import { hash32, rng } from "../random.ts";
import type { Env, JsonObject, Message, Split, Task, Turn } from "../types.ts";
import { atStart, commandForms, isWon, obey, view, type CommandForm, type HouseState } from "./house/game.ts";
import { drawRooms, sizes, type House } from "./house/map.ts";
import { solve } from "./house/solve.ts";
import { readOptions } from "./options.ts";

const schema = z.strictObject({
  seed: whole({ min: 0, max: 2 ** 32 - 1 }, 0, "which houses"),
  rooms: whole({ min: 2, max: sizes.rooms }, 5, "rooms of a house"),
  keys: whole({ min: 0, max: sizes.keys }, 1, "locked doors on the way, as far as there are doors"),
  slack: whole({ min: 0, max: 100 }, 6, "moves beyond those of the shortest way"),
  commands: oneOf(commandForms, "listed", "whether what can be done is listed with numbers"),
});

export type HouseOptions = z.input<typeof schema>;

/** What a task of this environment holds as its data. */
export const houseOf = (task: Task): House => task.data as unknown as House;

/** The house environment. Reward: 1 if the lamp was taken in time, else 0. */
export function house(options: HouseOptions = {}, counts: { readonly [S in Split]: number } = { train: 2_000, test: 200 }): Env {
  const rules = readOptions("house", schema, options as JsonObject);
  const form = rules.commands;
  return defineEnv({
    name: "house",
    tasks: (split) => generatedTasks(`house ${split}`, counts[split], (index) => taskOf(split, index, rules)),
    respond: (answer, { task, turns }) => {
      const made = houseOf(task);
      const before = after(task, turns);
      const state = obey(made, before, answer);
      if (isWon(state) || state.moves >= made.moves) return { messages: [], done: true };
      const refused = state.refused > before.refused ? "You cannot do that.\n" : "";
      return { messages: [{ role: "user", content: refused + view(made, state, form) }], done: false };
    },
    reward: ({ task, turns }) => {
      const { held, moves, seen } = after(task, turns);
      const found = isWon({ ...atStart, held });
      return scored(found ? 1 : 0, `the lamp was ${found ? "" : "not "}taken; ${moves} moves, ${seen.length} rooms seen`);
    },
    reference: (task) => solve(houseOf(task)).map((content): Message => ({ role: "assistant", content })),
    maxTurns: 256,
    measures: ({ task, turns }) => {
      const { seen, refused, held } = after(task, turns);
      const { rooms, shortest } = houseOf(task);
      const won = isWon({ ...atStart, held });
      return { roomsSeen: seen.length / rooms.length, refused, detour: won ? turns.length / shortest : 0, won: won ? 1 : 0 };
    },
  });
}

/** The state after these turns; a turn that was cut, or is a call, is a command that cannot be done. */
function after(task: Task, turns: readonly Turn[]): HouseState {
  const said = turns.map(({ parse, message }) => (parse === "answer" ? message.content : ""));
  return said.reduce((state, command) => obey(houseOf(task), state, command), atStart);
}

interface Rules {
  readonly seed: number;
  readonly rooms: number;
  readonly keys: number;
  readonly slack: number;
  readonly commands: CommandForm;
}

/** Draws until the house falls to this split: a fifth of all, by hash, belong to the test split. */
function taskOf(split: Split, index: number, { seed, slack, commands, ...size }: Rules): Task {
  for (let attempt = 0; ; attempt++) {
    const rooms = drawRooms(rng(seed, "house", split, index, attempt), size);
    if (attempt < 64 && (hash32(JSON.stringify(rooms)) % 5 === 0) !== (split === "test")) continue;
    const shortest = solve({ rooms, moves: 0, shortest: 0 }).length;
    const made: House = { rooms, shortest, moves: shortest + slack };
    const how = { listed: "Say a number.", free: "Say go, take or unlock, and a direction or a thing." }[commands];
    const content = `Find the lamp. ${how}\n${view(made, atStart, commands)}`;
    return { id: `house-${split}-${index}`, prompt: [{ role: "user", content }], data: made as unknown as JsonObject };
  }
}
