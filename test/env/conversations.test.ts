/** Environments in which somebody answers: a user, or another agent on the same policy. */
import { expect, test } from "vitest";
import { booking } from "../../src/env/booking.ts";
import { openEnv } from "../../src/env/index.ts";
import { review } from "../../src/env/review.ts";
import { policyUser } from "../../src/env/user/user.ts";
import { broadcastCredit } from "../../src/loop/advantage/broadcast.ts";
import { buildBatch } from "../../src/loop/batch/rows.ts";
import { playEpisode } from "../../src/loop/rollout/episode.ts";
import { playScripted } from "../../src/loop/rollout/scripted.ts";
import { decodeRollout, encodeRollout } from "../../src/train/record/trajectory-codec.ts";
import type { Message, Task, Trajectory } from "../../src/types.ts";
import { scriptedPolicy, type ScriptedPolicy } from "../fakes/scripted-policy.ts";

const say = (content: string): Message => ({ role: "assistant", content });
const address = { seed: 0, stage: "train", step: 1, sample: 0, repeat: 0 };
const limits = { temperature: 1, maxTokens: 32, maxTurns: 8, deadlineSeconds: 30, address };

const wish = { people: 4, day: "Friday", time: "19:00" };
const table = (data: object): Task => ({
  id: "table",
  prompt: [{ role: "user", content: "I would like a table, please." }],
  data: { wish, told: [], change: null, ...data },
});
const book = (args: object): Message => ({ ...say(""), toolCalls: [{ id: "c", name: "book", arguments: { ...wish, ...args } }] });

test("the guest tells what is asked for, may think better of it once, and leaves when nobody asks to the point", async () => {
  const env = booking();
  const changed = table({ change: { fact: "people", first: 3 } });
  const questions = ["How many people, and at what time?", "Which day?", "How many people again?"].map(say);
  const played = await playScripted(env, changed, [...questions, book({})]);
  expect(played.turns.map(({ replies }) => replies[0]!.content)).toEqual([
    "For 3, at 19:00. No, wait: for 4.",
    "On Friday.",
    "For 4.",
    "booked",
  ]);
  expect([played.done, played.verdict]).toMatchObject([true, { score: 1, explanation: "booked as wished" }]);
  const wrong = await playScripted(env, changed, [book({ people: 3 })]);
  expect([wrong.done, wrong.verdict]).toMatchObject([true, { score: 0, explanation: "wrong: people" }]);
  const rude = await playScripted(env, changed, () => say("Hello."));
  expect([rude.turns.length, rude.done, rude.verdict]).toMatchObject([3, true, { score: 0, explanation: "nothing was booked" }]);
  // A call that the schema refuses books nothing, and the guest waits.
  const refused = await playScripted(env, changed, [book({ people: "four" })]);
  expect([refused.done, refused.verdict]).toMatchObject([false, { score: 0 }]);
});

test("a model plays the user: it sees the parts exchanged, and none of its tokens is in a row", async () => {
  const user = scriptedPolicy((turn) => ["For 4, Friday, 19:00.", "DONE"][turn]!);
  const env = booking({ user: policyUser(user, { system: ({ data }) => `You want ${JSON.stringify(data["wish"])}.` }) });
  const policy = scriptedPolicy((turn) => ["What do you want?", "Good bye."][turn]!);
  const { turns, rows, end } = await playEpisode(env, table({}), { ...limits, policy });
  expect(turns.map(({ replies }) => replies.map(({ content }) => content))).toEqual([["For 4, Friday, 19:00."], []]);
  expect([end.type, rows.length, user.requests.length, policy.requests.length]).toEqual(["done", 1, 2, 2]);
  const seen = user.renderer.tokenizer.decode(user.requests[1]!.prompt);
  expect(seen).toMatch(/You want .*assistant\n?I would like a table, please\..*user\n?What do you want\?.*user\n?Good bye\./s);
  const { tokenizer } = policy.renderer;
  const sampled = rows[0]!.spans.flatMap((span) => (span.kind === "sampled" ? [tokenizer.decode(span.ids.slice(0, -1))] : []));
  expect(sampled).toEqual(["What do you want?", "Good bye."]);
});

