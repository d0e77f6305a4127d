import { expect, test } from "vitest";
import { house, houseOf } from "../../src/env/house.ts";
import { openEnv } from "../../src/env/index.ts";
import { ConfigError } from "../../src/errors.ts";
import { playScripted } from "../../src/loop/rollout/scripted.ts";
import type { Message, Task } from "../../src/types.ts";

test.each([{}, { rooms: 3, keys: 0 }, { rooms: 12, keys: 4 }])("no house is in both splits: %j", (options) => {
  const [train, held] = (["train", "test"] as const).map((split) => {
    const source = house(options).tasks(split);
    return Array.from({ length: source.size }, (_, i) => JSON.stringify(houseOf(source.at(i)).rooms));
  });
  expect(held!.filter((made) => train!.includes(made))).toEqual([]);
});

const say = (content: string): Message => ({ role: "assistant", content });

/** Two rooms and a locked one behind the second: the key lies where one begins. */
const small: Task = {
  id: "small",
  prompt: [{ role: "user", content: "" }],
  data: {
    rooms: [
      { name: "hall", exits: { east: { to: 1 } }, things: ["red key"] },
      { name: "attic", exits: { west: { to: 0 }, north: { to: 2, lock: "red" } }, things: [] },
      { name: "cellar", exits: { south: { to: 1, lock: "red" } }, things: ["lamp"] },
    ],
    moves: 8,
    shortest: 5,
  },
};
const seenIn = (messages: readonly Message[]): string[] =>
  messages.slice(1).filter(({ role }) => role === "user").map(({ content }) => content);

test("what is seen is the room alone, and what is done changes the house", async () => {
  const free = house({ commands: "free" });
  const way = ["go north", "Take red key.", "go east", "unlock north", "go north", "take lamp"];
  const played = await playScripted(free, small, way.map(say));
  expect(seenIn(played.messages)).toEqual([
    "You cannot do that.\nhall, 7 moves left. You see red key. Exits: east. You hold nothing.",
    "hall, 6 moves left. You see nothing. Exits: east. You hold red key.",
    "attic, 5 moves left. You see nothing. Exits: west, north is locked (red). You hold red key.",
    "attic, 4 moves left. You see nothing. Exits: north, west. You hold red key.",
    "cellar, 3 moves left. You see lamp. Exits: south. You hold red key.",
  ]);
  expect(played).toMatchObject({ done: true, verdict: { score: 1, explanation: "the lamp was taken; 6 moves, 3 rooms seen" } });
  // Six turns where five are enough.
  expect(played.measures).toMatchObject({ roomsSeen: 1, refused: 1, detour: 1.2, won: 1 });
});

test("listed commands are numbered; a locked door without its key is told and cannot be chosen", async () => {
  const { messages } = await playScripted(house(), small, [say("2"), say("1"), say("0")]);
  expect(seenIn(messages)).toEqual([
    "attic, 7 moves left.\nYou hold nothing.\nnorth is locked (red).\n1 go west",
    "hall, 6 moves left.\nYou hold nothing.\n1 take red key\n2 go east",
    "You cannot do that.\nhall, 5 moves left.\nYou hold nothing.\n1 take red key\n2 go east",
  ]);
});

test("moves run out, and the reference is the shortest way", async () => {
  const shortest = house().reference!(small).map(({ content }) => content);
  expect(shortest).toEqual(["take red key", "go east", "unlock north", "go north", "take lamp"]);
  const idle = await playScripted(house(), small, () => say("go up"));
  expect([idle.turns.length, idle.done, idle.verdict]).toMatchObject([8, true, { score: 0 }]);
});

test("rooms and keys are dials: every house can be solved, and more of both is a longer way", async () => {
  const mean = async (options: object): Promise<number> => {
    const source = (await openEnv({ name: "house", ...options })).tasks("train");
    const lengths = Array.from({ length: 100 }, (_, i) => houseOf(source.at(i)).shortest);
    return lengths.reduce((a, b) => a + b) / 100;
  };
  const [small, usual, large] = [await mean({ rooms: 3, keys: 0 }), await mean({}), await mean({ rooms: 12, keys: 3 })];
  expect(small).toBeLessThan(3);
  expect(usual).toBeGreaterThan(5);
  expect(large).toBeGreaterThan(12);
});

test.each<[object, string]>([
  [{ rooms: 1 }, "env.rooms: expected an integer of at least 2 and at most 12, got 1; rooms of a house"],
  [{ commands: "words" }, 'env.commands: expected "free" or "listed", got "words"'],
  [{ room: 3 }, "env (house): expected options seed, rooms, keys, slack, commands, got room"],
])("options that are none are refused: %j", async (options, message) => {
  await expect(openEnv({ name: "house", ...options })).rejects.toThrow(ConfigError);
  await expect(openEnv({ name: "house", ...options })).rejects.toThrow(message);
});
