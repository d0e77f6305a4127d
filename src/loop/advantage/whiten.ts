/** Advantages of a whole step brought to mean 0 and deviation 1 over its sampled tokens. */
import type { Credit } from "../../types.ts";

type Credits = readonly (readonly (Credit | null)[])[];

/** As in verl: the variance divides by n - 1 and gets this added. */
const epsilon = 1e-8;
/** Advantages this close together are equal: they carry no signal, and their computed deviation is rounding. */
const equalWithin = 1e-9;

/** (A - mean) / sqrt(var + 1e-8) over all sampled tokens of the step; 0 for all if they are equal. Context tokens have no A. */
export function whitened(credits_P_G: Credits): (Credit | null)[][] {
  const rows = credits_P_G.flat().flatMap((credit) => credit?.advantages ?? []);
  let [count, sum, low, high] = [0, 0, Infinity, -Infinity];
  for (const row of rows)
    for (const value of row) [count, sum, low, high] = [count + 1, sum + value, Math.min(low, value), Math.max(high, value)];
  const mean = sum / count;
  let squares = 0;
  for (const row of rows) for (const value of row) squares += (value - mean) ** 2;
  const scale = count < 2 || high - low <= equalWithin ? 0 : 1 / Math.sqrt(squares / (count - 1) + epsilon);
  const whiten = (credit: Credit): Credit => ({
    ...credit,
    advantages: credit.advantages.map((row) => row.map((value) => (value - mean) * scale)),
  });
  return credits_P_G.map((group) => group.map((credit) => (credit === null ? null : whiten(credit))));
}
