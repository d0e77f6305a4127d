/**
 * The compiled programs of a model. Training runs one pair of programs for all layers (weights are inputs), so that memory is
 * bounded by one layer's work; sampling runs the whole model in one call. Each is compiled on first use.
 */
import type { Loss } from "../../../types.ts";
import type { Architecture } from "../../models/architecture.ts";
import { block, embed, head, scalarHead, sizes, type Residuals, type Weights } from "../../models/decoder.ts";
import { loraShapes, type LoraOptions } from "../../models/lora.ts";
import { parameterShapes } from "../../models/parameters.ts";
import { scalarHeadName } from "../../models/scalar-head.ts";
import { AdamW } from "../../tensor/adamw.ts";
import { addDim, mulDim, type Dim } from "../../tensor/dim.ts";
import { gradients } from "../../tensor/gradients.ts";
import type { Tensor } from "../../tensor/graph.ts";
import * as o from "../../tensor/ops.ts";
import { Program } from "../../tensor/program.ts";
import { LossProgram } from "./loss-program.ts";
import { sampleFromLogits, type Draw } from "./sampling.ts";

export interface BlockOptions {
  readonly past: boolean;
  readonly lora: LoraOptions | undefined;
  /** Residuals leave the forward program and enter the backward one; else the backward program computes them again. */
  readonly save: boolean;
  /** Short names of the layer's parameters that get a gradient. */
  readonly trainable: readonly string[];
}

const batch = mulDim(sizes.groups, sizes.perGroup);
const flat = mulDim(batch, sizes.tokens);

export class Programs {
  readonly #architecture: Architecture;
  readonly #compiled = new Map<string, Promise<Program>>();
  readonly #losses = new Map<string, Promise<LossProgram>>();
  #adamw: Promise<AdamW> | undefined;

  constructor(architecture: Architecture) {
    this.#architecture = architecture;
  }

