/** Statistics of an evaluation: intervals of a rate, paired tests of before against after, and pass@k. */
import { ConfigError, expected } from "../../errors.ts";
import { integer, rng } from "../../random.ts";

export interface Interval {
  readonly low: number;
  readonly high: number;
}

/** Two-sided 95 % quantile of the standard normal distribution. */
const Z95 = 1.959963984540054;

/** 95 % interval of a rate (Wilson 1927): never empty, never outside [0, 1]. */
export function wilson(successes: number, trials: number, z = Z95): Interval {
  checkCounts(successes, trials);
  if (trials === 0) return { low: 0, high: 1 };
  const rate = successes / trials;
  const scale = 1 + z ** 2 / trials;
  const middle = (rate + z ** 2 / (2 * trials)) / scale;
  const half = (z / scale) * Math.sqrt((rate * (1 - rate)) / trials + z ** 2 / (4 * trials ** 2));
  // At the ends the formula is exactly 0 and 1; rounding is not.
  return { low: successes === 0 ? 0 : Math.max(0, middle - half), high: successes === trials ? 1 : Math.min(1, middle + half) };
}

interface PairedRates {
  readonly tasks: number;
  readonly before: number;
  readonly after: number;
  /** Tasks solved only after, and only before. */
  readonly gained: number;
  readonly lost: number;
  readonly difference: number;
  /** 95 % interval of the difference (Agresti and Min 2005: half a task added to each of the four cells). */
  readonly interval: Interval;
  /** Two-sided exact McNemar test: the chance of a split at least as uneven, were gains and losses equally likely. */
  readonly pValue: number;
}

/** Compares success on the same tasks before and after; index i is the same task in both. */
export function pairedRates(before: readonly boolean[], after: readonly boolean[]): PairedRates {
  checkPaired(before, after);
  const tasks = before.length;
  const gained = before.filter((was, i) => !was && after[i] === true).length;
  const lost = before.filter((was, i) => was && after[i] === false).length;
  const rate = (list: readonly boolean[]): number => list.filter(Boolean).length / tasks;
  const total = tasks + 2;
  const middle = (gained - lost) / total;
  const half = (Z95 * Math.sqrt(gained + lost + 1 - (gained - lost) ** 2 / total)) / total;
  return {
    tasks,
    before: rate(before),
    after: rate(after),
    gained,
    lost,
    difference: (gained - lost) / tasks,
    interval: { low: Math.max(-1, middle - half), high: Math.min(1, middle + half) },
    pValue: mcnemar(gained, lost),
  };
}

function mcnemar(gained: number, lost: number): number {
  const discordant = gained + lost;
  // Terms of the binomial distribution with p = 1/2, in logarithms so that many tasks do not underflow.
  let logTerm = -discordant * Math.LN2;
  let tail = Math.exp(logTerm);
  for (let k = 1; k <= Math.min(gained, lost); k++) {
    logTerm += Math.log((discordant - k + 1) / k);
    tail += Math.exp(logTerm);
  }
  return Math.min(1, 2 * tail);
}

interface PairedBootstrap {
  readonly difference: number;
  readonly interval: Interval;
}

/**
 * Mean difference of two lists of scores of the same tasks, with a 95 % percentile interval over resampled tasks. The draws are
 * counter-based: equal input gives equal intervals.
 */
export function pairedBootstrap(
  before: readonly number[],
  after: readonly number[],
  options: { readonly draws?: number; readonly seed?: number } = {},
): PairedBootstrap {
  const { draws = 2000, seed = 0 } = options;
  checkPaired(before, after);
  const gains = before.map((score, i) => (after[i] ?? 0) - score);
  const means = Array.from({ length: draws }, (_, draw) => {
    const key = rng(seed, "bootstrap", draw);
    return gains.reduce((sum, _gain, i) => sum + (gains[integer(key, gains.length, i)] ?? 0), 0) / gains.length;
  }).sort((a, b) => a - b);
  return {
    difference: gains.reduce((a, b) => a + b, 0) / gains.length,
    interval: { low: quantile(means, 0.025), high: quantile(means, 0.975) },
  };
}

/** Linear interpolation between the two nearest order statistics. */
function quantile(sorted: readonly number[], probability: number): number {
  const place = probability * (sorted.length - 1);
  const below = sorted[Math.floor(place)] ?? 0;
  const above = sorted[Math.ceil(place)] ?? below;
  return below + (place - Math.floor(place)) * (above - below);
}

/** Chance that at least one of k samples is right, given `right` of `samples` (unbiased; Chen et al. 2021, arXiv:2107.03374). */
export function passAtK(samples: number, right: number, k: number): number {
  checkCounts(right, samples);
  if (!Number.isInteger(k) || k < 1 || k > samples)
    throw new ConfigError(expected("pass@k: k", `an integer from 1 to ${samples}`, String(k)));
  if (samples - right < k) return 1;
  let allWrong = 1;
  for (let i = samples - right + 1; i <= samples; i++) allWrong *= 1 - k / i;
  return 1 - allWrong;
}

function checkCounts(successes: number, trials: number): void {
  if (!Number.isInteger(successes) || !Number.isInteger(trials) || successes < 0 || successes > trials) {
    throw new ConfigError(expected("rate", "0 <= successes <= trials", `${successes} of ${trials}`));
  }
}

function checkPaired(before: readonly unknown[], after: readonly unknown[]): void {
  if (before.length === 0 || before.length !== after.length) {
    throw new ConfigError(
      expected("paired comparison", "the same tasks before and after, at least one", `${before.length} and ${after.length}`),
    );
  }
}
