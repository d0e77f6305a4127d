/**
 * A trained reward model as a reward: it reads a whole conversation and says one number, the scalar head's value after the last token.
 * Several models answer together: their mean, less some of their disagreement (arXiv:2310.02743), so that answers on which they differ
 * are not chased.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { encodeDialogue } from "../../compute/text/dialogue.ts";
import type { ChatRenderer } from "../../compute/text/renderer.ts";
import { RewardError, expected, messageOf, scored } from "../../errors.ts";
import type { Engine, Message, Reward, ToolSpec, TrainRow, Verdict } from "../../types.ts";

const memberSchema = z.strictObject({
  /** Name of the adapter in an engine, and of its folder beside this file. */
  adapter: z.string(),
  rank: z.int(),
  alpha: z.number(),
  /** Of its scores over the examples that it was trained on. */
  mean: z.number(),
  deviation: z.number(),
});
const fileSchema = z.strictObject({
  format: z.literal(1),
  kind: z.enum(["reward", "process"]),
  /** What stood between the steps that a process model was trained on. */
  separator: z.string().nullable(),
  examples: z.int(),
  members: z.array(memberSchema).min(1),
});
/** reward-model/reward.json of a run folder. */
export type RewardModelFile = z.output<typeof fileSchema>;
export type RewardMember = RewardModelFile["members"][number];

/** Reads what a reward-model run wrote and adds its adapters to an engine on the same base. RewardError for anything else. */
export async function loadRewardModel(engine: Engine, folder: string): Promise<RewardModelFile> {
  const path = join(folder, "reward.json");
  let value: unknown;
  try {
    value = JSON.parse(await readFile(path, "utf8"));
  } catch (cause) {
    throw new RewardError(expected(path, "what a reward-model run wrote", messageOf(cause)), { cause });
  }
  const parsed = fileSchema.safeParse(value);
  if (!parsed.success) throw new RewardError(expected(path, "what a reward-model run wrote", parsed.error.issues[0]!.message));
  for (const { adapter } of parsed.data.members) await engine.loadAdapter(adapter, join(folder, adapter));
  return parsed.data;
}

interface RewardModelOptions {
  readonly engine: Engine;
  readonly renderer: ChatRenderer;
  readonly members: readonly RewardMember[];
  /** How many standard deviations between members are taken off their mean; 0 is the mean alone. */
  readonly caution?: number;
  /** Scores in units of each member's own training scores: (score - mean) / deviation. */
  readonly normalise?: boolean;
  /** Tools that the conversations were held with. */
  readonly tools?: readonly ToolSpec[];
}

interface ModelScore {
  /** mean - caution x deviation. */
  readonly score: number;
  readonly mean: number;
  /** Between the members (population); 0 for one. */
  readonly deviation: number;
}

/** Scores conversations, each up to its last assistant turn; undefined for one that does not fit into the context. */
export async function scoreConversations(
  conversations: readonly (readonly Message[])[],
  { engine, renderer, members, caution = 0, normalise = false, tools = [] }: RewardModelOptions,
): Promise<(ModelScore | undefined)[]> {
  const rows = conversations.map((messages, i): TrainRow => {
    const { ids } = encodeDialogue(renderer, { messages, tools }, `conversation ${i + 1}`).at(-1)!;
    return { ids, trained: Int32Array.of(ids.length), fields: {}, temperature: 1 };
  });
  const fitting = rows.filter(({ ids }) => ids.length <= engine.info.contextLength);
  const scores_M: number[][] = [];
  for (const { adapter, mean, deviation } of members) {
    const values = fitting.length === 0 ? [] : await engine.values(fitting, { adapter });
    scores_M.push(values.map(([value]) => (normalise ? (value! - mean) / Math.max(deviation, 1e-8) : value!)));
  }
  let next = 0;
  return rows.map((row) => (fitting.includes(row) ? combined(scores_M, next++, caution) : undefined));
}

function combined(scores_M: readonly (readonly number[])[], index: number, caution: number): ModelScore {
  const own = scores_M.map((scores) => scores[index]!);
  const mean = own.reduce((a, b) => a + b, 0) / own.length;
  const deviation = Math.sqrt(own.reduce((sum, score) => sum + (score - mean) ** 2, 0) / own.length);
  return { score: mean - caution * deviation, mean, deviation };
}

/** The model as a reward. Calls that come while one is being answered are answered together with the next. */
export function modelReward(options: RewardModelOptions): Reward {
  if (options.members.length === 0) throw new RewardError(expected("reward model", "at least one member", "none"));
  if (!(options.caution === undefined || options.caution >= 0))
    throw new RewardError(expected("reward model caution", "at least 0", String(options.caution)));
  const score = together((conversations: readonly (readonly Message[])[]) => scoreConversations(conversations, options));
  return async ({ messages }) => verdictOf(await score(messages), options);
}

function verdictOf(found: ModelScore | undefined, { engine, members }: RewardModelOptions): Verdict {
  if (found === undefined)
    return { type: "unscorable", reason: `the conversation is longer than the reward model's context of ${engine.info.contextLength}` };
  const { score, mean, deviation } = found;
  const spread = members.length === 1 ? {} : { mean, disagreement: deviation };
  return scored(score, `reward model: ${score.toFixed(3)}`, { model: score, ...spread });
}

/** One call of `answer` for all that was asked since the last one began. */
function together<A, B>(answer: (questions: readonly A[]) => Promise<readonly B[]>): (question: A) => Promise<B> {
  interface Waiting {
    readonly question: A;
    readonly resolve: (result: B) => void;
    readonly reject: (cause: unknown) => void;
  }
  let waiting: Waiting[] = [];
  let busy = false;
  const run = async (): Promise<void> => {
    busy = true;
    while (waiting.length > 0) {
      const now = waiting;
      waiting = [];
      try {
        const results = await answer(now.map(({ question }) => question));
        now.forEach(({ resolve }, i) => resolve(results[i]!));
      } catch (cause) {
        now.forEach(({ reject }) => reject(cause));
      }
    }
    busy = false;
  };
  return (question) =>
    new Promise((resolve, reject) => {
      waiting.push({ question, resolve, reject });
      if (!busy) void run();
    });
}
