/** What the held-out answers of a run say: the gold score that graded them, every member's score, and the distance to the start. */
import { openPolicy } from "../../src/compute/policy/open.ts";
import { draw } from "../../src/env/desk/draw.ts";
import { sampledRow } from "../../src/loop/batch/rows.ts";
import { loadRewardModel, scoreConversations } from "../../src/loop/reward/reward-model.ts";
import { rng } from "../../src/random.ts";
import { readRun, readTrajectories, trajectorySteps } from "../../src/train/record/read-run.ts";
import type { RolloutRecord } from "../../src/train/record/trajectory-codec.ts";
import type { TrainRow } from "../../src/types.ts";
import { prefersFirst } from "./answers.ts";
import { annotator } from "./setup.ts";
import type { Foundation } from "./stages.ts";
import { requestOf } from "./task.ts";

/** Means over the held-out answers after a step. */
export interface Point {
  readonly step: number;
  readonly gold: number;
  /** Standard error of `gold`. */
  readonly goldError: number;
  /** The first member, the mean of the others, the mean of all, and what they differ by. */
  readonly first: number;
  readonly others: number;
  readonly ensemble: number;
  readonly disagreement: number;
  /** Nats a completion, estimated on the answers: sum of log pi - log pi_0. */
  readonly kl: number;
  readonly words: number;
  /** Share of the answers that the annotator prefers to the answer before training; equal ones count half. */
  readonly wins: number;
  /** Parts of the gold score: asked facts that are there, answers that are polite, sentences wrong, useless, repeated. */
  readonly parts: Readonly<Record<string, number>>;
  /** One answer, to look at. */
  readonly example: string;
}

const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;
const deviation = (values: readonly number[]): number => Math.sqrt(mean(values.map((value) => (value - mean(values)) ** 2)));

/** The held-out evaluations of each run, in the order of the runs. */
export async function curvesOf(runs: readonly string[], { model, rewardModel }: Foundation): Promise<Point[][]> {
  await using policy = await openPolicy(model, { train: { type: "none" } });
  const { members } = await loadRewardModel(policy.engine, rewardModel);
  const curves: Point[][] = [];
  for (const run of runs) {
    const points: Point[] = [];
    const before = await readTrajectories(run, "eval", 0);
    for (const step of await trajectorySteps(run, "eval")) {
      points.push(await pointOf(await readTrajectories(run, "eval", step), { step, policy, members, before }));
    }
    curves.push(points);
  }
  return curves;
}

/** Steps and evaluations of a run by its own record, whatever interrupted it. */
export async function secondsOf(run: string): Promise<number> {
  const { metrics } = await readRun(run);
  const own = metrics.flatMap((row) => Object.entries(row).flatMap(([name, value]) => (name.startsWith("seconds/") ? [value] : [])));
  return own.reduce((a, b) => a + b, 0);
}

interface PointOptions {
  readonly step: number;
  readonly policy: Awaited<ReturnType<typeof openPolicy>>;
  readonly members: Awaited<ReturnType<typeof loadRewardModel>>["members"];
  /** The answers to the same prompts before training. */
  readonly before: readonly RolloutRecord[];
}

async function pointOf(records: readonly RolloutRecord[], { step, policy, members, before }: PointOptions): Promise<Point> {
  const { engine, renderer } = policy;
  const conversations = records.map(({ scored }) => scored.trajectory.messages);
  const texts = records.map(answerOf);
  const verdicts = records.flatMap(({ scored: { verdict } }) => (verdict.type === "scored" ? [verdict] : []));
  const golds = verdicts.map(({ score }): number => score);
  const scores_M: number[][] = [];
  for (const member of members) {
    const found = await scoreConversations(conversations, { engine, renderer, members: [member], normalise: true });
    scores_M.push(found.map((score) => score!.score));
  }
  const [first, ...others] = scores_M;
  const names = Object.keys(verdicts[0]!.components);
  return {
    step,
    gold: mean(golds),
    goldError: deviation(golds) / Math.sqrt(golds.length),
    first: mean(first!),
    others: mean(others.map(mean)),
    ensemble: mean(scores_M.map(mean)),
    disagreement: mean(conversations.map((_, i) => deviation(scores_M.map((scores) => scores[i]!)))),
    kl: await distance(records, policy),
    words: mean(texts.map((text) => text.split(/\s+/).length)),
    wins: winRate(records, before, step),
    parts: Object.fromEntries(names.map((name) => [name, mean(verdicts.map(({ components }): number => components[name]!))])),
    example: texts[0]!,
  };
}

const answerOf = ({ scored }: RolloutRecord): string => scored.trajectory.messages.at(-1)!.content;

function winRate(records: readonly RolloutRecord[], before: readonly RolloutRecord[], step: number): number {
  return mean(
    records.map((record, i) => {
      const answers = [answerOf(record), answerOf(before[i]!)] as const;
      if (answers[0] === answers[1]) return 0.5;
      const random = draw(rng(0, "fresh labels", step, i));
      return Number(prefersFirst(answers, requestOf(record.scored.trajectory.task), { ...annotator, random }));
    }),
  );
}

async function distance(records: readonly RolloutRecord[], { engine }: PointOptions["policy"]): Promise<number> {
  const rows = records.flatMap(({ scored }) => scored.trajectory.rows.map(sampledRow));
  const asked = rows.map(({ ids, trained, temperature }): TrainRow => ({ ids, trained, temperature, fields: {} }));
  const start = await engine.logprobs(asked);
  return mean(rows.map(({ logprobs }, i) => logprobs.reduce((sum, own, t) => sum + own - start[i]![t]!, 0)));
}
