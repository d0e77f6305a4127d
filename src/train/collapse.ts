/**
 * Watches for a policy that falls apart: entropy, repetition, length and the rate of KL, each as the mean of the last five steps beside
 * that of the first five. What it remembers is kept in checkpoints, so that a resumed run stops where the uninterrupted one does.
 */
import { z } from "zod";
import { RunError, expected } from "../errors.ts";
import type { Group, Json, JsonObject, SampledSpan } from "../types.ts";

/** Of one step. "kl" is there only where there is a reference. */
export interface Health {
  /** Mean of -log-prob over the sampled tokens: an unbiased estimate of the policy's entropy at the sampling temperature. */
  readonly entropy: number;
  /** Mean over completions of the share of their 4-grams that came before in the same completion. */
  readonly repetition: number;
  /** Mean sampled tokens of a completion. */
  readonly length: number;
  /** Mean KL to the reference by k1, nats a token. */
  readonly kl?: number;
}

export interface Collapse {
  /** The sign, in words, with both numbers. */
  readonly sign: string;
  /** First step of the window that shows it; checkpoints before it are good. */
  readonly since: number;
}

const gram = 4;

/** What one step's samples say of the policy. */
export function healthOf(groups: readonly Group[], kl: number | undefined): Health {
  const completions = groups.flatMap(({ members }) =>
    members.map(({ trajectory }) => trajectory.rows.flatMap(({ spans }) => spans.filter((span) => span.kind === "sampled"))),
  );
  const logprobs = completions.flatMap((spans) => spans.flatMap((span) => span.logprobs));
  const mean = (values: readonly number[]): number => (values.length === 0 ? 0 : values.reduce((a, b) => a + b, 0) / values.length);
  return {
    entropy: 0 - mean(logprobs),
    repetition: mean(completions.map(repetitionOf)),
    length: mean(completions.map((spans) => spans.reduce((sum, { ids }) => sum + ids.length, 0))),
    ...(kl === undefined ? {} : { kl }),
  };
}

function repetitionOf(spans: readonly SampledSpan[]): number {
  let [total, repeated] = [0, 0];
  const seen = new Set<string>();
  for (const { ids } of spans) {
    for (let t = 0; t + gram <= ids.length; t++) {
      const key = ids.slice(t, t + gram).join(" ");
      total++;
      if (seen.has(key)) repeated++;
      seen.add(key);
    }
  }
  return total === 0 ? 0 : repeated / total;
}

const window = 5;
/** Entropy and length as shares of what they were at first, repetition as a rise, KL in nats a token and step. */
const bounds = { entropy: 0.05, repetition: 0.4, shorter: 0.2, longer: 5, klRate: 0.1 };

const means = z.strictObject({ entropy: z.number(), repetition: z.number(), length: z.number(), kl: z.number().exactOptional() });
const stateSchema = z.strictObject({ first: z.array(means), recent: z.array(means), told: z.array(z.string()) });

export class CollapseDetector {
  readonly #first: Health[] = [];
  readonly #recent: Health[] = [];
  readonly #told: string[] = [];

  constructor(state?: Json) {
    if (state === undefined) return;
    const parsed = stateSchema.safeParse(state);
    if (!parsed.success) throw new RunError(expected("checkpoint: collapse", "what a detector wrote", JSON.stringify(state).slice(0, 60)));
    this.#first.push(...parsed.data.first);
    this.#recent.push(...parsed.data.recent);
    this.#told.push(...parsed.data.told);
  }

  get state(): JsonObject {
    return { first: [...this.#first], recent: [...this.#recent], told: [...this.#told] } as unknown as JsonObject;
  }

  /** A sign that was not told before, if there is one after this step. */
  observe(step: number, health: Health): Collapse | undefined {
    if (this.#first.length < window) this.#first.push(health);
    this.#recent.push(health);
    if (this.#recent.length > 2 * window) this.#recent.shift();
    if (this.#recent.length < 2 * window) return undefined;
    const found = signs(this.#first, this.#recent).find(([name]) => !this.#told.includes(name));
    if (found === undefined) return undefined;
    this.#told.push(found[0]);
    return { sign: found[1], since: step - 2 * window + 1 };
  }
}

function signs(first: readonly Health[], recent: readonly Health[]): [string, string][] {
  const mean = (steps: readonly Health[], of: (step: Health) => number): number =>
    steps.reduce((sum, step) => sum + of(step), 0) / steps.length;
  const last = recent.slice(window);
  const [entropy, entropyAtFirst] = [mean(last, (step) => step.entropy), mean(first, (step) => step.entropy)];
  const [repetition, repetitionAtFirst] = [mean(last, (step) => step.repetition), mean(first, (step) => step.repetition)];
  const [length, lengthAtFirst] = [mean(last, (step) => step.length), mean(first, (step) => step.length)];
  const klOf = (step: Health): number => step.kl ?? 0;
  const klRate = (mean(last, klOf) - mean(recent.slice(0, window), klOf)) / window;
  const two = (now: number, before: number, unit: string): string => `${now.toPrecision(2)} ${unit} (at first ${before.toPrecision(2)})`;
  const found: [string, string][] = [];
  if (entropy < bounds.entropy * entropyAtFirst) found.push(["entropy", `entropy fell to ${two(entropy, entropyAtFirst, "nats a token")}`]);
  if (repetition > repetitionAtFirst + bounds.repetition)
    found.push(["repetition", `repeated 4-grams rose to ${two(repetition, repetitionAtFirst, "of all")}`]);
  if (length < bounds.shorter * lengthAtFirst || length > bounds.longer * lengthAtFirst)
    found.push(["length", `completions have ${two(length, lengthAtFirst, "tokens")}`]);
  if (klRate > bounds.klRate) found.push(["kl", `KL to the reference grows by ${klRate.toPrecision(2)} nats a token and step`]);
  return found;
}
