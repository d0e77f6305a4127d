/** The proof at each publication that sampler and trainer run the same weights, and that an update reached them. */
import { PolicyError, expected } from "../../../errors.ts";
import { rng } from "../../../random.ts";
import type { PolicyVersion, TrainRow } from "../../../types.ts";
import type { Sampler } from "./sampler.ts";

/** A sequence that was sampled, with the trainer's log-probs of it. */
export interface Probe {
  readonly ids: readonly number[];
  readonly logprobs: readonly number[];
}

/** Any ids do: the probe compares two readings of one sequence. */
const prompt: readonly number[] = [1, 2, 3, 4, 5, 6, 7, 8];

/** The trainer's reading: log-probs of rows under the policy. */
type Score = (rows: readonly TrainRow[]) => Promise<readonly Float32Array[]>;

async function score(read: Score, ids: readonly number[]): Promise<number[]> {
  const trained = Int32Array.from({ length: ids.length - prompt.length }, (_, i) => prompt.length + i);
  const [scores] = await read([{ ids: Int32Array.from(ids), trained, fields: {}, temperature: 1 }]);
  return [...scores!];
}

/** Samples a few tokens and scores them again; refuses a difference above 1e-4. */
export async function takeProbe(
  sampler: Sampler,
  read: Score,
  facts: { readonly vocabulary: number; readonly version: PolicyVersion },
): Promise<Probe> {
  const start = prompt.map((id) => id % facts.vocabulary);
  const request = { prompt: start, count: 1, maxTokens: 8, temperature: 1, stopIds: [], keys: [rng(0, "probe")] };
  const [span] = await sampler.sample(request, facts.version);
  const ids = [...start, ...span!.ids];
  const logprobs = await score(read, ids);
  const gap = Math.max(...logprobs.map((value, i) => Math.abs(value - span!.logprobs[i]!)));
  if (gap <= 1e-4) return { ids, logprobs };
  const want = "sampler and trainer log-probs of the probe within 1e-4";
  throw new PolicyError(expected("publish", want, String(gap), "they do not run the same weights"));
}

/** Refuses a probe whose log-probs are what they were before the update. */
export async function checkMoved(read: Score, before: Probe): Promise<void> {
  const now = await score(read, before.ids);
  if (now.some((value, i) => value !== before.logprobs[i])) return;
  const want = "the probe's log-probs to move after an update";
  throw new PolicyError(expected("publish", want, "the same to the last bit", "the update did not reach the weights"));
}
