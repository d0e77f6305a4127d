/** Training one adapter (or all weights): gradients accumulated over micro-batches, then one AdamW update of the shared arrays. */
import { PolicyError, expected } from "../../../errors.ts";
import type { AdamWOptions, Batch, ForwardBackwardResult, Loss, OptimResult } from "../../../types.ts";
import type { AdamWState } from "../../tensor/adamw.ts";
import { HostTensor } from "../../tensor/host.ts";
import { runBackward, runForward, type Gradients, type Machine, type Pass, type PassOptions } from "./forward.ts";
import { headBackward, runHead, select, type HeadResult, type Selection } from "./head.ts";
import type { LossProgram } from "./loss-program.ts";
import { residualBytes } from "./memory.ts";
import { pack, type MicroBatch } from "./packing.ts";
import { checkFields, checkRows, gatherFields, scatter } from "./rows.ts";
import { abortable } from "./scoring.ts";
import { releaseValues, runValues, valueBackward, type ValueResult } from "./value-head.ts";

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

/** A micro-batch after its forward pass. */
interface Forward {
  readonly micro: MicroBatch;
  readonly passes: { readonly prefix: Pass | undefined; readonly rows: Pass };
  readonly selection: Selection;
  readonly keep: PassOptions["keep"];
  readonly head: HeadResult | undefined;
  readonly values: ValueResult | undefined;
}

type LossResult = Awaited<ReturnType<LossProgram["run"]>>;

export class Trainer {
  readonly #machine: Machine;
  readonly #options: TrainerOptions;
  #gradients: Map<string, HostTensor> | undefined;
  /** Whether the buffers hold the gradients of a batch, and the losses that they are of, summed. */
  #held = false;
  #heldLoss = 0;
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

  /** Adds the gradients of `loss` over `batch` to those held. A failure or an abort on the way drops all that are held. */
  forwardBackward(batch: Batch, loss: Loss, signal?: AbortSignal): Promise<ForwardBackwardResult> {
    return abortable(this.#machine, signal, () => this.#forwardBackward(batch, loss));
  }

  async #forwardBackward(batch: Batch, loss: Loss): Promise<ForwardBackwardResult> {
    const { model, programs } = this.#machine;
    const program = await programs.loss(loss);
    if (program.reads.has("values")) model.needScalarHead(this.variant, `loss ${loss.key}`);
    const rows = batch.units.flatMap((unit) => unit.rows);
    checkRows(rows, { ...model.architecture, end: !program.reads.has("logprobs") && !program.reads.has("entropy") });
    checkFields(rows, program.fields);
    try {
      return await this.#overMicroBatches(batch, program);
    } catch (error) {
      this.clearGradients();
      throw error;
    }
  }

  async #overMicroBatches(batch: Batch, program: LossProgram): Promise<ForwardBackwardResult> {
    const logprobs = batch.units.map((unit) => unit.rows.map((): Float32Array => new Float32Array(0)));
    const metrics: Record<string, number> = {};
    let [total, trained, processed] = [0, 0, 0];
    for (const micro of pack(batch, this.#options.microBatchTokens)) {
      const forward = await this.#forward(micro, program);
      const { selection, head } = forward;
      const result = await program.run({
        logprobs: head?.logprobs,
        entropy: head?.entropy,
        values: forward.values?.values,
        ...selection,
        fields: gatherFields(micro, program.fields, selection.row.length),
        scalars: batch.scalars,
      });
      await this.#backward(forward, program, result);
      total += result.loss;
      for (const [name, value] of Object.entries(result.metrics)) metrics[name] = (metrics[name] ?? 0) + value;
      if (head !== undefined) scatter(micro, { values: head.logprobs, put: (unit, index, values) => (logprobs[unit]![index] = values) });
      trained += selection.row.length;
      processed += micro.slots.length * micro.length + micro.groups.length * micro.prefixLength;
    }
    this.#heldLoss += total;
    return { loss: total, metrics, logprobs, tokens: { trained, processed } };
  }

  /** The layers, and of the two heads those that the loss reads. */
  async #forward(micro: MicroBatch, { reads, slopes }: LossProgram): Promise<Forward> {
    const { variant } = this;
    const machine = this.#machine;
    const fits = residualBytes(machine.model.architecture, micro) <= this.#options.residualBudget;
    const keep: PassOptions["keep"] = fits ? "residuals" : "inputs";
    const passes = await runForward(machine, micro, { variant, keep });
    const selection = select(micro);
    const at = { pass: passes.rows, selection };
    const backward = slopes.has("logprobs") || slopes.has("entropy");
    const options = { variant, entropy: reads.has("entropy"), logitBytes: this.#options.logitBudget, backward };
    const head = reads.has("logprobs") || reads.has("entropy") ? await runHead(machine, at, options) : undefined;
    const values = reads.has("values") ? await runValues(machine, at, variant) : undefined;
    return { micro, passes, selection, keep, head, values };
  }

