import { expect, test } from "vitest";
import { scored } from "../../../src/errors.ts";
import { broadcastCredit } from "../../../src/loop/advantage/broadcast.ts";
import { buildBatch } from "../../../src/loop/batch/rows.ts";
import { tasksFrom } from "../../../src/loop/prompt/dataset.ts";
import { compacted, ruleSummary, SUMMARY_REQUEST, type CompactionOptions, type Exchange } from "../../../src/loop/rollout/compaction.ts";
import { playEpisode } from "../../../src/loop/rollout/episode.ts";
import { defineEnv } from "../../../src/loop/rollout/tool-env.ts";
import { parseTrainConfig } from "../../../src/train/config.ts";
import type { Message, Trajectory } from "../../../src/types.ts";
import { scriptedPolicy, type ScriptedPolicy } from "../../fakes/scripted-policy.ts";

const user = (content: string): Message => ({ role: "user", content });
const said = (content: string): Message => ({ role: "assistant", content });
const exchanges = Array.from({ length: 6 }, (_, i): Exchange => ({ message: said(`do ${i + 1}`), replies: [user(`seen ${i + 1}`)] }));

test("the next conversation is the prompt with a note, and the last turns", () => {
  const prompt = [{ role: "system", content: "S" } as const, user("task")];
  expect(compacted(prompt, exchanges, { keepTurns: 2, written: "notes" })).toEqual([
    prompt[0],
    user("task\n\n[4 earlier turns are left out]\nnotes"),
    said("do 5"),
    user("seen 5"),
    said("do 6"),
    user("seen 6"),
  ]);
  // With no turn kept, what was answered last is still told.
  expect(compacted(prompt, exchanges, { keepTurns: 0 })).toEqual([prompt[0], user("task\n\n[6 earlier turns are left out]\n\nseen 6")]);
  expect(compacted([prompt[0]!], exchanges, { keepTurns: 6 })).toHaveLength(13);
});

test("the rule tells each turn in a line, and of too many the newest", () => {
  const call = { ...said(""), toolCalls: [{ id: "c", name: "look", arguments: { at: "x".repeat(100) } }] };
  const three = [exchanges[0]!, { message: call, replies: [user("a\n  b")] }, exchanges[2]!];
  expect(ruleSummary(three, { keepTurns: 1, tokens: 5000 })).toBe(
    `1. do 1 -> seen 1\n2. look {"at":"${"x".repeat(47)}… -> a b`,
  );
  const many = Array.from({ length: 200 }, () => exchanges[0]!);
  const lines = ruleSummary(many, { keepTurns: 3, tokens: 5000 }).split("\n");
  // "197. do 1 -> seen 1" and its end are 20 characters; 1,200 hold 60 or so, and the last is the newest that is left out.
  expect([lines.length > 55, lines.length <= 60, lines.at(-1)]).toEqual([true, true, "197. do 1 -> seen 1"]);
});

const steps = 40;
const corridor = defineEnv({
  name: "corridor",
  tasks: tasksFrom([{ question: "Walk forty steps.", id: "walk" }]),
  reward: ({ turns }) => scored(turns.length === steps ? 1 : 0, `${turns.length} steps`),
  respond: (_answer, { turns: { length } }) => ({
    messages: [user(`You are at step ${length + 1} of a long corridor.`)],
    done: length + 1 >= steps,
  }),
  maxTurns: 100,
});
const task = corridor.tasks("train").at(0);
const address = { seed: 0, stage: "train", step: 1, sample: 0, repeat: 0 };
const limits = { temperature: 1, maxTokens: 32, maxTurns: 100, deadlineSeconds: 30, address };
const play = (policy: ScriptedPolicy, options: CompactionOptions): Promise<Trajectory> =>
  playEpisode(corridor, task, { ...limits, ...options, policy });
const lengthOf = ({ spans }: Trajectory["rows"][number]): number => spans.reduce((sum, { ids }) => sum + ids.length, 0);