const sum: Task = {
  id: "sum",
  prompt: [{ role: "user", content: "What is 20 + 3? Answer with the number only." }],
  data: { answer: 23, expression: "20+3" },
};
const talk = ["22", "That is wrong.", "23", "right"];
const play = (policy: ScriptedPolicy, trained: readonly ("worker" | "checker")[]): Promise<Trajectory> =>
  playEpisode(review({ trained, tries: 3 }), sum, { ...limits, policy });

test("two agents: each sees its own prompt, every turn is a row, and both are trained by the outcome", async () => {
  const policy = scriptedPolicy((turn) => talk[turn]!);
  const trajectory = await play(policy, ["worker", "checker"]);
  expect(trajectory.turns.map(({ agent, row, span, message }) => [agent, row, span, message.content])).toEqual([
    ["worker", 0, 1, "22"],
    ["checker", 1, 1, "That is wrong."],
    ["worker", 2, 1, "23"],
    ["checker", 3, 1, "right"],
  ]);
  expect(trajectory.measures).toMatchObject({ answers: 2, firstRight: 0, saved: 1 });
  expect(await review({ tries: 3 }).reward(trajectory)).toMatchObject({ type: "scored", score: 1 });
  trajectory.rows.forEach(({ spans }, i) => expect(spans[0]!.ids).toEqual(policy.requests[i]!.prompt));
  const texts = policy.requests.map(({ prompt }) => policy.renderer.tokenizer.decode(prompt));
  expect(texts[1]).toMatch(/You check sums.*Answer: 22/s);
  expect(texts[0]).not.toContain("You check sums");
  expect(texts[2]).toMatch(/Not 22: a checker says that is wrong\./);
  const { rows } = buildBatch([[broadcastCredit(trajectory, 1)]], {
    reduction: "token-mean", maskTruncated: false, maxLength: 64, skipZero: true,
  }).batch!.units[0]!;
  expect(rows.length).toBe(4);
  const decoded = decodeRollout(encodeRollout({ trajectory, verdict: { type: "unscorable", reason: "x" } }, null), "line");
  expect(decoded.scored.trajectory.turns).toEqual(trajectory.turns);
});

test("an agent that is not trained is sampled and answers, and is in no row and no turn", async () => {
  const policy = scriptedPolicy((turn) => talk[turn]!);
  const trajectory = await play(policy, ["worker"]);
  expect(policy.requests.length).toBe(4);
  expect(trajectory.turns.map(({ agent, row, replies }) => [agent, row, replies.map(({ content }) => content)])).toEqual([
    ["worker", 0, ["That is wrong."]],
    ["worker", 1, ["right"]],
  ]);
  expect(trajectory.rows.length).toBe(2);
  expect(trajectory.messages.map(({ content }) => content)).toEqual([sum.prompt[0]!.content, ...talk]);
  // Tokens of the checker were sampled, so they cost, but none of them is trained.
  const inRows = trajectory.rows.flatMap(({ spans }) => spans.flatMap((span) => (span.kind === "sampled" ? span.ids : [])));
  expect(inRows.length).toBeLessThan(trajectory.measures["sampledTokens"]!);
  expect(await review({ tries: 3 }).reward(trajectory)).toMatchObject({ score: 1 });
});

test("a checker that is cut ends the episode, and the worker's answer is worth nothing", async () => {
  const cut = (turn: number) => (turn === 0 ? "23" : { ids: [20, 21], finish: { type: "length" } as const });
  const trajectory = await play(scriptedPolicy(cut), ["worker", "checker"]);
  expect(trajectory.end).toEqual({ type: "length" });
  expect(await review().reward(trajectory)).toMatchObject({ score: 0 });
});

test("options that make no sense are refused", async () => {
  await expect(openEnv({ name: "review", trained: ["checker"] })).rejects.toThrow('env.trained: expected a list with "worker", who begins');
  const refused = "env.withheld: expected an integer of at least 1 and at most 3, got 4";
  await expect(openEnv({ name: "booking", withheld: 4 })).rejects.toThrow(refused);
});
