/** One token for every running sequence: what the decoding program is fed, and what its answer does to the sequences. */
import { PolicyError, expected } from "../../../errors.ts";
import { uniform } from "../../../random.ts";
import type { TokenLogprob } from "../../../types.ts";
import { floats, HostTensor, integers } from "../../tensor/host.ts";
import type { Machine } from "./forward.ts";
import type { KvCache } from "./kv-cache.ts";
import { causalMask, positionsOf } from "./packing.ts";
import { blockSize } from "./sampling.ts";
import type { Sequence } from "./sequence.ts";

/** Runs the program once on rows 0..active.length-1 of the cache, and adds a token to each sequence. */
export async function decodeStep({ model, programs, pool }: Machine, active: readonly Sequence[], cache: KvCache): Promise<void> {
  const starts = active.map(({ cached }) => cached);
  cache.reserve(active.length, Math.max(...starts) + 1, active.length);
  const { vocabulary, context } = model.architecture;
  const allowed = allowedIds(active, { vocabulary, context });
  const { variant } = active[0]!;
  const program = await programs.decode({
    lora: model.loraOf(variant),
    greedy: active.some(({ request }) => request.temperature === 0),
    masked: allowed !== undefined,
    logits: active.some(({ request }) => (request.topLogprobs ?? 0) > 0),
  });
  const results = await program.run(
    {
      ...model.feeds(variant, "all"),
      ...cache.view(0, active.length),
      ids: integers(
        active.map(({ ids }) => ids.at(-1)!),
        [active.length, 1],
      ),
      positions: positionsOf(starts, 1, context),
      mask: causalMask(starts, 1, cache.capacity),
      ...drawInputs(active, vocabulary),
      ...(allowed === undefined ? {} : { allowed }),
    },
    { pool },
  );
  cache.append(results, 0, { starts, counts: starts.map(() => 1) });
  const drawn = results["id"]!.data as BigInt64Array;
  active.forEach((sequence, row) => {
    const token = { id: Number(drawn[row]!), logprob: results["logprob"]!.floats[row]! };
    sequence.ids.push(token.id);
    sequence.logprobs.push(token.logprob);
    sequence.cached++;
    const { topLogprobs = 0 } = sequence.request;
    const logits = (): Float32Array => results["logits"]!.floats.subarray(row * vocabulary, (row + 1) * vocabulary);
    tell(sequence, token, topLogprobs === 0 ? [] : likeliest(logits(), topLogprobs, token));
  });
  pool.give(...Object.values(results));
}

/** What the decoding program needs to draw a token for each row: see `sampleFromLogits`. */
function drawInputs(rows: readonly Sequence[], vocabulary: number): Record<string, HostTensor> {
  const blocks = Math.ceil(vocabulary / blockSize(vocabulary));
  const shape = [rows.length, 1];
  const inverse = ({ request: { temperature } }: Sequence): number => (temperature === 0 ? 1 : 1 / temperature);
  return {
    inverseTemperature: floats(rows.map(inverse), shape),
    uniform: floats(
      rows.map(({ key, logprobs }) => uniform(key, logprobs.length)),
      shape,
    ),
    rowOffset: integers(
      rows.map((_, row) => row * blocks),
      shape,
    ),
    isGreedy: new HostTensor(
      Uint8Array.from(rows, ({ request }) => Number(request.temperature === 0)),
      shape,
    ),
  };
}

/** [rows, vocabulary] of what may be drawn; undefined where no row is constrained. A constraint that fails ends its own sequence alone. */
function allowedIds(rows: readonly Sequence[], { vocabulary, context }: { vocabulary: number; context: number }): HostTensor | undefined {
  if (rows.every(({ constraint }) => constraint === undefined)) return undefined;
  const mask = new Uint8Array(rows.length * vocabulary);
  rows.forEach((sequence, row) => {
    const own = mask.subarray(row * vocabulary, (row + 1) * vocabulary);
    const { constraint, request, ids, logprobs } = sequence;
    if (constraint === undefined) return own.fill(1);
    try {
      constraint.allow(own, Math.min(request.maxTokens - logprobs.length, context - ids.length));
      if (!own.includes(1)) throw new PolicyError(expected("sample constraint", "at least one id that may come next", "none"));
    } catch (cause) {
      sequence.failed = cause instanceof Error ? cause : new Error(String(cause));
      own.fill(1);
    }
  });
  return new HostTensor(mask, [rows.length, vocabulary]);
}

function tell(sequence: Sequence, token: TokenLogprob, top: readonly TokenLogprob[]): void {
  if (sequence.failed !== undefined) return;
  try {
    sequence.constraint?.accept(token.id);
    sequence.request.onToken?.({ ...token, sample: sequence.sample, top });
  } catch (cause) {
    sequence.failed = cause instanceof Error ? cause : new Error(String(cause));
  }
}

/** The `count` largest logits with their log-probs; the drawn token, whose logit and log-prob are known, gives the normaliser. */
function likeliest(logits: Float32Array, count: number, drawn: TokenLogprob): TokenLogprob[] {
  const best: number[] = [];
  for (let id = 0; id < logits.length; id++) {
    if (best.length === count && logits[id]! <= logits[best[count - 1]!]!) continue;
    let place = best.length;
    while (place > 0 && logits[best[place - 1]!]! < logits[id]!) place--;
    best.splice(place, 0, id);
    if (best.length > count) best.pop();
  }
  const shift = drawn.logprob - logits[drawn.id]!;
  return best.map((id) => ({ id, logprob: logits[id]! + shift }));
}