const forms = ["last-turns", "rule-summary", "model-summary"] as const;
test.each(forms)("forty turns, %s: rows are what was seen and said", async (compaction) => {
  const asked: (readonly number[])[] = [];
  const policy: ScriptedPolicy = scriptedPolicy((turn, { prompt }) => {
    const summary = policy.renderer.tokenizer.decode(prompt).includes(SUMMARY_REQUEST);
    if (summary) asked.push(prompt);
    return summary ? "I have walked." : `step ${turn}`;
  });
  const compactAt = 500;
  const { end, rows, turns, measures } = await play(policy, { compaction, compactAt, keepTurns: 3 });
  expect([end.type, turns.length]).toEqual(["done", steps]);
  expect(measures["compactions"]).toBe(rows.length - 1);
  expect(rows.length).toBeGreaterThan(2);
  // What each request saw is its row up to there; what came is the next span. Summaries are in no row.
  const seen = policy.requests.map(({ prompt }) => prompt).filter((prompt) => !asked.includes(prompt));
  expect(asked.length).toBe(compaction === "model-summary" ? rows.length - 1 : 0);
  turns.forEach(({ row, span }, i) => {
    const { spans } = rows[row]!;
    expect(spans.slice(0, span).flatMap(({ ids }) => ids)).toEqual(seen[i]);
    expect(spans[span]!.kind).toBe("sampled");
  });
  // The rows that are trained hold each sampled token once, and none is much longer than the limit.
  const trained = buildBatch([[broadcastCredit({ ...(await play(policy, {})), rows }, 1)]], {
    reduction: "token-mean", maskTruncated: false, maxLength: 64, skipZero: true,
  }).batch!.units[0]!.rows;
  const sampled = rows.flatMap(({ spans }) => spans.filter(({ kind }) => kind === "sampled").flatMap(({ ids }) => ids));
  expect(trained.flatMap(({ ids, trained: at }) => [...at].map((t) => ids[t]))).toEqual(sampled);
  expect(Math.max(...rows.map(lengthOf))).toBeLessThan(compactAt + 2 * limits.maxTokens);
  // A new row begins with the task, the note and three turns, so that all rows together grow with the turns and not with their square.
  const texts = rows.slice(1).map(({ spans }) => policy.renderer.tokenizer.decode(spans[0]!.ids));
  for (const text of texts) expect(text.match(/You are at step/g)!.length).toBeGreaterThanOrEqual(3);
  expect(texts[0]).toMatch(/Walk forty steps\.\n\n\[\d+ earlier turns are left out\]/);
  expect(texts.every((text) => text.includes("I have walked."))).toBe(compaction === "model-summary");
  expect(/\n\d+\. step \d+ -> You are/.test(texts[0]!)).toBe(compaction === "rule-summary");
});

test("without compaction the context is full and the episode is cut; with it, it is not", async () => {
  const full = await playEpisode(corridor, task, { ...limits, policy: scriptedPolicy(() => "on", { contextLength: 600 }) });
  expect([full.end.type, "compactions" in full.measures]).toEqual(["length", false]);
  const policy = scriptedPolicy(() => "on", { contextLength: 600 });
  const on = await playEpisode(corridor, task, { ...limits, policy, compaction: "last-turns" });
  expect([on.end.type, Math.max(...on.rows.map(lengthOf)) <= 600]).toEqual(["done", true]);
});

test("a setting that would do nothing is refused", () => {
  const base = { name: "x", model: { path: "m" }, env: { name: "desk" }, algo: { name: "grpo" } };
  expect(() => parseTrainConfig({ ...base, rollout: { compactAt: 100 } })).toThrow(
    "rollout.compactAt: expected 0 with rollout.compaction none, got 100; leave it out",
  );
  expect(parseTrainConfig({ ...base, rollout: { compaction: "last-turns", compactAt: 100 } }).rollout).toMatchObject({ keepTurns: 4 });
});
