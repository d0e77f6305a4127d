/** The head over chosen positions: log-probs (and entropy) of given tokens, and the way back to the hidden states. */
import type { HostTensor} from "../../tensor/host.ts";
import { integers, floats } from "../../tensor/host.ts";
import type { Gradients, Machine, Pass } from "./forward.ts";
import type { MicroBatch } from "./packing.ts";
import { prefixOf } from "./packing.ts";

/** Where each trained token of a micro-batch is, in slot order. */
export interface Selection {
  /** Row of hidden [B * T, D] whose logits predict the token. */
  readonly source: Int32Array;
  readonly targets: Int32Array;
  readonly inverseTemperature: Float32Array;
  /** Index among the micro-batch's real rows. */
  readonly row: Int32Array;
  readonly rowCount: number;
  /** Index among the micro-batch's units. */
  readonly unit: Int32Array;
  readonly unitCount: number;
}

/** A position after the last token has no target; it is given id 0, and only the scalar head may read it. */
export function select(micro: MicroBatch): Selection {
  const source: number[] = [];
  const targets: number[] = [];
  const inverseTemperature: number[] = [];
  const row: number[] = [];
  const unit: number[] = [];
  const units = new Map<number, number>();
  let rowCount = 0;
  micro.slots.forEach((slot, b) => {
    if (slot === undefined) return;
    const start = b * micro.length - prefixOf(micro, b);
    if (!units.has(slot.unit)) units.set(slot.unit, units.size);
    for (const t of slot.row.trained) {
      source.push(start + t - 1);
      targets.push(slot.row.ids[t] ?? 0);
      inverseTemperature.push(1 / slot.row.temperature);
      row.push(rowCount);
      unit.push(units.get(slot.unit)!);
    }
    rowCount++;
  });
  return {
    source: Int32Array.from(source),
    targets: Int32Array.from(targets),
    inverseTemperature: Float32Array.from(inverseTemperature),
    row: Int32Array.from(row),
    rowCount,
    unit: Int32Array.from(unit),
    unitCount: units.size,
  };
}

/** Hidden states of the positions in `source`, [N, D], in a lent buffer. */
export function gatherRows({ pool, model }: Machine, pass: Pass, source: Int32Array): HostTensor {
  const width = model.architecture.hidden;
  const out = pool.take([source.length, width]);
  source.forEach((at, i) => out.floats.set(pass.hidden!.floats.subarray(at * width, (at + 1) * width), i * width));
  return out;
}

/** dHidden[source[i]] += rows[i]. */
export function addRows(dHidden: HostTensor, { rows, source }: { readonly rows: HostTensor; readonly source: Int32Array }): void {
  const width = rows.shape[1]!;
  const [target, added] = [dHidden.floats, rows.floats];
  source.forEach((to, i) => {
    for (let j = 0; j < width; j++) target[to * width + j] = target[to * width + j]! + added[i * width + j]!;
  });
}

interface HeadOptions {
  readonly variant: string;
  readonly entropy: boolean;
  /** Logits that may be kept for the backward pass, in bytes; beyond it they are computed again, chunk by chunk. */
  readonly logitBytes: number;
}

interface Chunk {
  readonly start: number;
  readonly end: number;
  readonly feeds: Record<string, HostTensor>;
  readonly logits: HostTensor | undefined;
}

export interface HeadResult {
  readonly logprobs: Float32Array;
  readonly entropy: Float32Array | undefined;
  readonly chunks: readonly Chunk[];
  readonly save: boolean;
}

/** Runs the head over the selected rows, in chunks whose logits fit into half of `logitBytes`. */
export async function runHead(
  machine: Machine,
  { pass, selection }: { pass: Pass; selection: Selection },
  options: HeadOptions & { backward: boolean },
): Promise<HeadResult> {
  const { model, programs, pool } = machine;
  const { vocabulary } = model.architecture;
  const count = selection.source.length;
  const save = options.backward && count * vocabulary * 4 <= options.logitBytes;
  const size = save ? Math.max(1, count) : Math.max(1, Math.floor(options.logitBytes / 2 / (vocabulary * 4)));
  const program = await programs.headForward({ entropy: options.entropy, save });
  const logprobs = new Float32Array(count);
  const entropy = options.entropy ? new Float32Array(count) : undefined;
  const chunks: Chunk[] = [];
  for (let start = 0; start < count; start += size) {
    const end = Math.min(count, start + size);
    const hidden = gatherRows(machine, pass, selection.source.subarray(start, end));
    const feeds = {
      ...model.feeds(options.variant, "head"),
      hidden,
      targets: integers(selection.targets.subarray(start, end), [end - start, 1]),
      inverseTemperature: floats(selection.inverseTemperature.subarray(start, end), [end - start, 1]),
    };
    const result = await program.run(feeds, { pool });
    logprobs.set(result["logprobs"]!.floats, start);
    entropy?.set(result["entropy"]!.floats, start);
    pool.give(result["logprobs"], result["entropy"]);
    if (options.backward) chunks.push({ start, end, feeds, logits: result["logits"] });
    else pool.give(hidden);
  }
  return { logprobs, entropy, chunks, save };
}

/** Adds the gradients of the log-probs (and entropy) into dHidden [B * T, D] and into the head's parameters' buffers. */
export async function headBackward(
  machine: Machine,
  { head, selection, dHidden }: { head: HeadResult; selection: Selection; dHidden: HostTensor },
  {
    dLogprobs,
    dEntropy,
    trainable,
    gradients,
  }: { dLogprobs: Float32Array; dEntropy: Float32Array | undefined; trainable: readonly string[]; gradients: Gradients },
): Promise<void> {
  const { programs, pool } = machine;
  const program = await programs.headBackward({ entropy: dEntropy !== undefined, save: head.save, trainable });
  const buffers = trainable.map((name) => [name, gradients.buffers.get(name)!] as const);
  const into = Object.fromEntries(buffers.map(([name, buffer]) => [`grad:${name}`, buffer]));
  const accumulators = Object.fromEntries(buffers.map(([name, buffer]) => [`acc:${name}`, buffer]));
  for (const { start, end, feeds, logits } of head.chunks) {
    const seeds = {
      dLogprobs: floats(dLogprobs.subarray(start, end)),
      ...(dEntropy === undefined ? {} : { dEntropy: floats(dEntropy.subarray(start, end)) }),
    };
    const result = await program.run({ ...feeds, ...accumulators, ...seeds, ...(logits === undefined ? {} : { logits }) }, { into, pool });
    addRows(dHidden, { rows: result["dHidden"]!, source: selection.source.subarray(start, end) });
    pool.give(result["dHidden"], logits, feeds["hidden"]);
  }
}
