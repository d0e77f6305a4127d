/** Training on a local model: gradients accumulated over micro-batches, then one AdamW update of the shared arrays. */
import { PolicyError, expected } from "../../../errors.ts";
import type { AdamWOptions, Batch, ForwardBackwardResult, Loss, OptimResult, TrainRow } from "../../../types.ts";
import { AdamW, type AdamWState } from "../../tensor/adamw.ts";
import { HostTensor } from "../../tensor/host.ts";
import { release, runBackward, runForward, type Gradients, type Machine, type PassOptions } from "./forward.ts";
import { headBackward, runHead, select, type Selection } from "./head.ts";
import { LossProgram } from "./loss-program.ts";
import { pack, type MicroBatch } from "./packing.ts";
import { residualBytes } from "./memory.ts";

export interface TrainerOptions {
  /** Padded tokens of one micro-batch. */
  readonly microBatchTokens: number;
  /** Bytes that residuals of one micro-batch may take; above it a layer's work is done again in the backward pass. */
  readonly residualBudget: number;
  /** Bytes that logits may take. */
  readonly logitBudget: number;
}

/** First and second moments of one parameter. */
interface Moments {
  readonly first: HostTensor;
  readonly second: HostTensor;
}

export class Trainer {
  readonly #machine: Machine;
  readonly #options: TrainerOptions;
  readonly #losses = new Map<string, LossProgram>();
  #adamw: AdamW | undefined;
  #gradients: Map<string, HostTensor> | undefined;
  /** Whether the buffers hold the gradients of a batch. */
  #held = false;
  /** Trainable parameters by full name: the arrays that sampling reads too. */
  readonly trainable: ReadonlyMap<string, HostTensor>;
  readonly moments = new Map<string, Moments>();
  readonly variant: string;
  /** Updates made. */
  updates = 0;

  constructor(
    machine: Machine,
    { variant, trainable, ...options }: TrainerOptions & { variant: string; trainable: ReadonlyMap<string, HostTensor> },
  ) {
    this.#machine = machine;
    this.#options = options;
    this.variant = variant;
    this.trainable = trainable;
  }

