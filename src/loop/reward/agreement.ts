/** A reward model beside a verifier: how far they agree on the same answers, and where they differ most. */
import { RewardError, expected } from "../../errors.ts";
import type { Group, Message, Verdict } from "../../types.ts";

export interface JudgedAnswer {
  /** For people: a trajectory's id, or the answer itself. */
  readonly name: string;
  /** Answers of one task are compared with each other. */
  readonly task: string;
  /** What the model says. */
  readonly score: number;
  /** What the verifier says; a score of at least 1 is right. */
  readonly verdict: Verdict;
}

interface Disagreement {
  readonly name: string;
  readonly score: number;
  readonly right: boolean;
  /** Share of the answers of the other kind that are on the wrong side of this one. */
  readonly misplaced: number;
}

interface Agreement {
  /** Answers that the verifier could judge, and how many were right. */
  readonly answers: number;
  readonly right: number;
  /** At the threshold that separates best; on other answers it will be a little lower. */
  readonly accuracy: number;
  readonly threshold: number;
  /** Chance that a right answer's score is above a wrong one's, ties counting half; NaN if all are right or all wrong. */
  readonly auc: number;
  /** The same within tasks, averaged over pairs; NaN if no task has both kinds. */
  readonly aucWithinTasks: number;
  /** Worst first. */
  readonly disagreements: readonly Disagreement[];
}

/** Compares scores with verdicts. Answers that the verifier could not judge are left out; RewardError if none is left. */
export function agreement(answers: readonly JudgedAnswer[], { worst = 10 }: { readonly worst?: number } = {}): Agreement {
  const judged = answers.flatMap(({ verdict, ...rest }) => (verdict.type === "scored" ? [{ ...rest, right: verdict.score >= 1 }] : []));
  if (judged.length === 0) throw new RewardError(expected("agreement", "answers that the verifier scored", `none of ${answers.length}`));
  const right = judged.filter((answer) => answer.right);
  const wrong = judged.filter((answer) => !answer.right);
  const tasks = [...new Set(judged.map(({ task }) => task))];
  const ofTask = (list: readonly { task: string; score: number }[], task: string) => list.filter((answer) => answer.task === task);
  const within = tasks.map((task) => wins(ofTask(right, task), ofTask(wrong, task)));
  const sum = (of: (part: (typeof within)[number]) => number): number => within.reduce((total, part) => total + of(part), 0);
  const all = wins(right, wrong);
  const disagreements = judged
    .map(({ name, score, right: isRight }): Disagreement => {
      const others = isRight ? wrong : right;
      const beyond = others.filter((other) => (isRight ? other.score >= score : other.score <= score)).length;
      return { name, score, right: isRight, misplaced: others.length === 0 ? 0 : beyond / others.length };
    })
    .filter(({ misplaced }) => misplaced > 0)
    .sort((a, b) => b.misplaced - a.misplaced)
    .slice(0, worst);
  return {
    answers: judged.length,
    right: right.length,
    ...bestThreshold(judged),
    auc: all.won / all.pairs,
    aucWithinTasks: sum(({ won }) => won) / sum(({ pairs }) => pairs),
    disagreements,
  };
}

type Scores = readonly { readonly score: number }[];

/** Pairs of a right and a wrong answer, and how many the right one wins. */
function wins(right: Scores, wrong: Scores): { readonly won: number; readonly pairs: number } {
  let won = 0;
  for (const a of right) for (const b of wrong) won += a.score > b.score ? 1 : a.score === b.score ? 0.5 : 0;
  return { won, pairs: right.length * wrong.length };
}

/** Right is what scores above the threshold: half-way between two neighbours, or below all. */
function bestThreshold(judged: readonly { readonly score: number; readonly right: boolean }[]): { accuracy: number; threshold: number } {
  const sorted = [...new Set(judged.map(({ score }) => score))].sort((a, b) => a - b);
  const thresholds = [sorted[0]! - 1, ...sorted.map((score, i) => (i + 1 < sorted.length ? (score + sorted[i + 1]!) / 2 : score))];
  const at = (threshold: number): number => judged.filter(({ score, right }) => score > threshold === right).length / judged.length;
  return thresholds.map((threshold) => ({ threshold, accuracy: at(threshold) })).reduce((a, b) => (b.accuracy > a.accuracy ? b : a));
}

/** A row of a pairs file, as `data` of a reward-model or preference run takes it. */
interface PreferenceRow {
  readonly prompt: readonly Message[];
  readonly chosen: readonly Message[];
  readonly rejected: readonly Message[];
  readonly margin?: number;
}

/**
 * Pairs from verified rollouts: in each group answers of a higher score against answers of a lower one, the largest differences first,
 * at most `perGroup`, each answer in as few pairs as possible. Equal texts make no pair.
 */
export function pairsFromGroups(
  groups: readonly Group[],
  { perGroup = 4, margins = false }: { readonly perGroup?: number; readonly margins?: boolean } = {},
): PreferenceRow[] {
  return groups.flatMap(({ task, members }) => {
    const answers = members.flatMap(({ trajectory, verdict }) =>
      verdict.type === "scored" ? [{ messages: trajectory.messages.slice(task.prompt.length), score: verdict.score }] : [],
    );
    const candidates = answers.flatMap((chosen) =>
      answers.filter(({ score }) => score < chosen.score).map((rejected) => ({ chosen, rejected, gap: chosen.score - rejected.score })),
    );
    const used = new Map(answers.map((answer) => [answer, 0]));
    const picked: PreferenceRow[] = [];
    while (picked.length < perGroup && candidates.length > 0) {
      const cost = (pair: (typeof candidates)[number]): number => used.get(pair.chosen)! + used.get(pair.rejected)!;
      candidates.sort((a, b) => cost(a) - cost(b) || b.gap - a.gap);
      const { chosen, rejected, gap } = candidates.shift()!;
      for (const answer of [chosen, rejected]) used.set(answer, used.get(answer)! + 1);
      if (!isAnswer(chosen.messages) || !isAnswer(rejected.messages)) continue;
      if (JSON.stringify(chosen.messages) === JSON.stringify(rejected.messages)) continue;
      picked.push({ prompt: task.prompt, chosen: chosen.messages, rejected: rejected.messages, ...(margins ? { margin: gap } : {}) });
    }
    return picked;
  });
}

/** What a pairs file may hold: from an assistant's message to an assistant's message, none of them empty. */
function isAnswer(messages: readonly Message[]): boolean {
  const spoken = messages.filter(({ role }) => role === "assistant");
  const said = spoken.every(({ content, reasoning = "", toolCalls = [] }) => content + reasoning !== "" || toolCalls.length > 0);
  return messages[0]?.role === "assistant" && messages.at(-1)?.role === "assistant" && said;
}