  /** From the gradients of the readings back to those of the trainable parameters. */
  async #backward({ passes, selection, keep, head, values }: Forward, { slopes }: LossProgram, seeds: LossResult): Promise<void> {
    const { variant } = this;
    const machine = this.#machine;
    const { pool, model } = machine;
    const gradients = this.#gradientBuffers();
    this.#held = true;
    const names = [...this.trainable.keys()];
    const dHidden = pool.take(passes.rows.hidden!.shape);
    dHidden.floats.fill(0);
    if (head !== undefined && (slopes.has("logprobs") || slopes.has("entropy"))) {
      const isHead = (name: string): boolean => /^(finalNorm\.|head\.)/.test(name) || (model.architecture.tied && name === "embed.weight");
      await headBackward(machine, { head, selection, dHidden }, { ...seeds, trainable: names.filter(isHead), gradients });
    }
    if (values !== undefined && seeds.dValues !== undefined)
      await valueBackward(machine, { head: values, selection, dHidden }, { dValues: seeds.dValues, gradients });
    else if (values !== undefined) releaseValues(machine, values);
    pool.give(passes.rows.hidden);
    passes.rows.hidden = undefined;
    const layerNames = names.filter((name) => name.startsWith("layers.0.")).map((name) => name.slice(9));
    await runBackward(machine, passes, { dHidden, keep, trainable: layerNames, variant, gradients });
  }

  /**
   * One AdamW update with the held gradients, which are cleared. A gradient (named by its tensor) or a loss ("loss") that is
   * not finite changes nothing.
   */
  async optimStep(options: AdamWOptions): Promise<OptimResult> {
    const held = this.#heldGradients("optimStep");
    let squared = 0;
    for (const [name, { floats }] of held) {
      const sum = sumOfSquares(floats);
      if (!Number.isFinite(sum)) return this.#skip(name, floats.find((x) => !Number.isFinite(x)) ?? sum);
      squared += sum;
    }
    if (!Number.isFinite(this.#heldLoss)) return this.#skip("loss", this.#heldLoss);
    const gradNorm = Math.sqrt(squared);
    const clipped = options.maxGradNorm > 0 && gradNorm > options.maxGradNorm;
    const adamw = await this.#machine.programs.adamw();
    const states = [...this.trainable].map(([name, weight]): AdamWState => {
      const { first, second } = this.#moment(name, weight);
      const decay = weight.shape.length > 1 ? options.weightDecay : 0;
      return { weight: weight.floats, gradient: held.get(name)!.floats, first: first.floats, second: second.floats, decay };
    });
    const gradientScale = clipped ? options.maxGradNorm / (gradNorm + 1e-6) : 1;
    this.updates++;
    await adamw.step(states, { ...options, step: this.updates, gradientScale });
    this.clearGradients();
    return { type: "stepped", gradNorm, clipped };
  }

  #skip(tensor: string, value: number): OptimResult {
    this.clearGradients();
    return { type: "skipped", tensor, value };
  }

  #heldGradients(what: string): ReadonlyMap<string, HostTensor> {
    if (this.#gradients === undefined || !this.#held)
      throw new PolicyError(expected(what, "gradients from forwardBackward", "none"));
    return this.#gradients;
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

  /** All held gradients one after another, in the order of `trainable`; they are cleared. */
  takeGradient(): Float32Array {
    const held = this.#heldGradients("takeGradient");
    const parts = [...this.trainable.keys()].map((name) => held.get(name)!.floats);
    const flat = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
      flat.set(part, at);
      at += part.length;
    }
    this.clearGradients();
    return flat;
  }

  /** weights += scale * direction, flat in the order of `trainable`; counted as an update unless nothing moves. */
  move(direction: Float32Array, scale: number): boolean {
    const size = [...this.trainable.values()].reduce((sum, { data }) => sum + data.length, 0);
    if (direction.length !== size) throw new PolicyError(expected("move direction", `${size} numbers`, String(direction.length)));
    const wrong = direction.findIndex((value) => !Number.isFinite(value));
    if (wrong >= 0) throw new PolicyError(expected(`move direction[${wrong}]`, "a finite number", String(direction[wrong])));
    if (!Number.isFinite(scale)) throw new PolicyError(expected("move scale", "a finite number", String(scale)));
    if (scale === 0 || direction.every((value) => value === 0)) return false;
    let at = 0;
    for (const { floats } of this.trainable.values()) {
      for (let i = 0; i < floats.length; i++) floats[i] = floats[i]! + scale * direction[at++]!;
    }
    this.updates++;
    return true;
  }

  clearGradients(): void {
    this.#held = false;
    this.#heldLoss = 0;
    for (const { floats } of this.#gradients?.values() ?? []) floats.fill(0);
  }

  /** The weights are new: what was learnt about the old ones is dropped. */
  reset(): void {
    this.clearGradients();
    this.moments.clear();
    this.updates = 0;
  }

  /** Frees gradients and moments. */
  close(): void {
    this.#gradients = undefined;
    this.moments.clear();
  }
}

function sumOfSquares(values: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i]! * values[i]!;
  return sum;
}