  #gradientBuffers(): Gradients {
    this.#gradients ??= new Map(
      [...this.trainable].map(([name, { shape, data }]) => [name, new HostTensor(new Float32Array(data.length), shape)]),
    );
    return { buffers: this.#gradients };
  }

  /** Runs `body` under an abort signal. */
  async #abortable<T>(signal: AbortSignal | undefined, body: () => Promise<T>): Promise<T> {
    this.#machine.signal = signal;
    try {
      return await body();
    } finally {
      this.#machine.signal = undefined;
    }
  }

  /** Log-probs of the trained positions, by row, under any variant of the weights. */
  logprobs(rows: readonly TrainRow[], variant: string, signal?: AbortSignal): Promise<Float32Array[]> {
    return this.#abortable(signal, () => this.#logprobs(rows, variant));
  }

  async #logprobs(rows: readonly TrainRow[], variant: string): Promise<Float32Array[]> {
    checkRows(rows, this.#machine.model.architecture);
    const results: Float32Array[] = [];
    const units = unitsByPrompt(rows);
    for (const micro of pack({ units, scalars: {} }, this.#options.microBatchTokens)) {
      const passes = await runForward(this.#machine, micro, { variant, keep: "nothing" });
      const selection = select(micro);
      const head = await runHead(
        this.#machine,
        { pass: passes.rows, selection },
        { variant, entropy: false, logitBytes: this.#options.logitBudget, backward: false },
      );
      scatter(micro, { values: head.logprobs, put: (unit, index, values) => (results[units[unit]!.from + index] = values) });
      release(this.#machine.pool, passes.rows);
    }
    return results;
  }

  /** Adds the gradients of `loss` over `batch` to those held. A failure or an abort on the way drops all that are held. */
  forwardBackward(batch: Batch, loss: Loss, signal?: AbortSignal): Promise<ForwardBackwardResult> {
    return this.#abortable(signal, () => this.#forwardBackward(batch, loss));
  }

  async #forwardBackward(batch: Batch, loss: Loss): Promise<ForwardBackwardResult> {
    const rows = batch.units.flatMap((unit) => unit.rows);
    checkRows(rows, this.#machine.model.architecture);
    const program = await this.#loss(loss);
    checkFields(rows, program);
    try {
      return await this.#overMicroBatches(batch, program);
    } catch (error) {
      this.clearGradients();
      throw error;
    }
  }

  async #overMicroBatches(batch: Batch, program: LossProgram): Promise<ForwardBackwardResult> {
    const logprobs = batch.units.map((unit) => new Array<Float32Array>(unit.rows.length));
    const metrics: Record<string, number> = {};
    let [total, trained, processed] = [0, 0, 0];
    for (const micro of pack(batch, this.#options.microBatchTokens)) {
      const result = await this.#microBatch(micro, { program, scalars: batch.scalars });
      total += result.loss;
      for (const [name, value] of Object.entries(result.metrics)) metrics[name] = (metrics[name] ?? 0) + value;
      scatter(micro, { values: result.logprobs, put: (unit, index, values) => (logprobs[unit]![index] = values) });
      trained += result.logprobs.length;
      processed += micro.slots.length * micro.length + micro.groups.length * micro.prefixLength;
    }
    return { loss: total, metrics, logprobs, tokens: { trained, processed } };
  }

  async #microBatch(
    micro: MicroBatch,
    { program, scalars }: { program: LossProgram; scalars: Batch["scalars"] },
  ): Promise<{ loss: number; metrics: Readonly<Record<string, number>>; logprobs: Float32Array }> {
    const { variant, trainable } = this;
    const machine = this.#machine;
    const fits = residualBytes(machine.model.architecture, micro) <= this.#options.residualBudget;
    const keep: PassOptions["keep"] = fits ? "residuals" : "inputs";
    const passes = await runForward(machine, micro, { variant, keep });
    const selection = select(micro);
    const head = await runHead(
      machine,
      { pass: passes.rows, selection },
      { variant, entropy: program.usesEntropy, logitBytes: this.#options.logitBudget, backward: true },
    );
    const fields = gatherFields(micro, program.fields, selection);
    const loss = await program.run({
      logprobs: head.logprobs,
      entropy: head.entropy,
      row: selection.row,
      rowCount: selection.rowCount,
      fields,
      scalars,
    });
    const gradients = this.#gradientBuffers();
    this.#held = true;
    const names = [...trainable.keys()];
    const headNames = names.filter(
      (name) => /^(finalNorm\.|head\.)/.test(name) || (machine.model.architecture.tied && name === "embed.weight"),
    );
    const seeds = { dLogprobs: loss.dLogprobs, dEntropy: loss.dEntropy };
    const dHidden = await headBackward(machine, { head, pass: passes.rows, selection }, { ...seeds, trainable: headNames, gradients });
    machine.pool.give(passes.rows.hidden);
    passes.rows.hidden = undefined;
    const layerNames = names.filter((name) => name.startsWith("layers.0.")).map((name) => name.slice(9));
    await runBackward(machine, passes, { dHidden, keep, trainable: layerNames, variant, gradients });
    return { loss: loss.loss, metrics: loss.metrics, logprobs: head.logprobs };
  }

  async #loss(loss: Loss): Promise<LossProgram> {
    let program = this.#losses.get(loss.key);
    if (program === undefined) this.#losses.set(loss.key, (program = await LossProgram.compile(loss)));
    return program;
  }

  /** One AdamW update with the held gradients, which are cleared. A non-finite gradient changes nothing and is named. */
  async optimStep(options: AdamWOptions): Promise<OptimResult> {
    if (this.#gradients === undefined || !this.#held)
      throw new PolicyError(expected("optimStep", "gradients from forwardBackward", "none"));
    let squared = 0;
    for (const [name, { floats }] of this.#gradients) {
      const sum = sumOfSquares(floats);
      if (!Number.isFinite(sum)) {
        const value = floats.find((x) => !Number.isFinite(x)) ?? sum;
        this.clearGradients();
        return { type: "skipped", tensor: name, value };
      }
      squared += sum;
    }
    const gradNorm = Math.sqrt(squared);
    const clipped = options.maxGradNorm > 0 && gradNorm > options.maxGradNorm;
    this.#adamw ??= await AdamW.compile();
    const states = [...this.trainable].map(([name, weight]): AdamWState => {
      const { first, second } = this.#moment(name, weight);
      const decay = weight.shape.length > 1 ? options.weightDecay : 0;
      return { weight: weight.floats, gradient: this.#gradients!.get(name)!.floats, first: first.floats, second: second.floats, decay };
    });
    const gradientScale = clipped ? options.maxGradNorm / (gradNorm + 1e-6) : 1;
    this.updates++;
    await this.#adamw.step(states, { ...options, step: this.updates, gradientScale });
    this.clearGradients();
    return { type: "stepped", gradNorm, clipped };
  }

  #moment(name: string, { shape, data }: HostTensor): Moments {
    let moments = this.moments.get(name);
    if (moments === undefined) {
      const zeros = (): HostTensor => new HostTensor(new Float32Array(data.length), shape);
      this.moments.set(name, (moments = { first: zeros(), second: zeros() }));
    }
    return moments;
  }

  /** A copy of the held gradient of a parameter, for tests and tools. */
  gradient(name: string): Float32Array {
    const held = this.#gradients?.get(name);
    if (held === undefined) throw new PolicyError(expected("gradient", "a trainable parameter that has one", name));
    return held.floats.slice();
  }

  clearGradients(): void {
    this.#held = false;
    for (const { floats } of this.#gradients?.values() ?? []) floats.fill(0);
  }

  async close(): Promise<void> {
    for (const program of this.#losses.values()) await program.close();
    await this.#adamw?.close();
    this.#losses.clear();
    this.#gradients = undefined;
    this.moments.clear();
  }
}

/** Rows with the same prompt next to each other become one unit, so that the prompt is computed once. */
function unitsByPrompt(rows: readonly TrainRow[]): { rows: TrainRow[]; from: number }[] {
  const units: { rows: TrainRow[]; from: number }[] = [];
  rows.forEach((row, i) => {
    const last = units.at(-1);
    const head = last?.rows[0];
    const same =
      head !== undefined && head.trained[0] === row.trained[0] && head.ids.subarray(0, head.trained[0]).every((id, t) => id === row.ids[t]);
    if (same) last!.rows.push(row);
    else units.push({ rows: [row], from: i });
  });
  return units;
}

function scatter(
  micro: MicroBatch,
  { values, put }: { values: Float32Array; put: (unit: number, index: number, values: Float32Array) => void },
): void {
  let at = 0;
  for (const slot of micro.slots) {
    if (slot === undefined) continue;
    put(slot.unit, slot.index, values.slice(at, at + slot.row.trained.length));
    at += slot.row.trained.length;
  }
}

function gatherFields(micro: MicroBatch, names: readonly string[], selection: Selection): Map<string, Float32Array> {
  const fields = new Map(names.map((name) => [name, new Float32Array(selection.source.length)]));
  let at = 0;
  for (const slot of micro.slots) {
    if (slot === undefined) continue;
    for (const [name, values] of fields) values.set(slot.row.fields[name]!, at);
    at += slot.row.trained.length;
  }
  return fields;
}

function sumOfSquares(values: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i]! * values[i]!;
  return sum;
}

/** Refuses rows that cannot be trained on: too long, unknown ids, nothing trained, positions out of order. */
function checkRows(rows: readonly TrainRow[], { context, vocabulary }: { context: number; vocabulary: number }): void {
  rows.forEach(({ ids, trained, temperature }, i) => {
    const where = `training row ${i}`;
    if (ids.length > context) throw new PolicyError(expected(where, `at most ${context} tokens (the model's context)`, String(ids.length)));
    if (trained.length === 0) throw new PolicyError(expected(where, "at least one trained token", "0"));
    const wrong = ids.findIndex((id) => id < 0 || id >= vocabulary);
    if (wrong >= 0) throw new PolicyError(expected(`${where} position ${wrong}`, `a token id below ${vocabulary}`, String(ids[wrong])));
    trained.forEach((t, j) => {
      if (t < 1 || t >= ids.length || (j > 0 && t <= trained[j - 1]!))
        throw new PolicyError(expected(`${where} trained[${j}]`, `an increasing position in 1..${ids.length - 1}`, String(t)));
    });
    if (!(temperature > 0)) throw new PolicyError(expected(`${where} temperature`, "above 0", String(temperature)));
  });
}

function checkFields(rows: readonly TrainRow[], program: LossProgram): void {
  rows.forEach(({ fields, trained }, i) => {
    for (const name of program.fields) {
      const length = fields[name]?.length;
      if (length !== trained.length)
        throw new PolicyError(
          expected(`training row ${i} field ${name}`, `${trained.length} values, one for each trained token`, String(length ?? "none")),
        );
    }
  });
}
