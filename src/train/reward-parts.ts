/**
 * Watches the named components of a reward: says by name when one of them alone makes the reward rise while the one that says
 * whether the answer is right stays where it was.
 */
import type { Group } from "../types.ts";
import { mean, type Evaluation } from "./evaluate/evaluate.ts";

/** One scored rollout: its score and the components that no other one contains. */
export interface GradedParts {
  readonly score: number;
  readonly parts: Readonly<Record<string, number>>;
}

/** What a run learned from, over a window of steps. */
interface RewardGain {
  /** Rise of the mean score from the first to the last quarter of the window. */
  readonly total: number;
  readonly parts: readonly PartGain[];
}

interface PartGain {
  readonly name: string;
  /** Mean over the first and over the last quarter of the window. */
  readonly before: number;
  readonly after: number;
  /** Part of the total's rise that comes from this component: its weight (least squares over all rollouts) x its rise / the total's. */
  readonly share: number;
  /** It has not risen beyond its noise (two standard errors), and has room to. */
  readonly flat: boolean;
}

/** What a component is called that says whether the answer is right, and one that says how it looks. */
const rightness = /answer|correct|right|accura|success|solve|solution|exact|pass|test|gold/i;
const looks = /format|length|style|tag|think|structure|language|json|schema|brev|short|long|polite|markdown|tool|call/i;
const isRightness = (name: string): boolean => rightness.test(name) && !looks.test(name);

const window = { least: 16, most: 40 };
/** A rise counts from this share of the largest score on, and from this many standard errors: it is looked for at every step. */
const smallest = { rise: 0.05, errors: 4, share: 0.9 };

/** The scored rollouts of a step. */
export function gradedParts(groups: readonly Group[]): GradedParts[] {
  return groups.flatMap(({ members }) =>
    members.flatMap(({ verdict }) => (verdict.type === "scored" ? [{ score: verdict.score, parts: outermost(verdict.components) }] : [])),
  );
}

/** Without `format.tags` where there is `format`. */
function outermost(parts: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(parts).filter(([name]) => !Object.keys(parts).some((outer) => name.startsWith(`${outer}.`))));
}

/** The rise of a reward over `steps` and where it comes from; undefined where it has fewer than two components or has not risen. */
export function rewardGain(steps: readonly (readonly GradedParts[])[]): RewardGain | undefined {
  const filled = steps.filter((step) => step.length > 0);
  const all = filled.flat();
  const names = Object.keys(all[0]?.parts ?? {}).filter((name) => all.every(({ parts }) => name in parts));
  if (names.length < 2) return undefined;
  const total = rise(filled, ({ score }) => score);
  const scale = Math.max(...all.map(({ score }) => Math.abs(score)));
  if (!(total.rise > smallest.errors * total.error && total.rise >= smallest.rise * scale)) return undefined;
  const weights = leastSquares(all, names);
  const parts = names.map((name, k): PartGain => {
    const valueOf = ({ parts: held }: GradedParts): number => held[name]!;
    const part = rise(filled, valueOf);
    const most = Math.max(...all.map(valueOf));
    const full = most > 0 && part.before >= 0.95 * most;
    const flat = !full && part.rise <= Math.max(2 * part.error, 0.02 * Math.abs(most));
    return { name, before: part.before, after: part.after, share: (weights[k]! * part.rise) / total.rise, flat };
  });
  return { total: total.rise, parts };
}

/** Means of the first and the last quarter of the steps, and the standard error of their difference: the steps' noise about a line. */
function rise(steps: readonly (readonly GradedParts[])[], valueOf: (rollout: GradedParts) => number) {
  const means = steps.map((step) => mean(step.map(valueOf)));
  const quarter = Math.max(1, Math.floor(means.length / 4));
  const [before, after] = [mean(means.slice(0, quarter)), mean(means.slice(-quarter))];
  const [middle, centre] = [(means.length - 1) / 2, mean(means)];
  const along = means.reduce((sum, value, t) => sum + (t - middle) * (value - centre), 0);
  const slope = along / means.reduce((sum, _, t) => sum + (t - middle) ** 2, 0);
  const noise = means.reduce((sum, value, t) => sum + (value - centre - slope * (t - middle)) ** 2, 0) / Math.max(1, means.length - 2);
  return { before, after, rise: after - before, error: Math.sqrt((2 * noise) / quarter) };
}

