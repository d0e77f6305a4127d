/** The proof at each publication that sampler and trainer run the same weights, and that an update reached them. */
import { PolicyError, expected } from "../../../errors.ts";
import { rng } from "../../../random.ts";
import type { PolicyVersion } from "../../../types.ts";
import type { Sampler } from "./sampler.ts";
import type { Trainer } from "./trainer.ts";

/** A sequence that was sampled, with the trainer's log-probs of it. */
export interface Probe {
  readonly ids: readonly number[];
  readonly logprobs: readonly number[];
}

/** Any ids do: the probe compares two readings of one sequence. */
const prompt: readonly number[] = [1, 2, 3, 4, 5, 6, 7, 8];

async function score(trainer: Trainer, ids: readonly number[]): Promise<number[]> {
  const trained = Int32Array.from({ length: ids.length - prompt.length }, (_, i) => prompt.length + i);
  const [scores] = await trainer.logprobs([{ ids: Int32Array.from(ids), trained, fields: {}, temperature: 1 }], "policy");
  return [...scores!];
}

/** Samples a few tokens and scores them again; refuses a difference above 1e-4. */
export async function takeProbe(
  sampler: Sampler,
  trainer: Trainer,
  facts: { readonly vocabulary: number; readonly version: PolicyVersion },
): Promise<Probe> {
  const start = prompt.map((id) => id % facts.vocabulary);
  const request = { prompt: start, count: 1, maxTokens: 8, temperature: 1, stopIds: [], keys: [rng(0, "probe")] };
  const [span] = await sampler.sample(request, facts.version);
  const ids = [...start, ...span!.ids];
  const logprobs = await score(trainer, ids);
  const gap = Math.max(...logprobs.map((value, i) => Math.abs(value - span!.logprobs[i]!)));
  if (gap <= 1e-4) return { ids, logprobs };
  const want = "sampler and trainer log-probs of the probe within 1e-4";
  throw new PolicyError(expected("publish", want, String(gap), "they do not run the same weights"));
}

/** Refuses a probe whose log-probs are what they were before the update. */
export async function checkMoved(trainer: Trainer, before: Probe): Promise<void> {
  const now = await score(trainer, before.ids);
  if (now.some((value, i) => value !== before.logprobs[i])) return;
  const want = "the probe's log-probs to move after an update";
  throw new PolicyError(expected("publish", want, "the same to the last bit", "the update did not reach the weights"));
}