  #once(key: string, compile: () => Promise<Program>): Promise<Program> {
    let program = this.#compiled.get(key);
    if (program === undefined) this.#compiled.set(key, (program = compile()));
    return program;
  }

  /** x, positions, mask, (pastKeys, pastValues) -> y, keys, values and, if saved, the residuals. */
  blockForward(options: BlockOptions): Promise<Program> {
    return this.#once(`forward/${keyOf(options)}`, () => {
      const graph = this.#block(options);
      return Program.compile({ y: graph.y, keys: graph.keys, values: graph.values, ...(options.save ? graph.residuals : {}) });
    });
  }

  /**
   * Gradients dy (and, if `cacheSeeds`, dKeys, dValues) -> dx, (dPastKeys, dPastValues), and "grad:name" = "acc:name" + the gradient of
   * each trainable.
   */
  blockBackward(options: BlockOptions & { readonly cacheSeeds: boolean }): Promise<Program> {
    return this.#once(`backward/${keyOf(options)}/${options.cacheSeeds}/${options.trainable.join()}`, () => {
      const graph = this.#block(options);
      const seed = (name: string, tensor: Tensor): { tensor: Tensor; seed: Tensor } => ({ tensor, seed: o.input(name, tensor.shape) });
      const outputs = [seed("dy", graph.y), ...(options.cacheSeeds ? [seed("dKeys", graph.keys), seed("dValues", graph.values)] : [])];
      const past = graph.past === undefined ? [] : [graph.past.keys, graph.past.values];
      const trainable = options.trainable.map((name) => graph.parameters.get(name)!);
      const [dx, ...rest] = gradients(outputs, [graph.x, ...past, ...trainable]);
      const results: Record<string, Tensor> = { dx: dx! };
      if (past.length > 0) [results["dPastKeys"], results["dPastValues"]] = rest.slice(0, 2) as [Tensor, Tensor];
      options.trainable.forEach((name, i) => (results[`grad:${name}`] = accumulated(name, rest[past.length + i]!)));
      return Program.compile(results, { given: options.save ? { ...graph.residuals, keys: graph.keys, values: graph.values } : {} });
    });
  }

  #block({ past, lora }: BlockOptions): {
    x: Tensor;
    y: Tensor;
    keys: Tensor;
    values: Tensor;
    residuals: Residuals;
    past: { keys: Tensor; values: Tensor; length: typeof sizes.past } | undefined;
    parameters: Map<string, Tensor>;
  } {
    const a = this.#architecture;
    const parameters = new Map<string, Tensor>();
    for (const [name, shape] of [...parameterShapes(a), ...(lora === undefined ? [] : loraShapes(a, lora))]) {
      if (name.startsWith("layers.0.")) parameters.set(name.slice(9), o.input(name.slice(9), shape));
    }
    const x = o.input("x", [flat, a.hidden]);
    const pastShape = [sizes.groups, a.kvHeads, sizes.past, a.headDim];
    const pastTensors = past
      ? { keys: o.input("pastKeys", pastShape), values: o.input("pastValues", pastShape), length: sizes.past }
      : undefined;
    const result = block(x, (name) => parameters.get(name), {
      architecture: a,
      positions: o.input("positions", [batch, sizes.tokens], "int64"),
      tables: tableInputs(a),
      mask: o.input("mask", [batch, 1, sizes.tokens, past ? addDim(sizes.past, sizes.tokens) : sizes.tokens]),
      rows: { groups: sizes.groups, perGroup: sizes.perGroup, tokens: sizes.tokens },
      loraScale: lora === undefined ? 0 : lora.alpha / lora.rank,
      ...(pastTensors === undefined ? {} : { past: pastTensors }),
    });
    return { x, ...result, past: pastTensors, parameters };
  }

  /** hidden [N, D], inverseTemperature [N, 1], targets [N, 1] -> logprobs [N], entropy [N] if asked, logits if saved. */
  headForward({ entropy, save }: { entropy: boolean; save: boolean }): Promise<Program> {
    return this.#once(`head/${entropy}/${save}`, () => {
      const graph = this.#head();
      return Program.compile({
        logprobs: graph.logprobs,
        ...(entropy ? { entropy: graph.entropy } : {}),
        ...(save ? { logits: graph.logits } : {}),
      });
    });
  }

  /** Gradients dLogprobs, dEntropy -> dHidden and "grad:name" of the head's trainable parameters. */
  headBackward({ entropy, save, trainable }: { entropy: boolean; save: boolean; trainable: readonly string[] }): Promise<Program> {
    return this.#once(`head-backward/${entropy}/${save}/${trainable.join()}`, () => {
      const graph = this.#head();
      const dLogprobs = o.input("dLogprobs", [sizes.selected]);
      // Log-probs alone: dLogits = dLogprob (one-hot - softmax), two passes over the logits where the general rules take six.
      const column = o.reshape(dLogprobs, [sizes.selected, 1]);
      const outputs = entropy
        ? [{ tensor: graph.logprobs, seed: dLogprobs }, { tensor: graph.entropy, seed: o.input("dEntropy", [sizes.selected]) }]
        : [{ tensor: graph.logits, seed: o.addAtLast(o.mul(o.softmax(graph.logits), o.neg(column)), graph.targets, column) }];
      const wanted = trainable.map((name) => graph.parameters.get(name)!);
      const [dHidden, ...rest] = gradients(outputs, [graph.hidden, ...wanted]);
      const results: Record<string, Tensor> = { dHidden: dHidden! };
      trainable.forEach((name, i) => (results[`grad:${name}`] = accumulated(name, rest[i]!)));
      return Program.compile(results, { given: save ? { logits: graph.logits } : {} });
    });
  }

  #head(): { hidden: Tensor; targets: Tensor; logits: Tensor; logprobs: Tensor; entropy: Tensor; parameters: Map<string, Tensor> } {
    const a = this.#architecture;
    const parameters = new Map<string, Tensor>();
    for (const [name, shape] of parameterShapes(a)) if (!name.startsWith("layers.")) parameters.set(name, o.input(name, shape));
    const hidden = o.input("hidden", [sizes.selected, a.hidden]);
    const logits = head(hidden, (name) => parameters.get(name), {
      architecture: a,
      inverseTemperature: o.input("inverseTemperature", [sizes.selected, 1]),
    });
    const shifted = o.sub(logits, o.stopGradient(o.maximum(logits, { axes: [-1], keep: true })));
    const total = o.log(o.sum(o.exp(shifted), { axes: [-1], keep: true }));
    const targets = o.input("targets", [sizes.selected, 1], "int64");
    const chosen = o.takeLast(shifted, targets);
    const expectedLogit = o.sum(o.mul(o.softmax(logits), shifted), { axes: [-1] });
    return {
      hidden,
      targets,
      logits,
      logprobs: o.reshape(o.sub(chosen, total), [sizes.selected]),
      entropy: o.sub(o.reshape(total, [sizes.selected]), expectedLogit),
      parameters,
    };
  }

  /** hidden [N, D] -> values [N]. */
  valueForward(): Promise<Program> {
    return this.#once("values", () => Program.compile({ values: this.#values().values }));
  }

  /** Gradient dValues [N] -> dHidden and, if the head is trained, its "grad:" of an "acc:". */
  valueBackward(trained: boolean): Promise<Program> {
    return this.#once(`values-backward/${trained}`, () => {
      const { hidden, values, weight } = this.#values();
      const seed = o.input("dValues", [sizes.selected]);
      const [dHidden, dWeight] = gradients([{ tensor: values, seed }], [hidden, weight]);
      return Program.compile({
        dHidden: dHidden!,
        ...(trained ? { [`grad:${scalarHeadName}`]: accumulated(scalarHeadName, dWeight!) } : {}),
      });
    });
  }

  #values(): { hidden: Tensor; values: Tensor; weight: Tensor } {
    const a = this.#architecture;
    const hidden = o.input("hidden", [sizes.selected, a.hidden]);
    const weight = o.input(scalarHeadName, [1, a.hidden]);
    const norms = new Map([...parameterShapes(a)].map(([name, shape]) => [name, o.input(name, shape)] as const));
    return { hidden, weight, values: scalarHead(hidden, (name) => (name === scalarHeadName ? weight : norms.get(name)), a) };
  }

  /** A loss with its gradients, compiled once for each `key`. */
  loss(loss: Loss): Promise<LossProgram> {
    let program = this.#losses.get(loss.key);
    if (program === undefined) this.#losses.set(loss.key, (program = LossProgram.compile(loss)));
    return program;
  }

  adamw(): Promise<AdamW> {
    this.#adamw ??= AdamW.compile();
    return this.#adamw;
  }

  /** ids [B, T], positions, mask, (past.i.keys, past.i.values) -> i.keys, i.values of every layer: prefill, without a head. */
  prefill({ past, lora }: { past: boolean; lora: LoraOptions | undefined }): Promise<Program> {
    return this.#once(`prefill/${past}/${loraKey(lora)}`, () => Program.compile(this.#model({ past, lora }).caches));
  }

  /** One decoding step: as prefill with a past, then the sampled id [B, 1], its log-prob [B, 1] and, if asked, the logits [B, V]. */
  decode({ lora, logits: kept, ...draw }: Draw & { lora: LoraOptions | undefined; logits: boolean }): Promise<Program> {
    return this.#once(`decode/${draw.greedy}/${draw.masked}/${kept}/${loraKey(lora)}`, () => {
      const { x, caches, parameters } = this.#model({ past: true, lora, tokens: 1 });
      const architecture = this.#architecture;
      const last = o.reshape(x, [sizes.groups, architecture.hidden]);
      const inverseTemperature = o.input("inverseTemperature", [sizes.groups, 1]);
      const logits = head(last, (name) => parameters.get(name), { architecture, inverseTemperature });
      const { id, logprob } = sampleFromLogits(logits, { rows: sizes.groups, ...draw });
      return Program.compile({ ...caches, id, logprob, ...(kept ? { logits } : {}) });
    });
  }

  #model({ past, lora, tokens = sizes.tokens }: { past: boolean; lora: LoraOptions | undefined; tokens?: Dim }): {
    x: Tensor;
    caches: Record<string, Tensor>;
    parameters: Map<string, Tensor>;
  } {
    const a = this.#architecture;
    const parameters = new Map<string, Tensor>();
    for (const [name, shape] of [...parameterShapes(a), ...(lora === undefined ? [] : loraShapes(a, lora))])
      parameters.set(name, o.input(name, shape));
    const ids = o.input("ids", [sizes.groups, tokens], "int64");
    const positions = o.input("positions", [sizes.groups, tokens], "int64");
    const mask = o.input("mask", [sizes.groups, 1, tokens, past ? addDim(sizes.past, tokens) : tokens]);
    const tables = tableInputs(a);
    const caches: Record<string, Tensor> = {};
    let x = embed(ids, positions, (name) => parameters.get(name));
    for (let i = 0; i < a.layers; i++) {
      const w: Weights = (name) => parameters.get(`layers.${i}.${name}`);
      const shape = [sizes.groups, a.kvHeads, sizes.past, a.headDim];
      const held = past
        ? { past: { keys: o.input(`past.${i}.keys`, shape), values: o.input(`past.${i}.values`, shape), length: sizes.past } }
        : {};
      const rows = { groups: sizes.groups, perGroup: 1, tokens };
      const result = block(x, w, {
        architecture: a,
        positions,
        tables,
        mask,
        rows,
        loraScale: lora === undefined ? 0 : lora.alpha / lora.rank,
        ...held,
      });
      x = result.y;
      caches[`${i}.keys`] = result.keys;
      caches[`${i}.values`] = result.values;
    }
    return { x, caches, parameters };
  }

  async close(): Promise<void> {
    for (const program of [...this.#compiled.values(), ...this.#losses.values(), this.#adamw]) await (await program)?.close();
    this.#compiled.clear();
    this.#losses.clear();
    this.#adamw = undefined;
  }
}

function tableInputs(a: Architecture): { cos: Tensor; sin: Tensor } {
  return { cos: o.input("cos", [sizes.table, a.headDim / 2]), sin: o.input("sin", [sizes.table, a.headDim / 2]) };
}

const accumulated = (name: string, gradient: Tensor): Tensor => o.add(o.input(`acc:${name}`, gradient.shape), gradient);
const loraKey = (lora: LoraOptions | undefined): string =>
  lora === undefined ? "base" : `${lora.rank}/${lora.alpha}/${lora.targets.join()}`;
const keyOf = ({ past, lora, save }: BlockOptions): string => `${past}/${save}/${loraKey(lora)}`;