/** Weights w of score = w . components + constant; a ridge of 1e-9 gives a component that never varied the weight 0. */
function leastSquares(rollouts: readonly GradedParts[], names: readonly string[]): number[] {
  const centres = names.map((name) => mean(rollouts.map(({ parts }) => parts[name]!)));
  const centre = mean(rollouts.map(({ score }) => score));
  const system: number[][] = names.map((_, i) => names.map((__, j) => (i === j ? 1e-9 : 0)).concat(0));
  for (const { score, parts } of rollouts) {
    const x = names.map((name, k) => parts[name]! - centres[k]!);
    for (const [i, row] of system.entries()) {
      for (let j = 0; j < x.length; j++) row[j] = row[j]! + x[i]! * x[j]!;
      row[x.length] = row[x.length]! + x[i]! * (score - centre);
    }
  }
  return eliminate(system);
}

/** Solves [A | b] for a symmetric positive definite A, by elimination without pivots. */
function eliminate(system: readonly number[][]): number[] {
  const size = system.length;
  for (const [i, pivot] of system.entries()) {
    for (const row of system.slice(i + 1)) {
      const factor = row[i]! / pivot[i]!;
      for (let j = i; j <= size; j++) row[j] = row[j]! - factor * pivot[j]!;
    }
  }
  const solution = new Array<number>(size).fill(0);
  for (let i = size - 1; i >= 0; i--) {
    const known = solution.reduce((sum, value, j) => (j > i ? sum + system[i]![j]! * value : sum), 0);
    solution[i] = (system[i]![size]! - known) / system[i]![i]!;
  }
  return solution;
}

type Success = Pick<Evaluation, "success">;

/** Watches the last forty steps, from the sixteenth on. */
export class RewardPartsDetector {
  readonly #steps: (readonly GradedParts[])[] = [];
  readonly #evaluations: (Success | undefined)[] = [];
  readonly #told = new Set<string>();

  /** A warning to print, if there is a new one. `evaluation` is the last held-out one, where there is one. */
  observe(groups: readonly Group[], evaluation?: Success): string | undefined {
    this.#steps.push(gradedParts(groups));
    this.#evaluations.push(evaluation);
    if (this.#steps.length > window.most) {
      this.#steps.shift();
      this.#evaluations.shift();
    }
    const gain = this.#steps.length < window.least ? undefined : rewardGain(this.#steps);
    const main = gain?.parts.find(({ name, share }) => share >= smallest.share && !isRightness(name));
    if (gain === undefined || main === undefined || this.#told.has(main.name)) return undefined;
    const still = stillAnswer(gain.parts.filter((part) => part !== main)) ?? this.#stillSuccess();
    if (still === undefined) return undefined;
    this.#told.add(main.name);
    const share = Math.round(100 * Math.min(1, main.share));
    const over = `over ${this.#steps.length} steps (${shown(main)})`;
    return `reward: \`${main.name}\` explains ${share} % of the gain ${over}; ${still}; make it a gate, or give it a tenth of the weight`;
  }

  #stillSuccess(): string | undefined {
    const [before, after] = [this.#evaluations.find((value) => value !== undefined), this.#evaluations.at(-1)];
    if (before === undefined || after === undefined || before === after || !(after.success <= before.success)) return undefined;
    return `held-out success did not rise (${shown({ before: before.success, after: after.success })})`;
  }
}

/** The components that say whether the answer is right: by their names, or else those that are not about its looks. */
function stillAnswer(others: readonly PartGain[]): string | undefined {
  const named = others.filter(({ name }) => isRightness(name));
  const answers = named.length > 0 ? named : others.filter(({ name }) => !looks.test(name));
  if (answers.length === 0 || !answers.every(({ flat }) => flat)) return undefined;
  return answers.map((part) => `\`${part.name}\` did not move (${shown(part)})`).join(", ");
}

const shown = ({ before, after }: { readonly before: number; readonly after: number }): string =>
  `${before.toFixed(2)} -> ${after.toFixed(2)}`;
