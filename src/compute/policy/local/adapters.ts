/** The adapters of one base: the policy's own, its reference, critics and reward models. Each trained one has its own trainer. */
import { PolicyError, expected } from "../../../errors.ts";
import type { AdapterOptions } from "../../../types.ts";
import { initialLora, loraShapes, loraTargets, type LoraOptions } from "../../models/lora.ts";
import { parameterShapes } from "../../models/parameters.ts";
import { initialScalarHead, scalarHeadName } from "../../models/scalar-head.ts";
import { HostTensor } from "../../tensor/host.ts";
import { loadAdapterFolder, saveAdapterFolder } from "./adapter-folder.ts";
import { blend, blendToBase } from "./blend.ts";
import type { Machine } from "./forward.ts";
import { copyOf, type Adapter } from "./model.ts";
import { Trainer, type TrainerOptions } from "./trainer.ts";

/** Which weights are trained: all, a low-rank adapter, or none. */
export type Trained =
  | { readonly type: "full" }
  | { readonly type: "lora"; readonly lora: LoraOptions; readonly initial?: ReadonlyMap<string, HostTensor> }
  | { readonly type: "none" };

interface Start {
  readonly train: Trained;
  /** Keep the weights as they are now under the name "reference". */
  readonly reference: boolean;
  readonly seed: number;
  /** Where the base can be found: a hub id, a path or a name. */
  readonly source: string;
  readonly settings: TrainerOptions;
}

type Tensors = ReadonlyMap<string, HostTensor>;

/** An adapter with arrays of its own; `lora` is undefined for a copy of all weights. */
export interface Kept {
  readonly name: string;
  readonly parameters: Tensors;
  readonly lora: LoraOptions | undefined;
  readonly trainer: Trainer | undefined;
}

export class Adapters {
  readonly #machine: Machine;
  readonly #settings: TrainerOptions;
  readonly #train: Trained;
  readonly #source: string;
  readonly #trainers = new Map<string, Trainer>();
  /** Adapters other than the policy that a blend has changed. */
  readonly #blended = new Set<string>();

  constructor(machine: Machine, { train, reference, seed, source, settings }: Start) {
    this.#machine = machine;
    this.#settings = settings;
    this.#train = train;
    this.#source = source;
    const { model } = machine;
    model.setVariant("base", { type: "base" });
    if (train.type === "lora") {
      const parameters = train.initial ?? initialLora(model.architecture, train.lora, seed);
      this.set("policy", { parameters, lora: train.lora }, true);
    } else {
      model.setVariant("policy", { type: "base" });
      this.#addTrainer("policy", train.type === "full" ? model.base : new Map());
    }
    if (reference) this.#keepReference();
  }

  #keepReference(): void {
    const { model } = this.#machine;
    const policy = model.variant("policy");
    if (this.baseIsTrained) model.setVariant("reference", { type: "full", parameters: copyOf(model.base) });
    else if (this.#referenceIsBase || policy.type !== "lora") model.setVariant("reference", { type: "base" });
    else this.set("reference", { parameters: copyOf(policy.adapter.parameters), lora: policy.adapter.lora }, false);
  }

  /** A policy that starts as the base (a fresh LoRA, or nothing trained) needs no copy. */
  get #referenceIsBase(): boolean {
    return this.#train.type === "none" || (this.#train.type === "lora" && this.#train.initial === undefined);
  }

  #addTrainer(name: string, trainable: Tensors): void {
    this.#trainers.get(name)?.close();
    this.#trainers.set(name, new Trainer(this.#machine, { ...this.#settings, variant: name, trainable }));
  }

  /** Whether the base's own arrays are trained. */
  get baseIsTrained(): boolean {
    return this.#train.type === "full";
  }

  get policy(): Trainer {
    return this.#trainers.get("policy")!;
  }

  get trainers(): ReadonlyMap<string, Trainer> {
    return this.#trainers;
  }

  /** The trainer of a trained adapter; refuses an unknown one and one without trained weights. */
  trainer(name: string, what: string): Trainer {
    this.#machine.model.variant(name);
    const trainer = this.#trainers.get(name);
    if (trainer !== undefined && trainer.trainable.size > 0) return trainer;
    if (name === "policy") throw new PolicyError(`${what}: the model was opened for sampling only; open it with train: full or lora`);
    throw new PolicyError(expected(`${what} adapter`, "a trained adapter", `${name}, which is frozen`, "add it with trained: true"));
  }

  /** Puts an adapter in place under its name, with a trainer if it is trained. */
  set(name: string, adapter: Adapter, trained: boolean): void {
    this.#machine.model.setVariant(name, { type: "lora", adapter });
    if (trained) this.#addTrainer(name, adapter.parameters);
  }

  add(name: string, { from, rank, alpha, scalarHead, trained, seed }: AdapterOptions): void {
    const where = `addAdapter ${name}`;
    const { model } = this.#machine;
    this.#checkNew(name, where);
    if (!(alpha > 0) || !Number.isFinite(alpha)) throw new PolicyError(expected(`${where} alpha`, "above 0", String(alpha)));
    const source = model.variant(from);
    const parameters = new Map<string, HostTensor>();
    let lora: LoraOptions = { rank, alpha, targets: this.#train.type === "lora" ? this.#train.lora.targets : loraTargets };
    if (source.type === "lora") {
      const { rank: otherRank, alpha: otherAlpha, targets } = source.adapter.lora;
      if (rank !== otherRank || alpha !== otherAlpha) {
        const remedy = `give these, or from: "base" for a fresh adapter`;
        throw new PolicyError(expected(where, `rank ${otherRank} and alpha ${otherAlpha} as ${from} has`, `${rank} and ${alpha}`, remedy));
      }
      lora = { rank, alpha, targets };
      for (const [key, tensor] of copyOf(source.adapter.parameters)) if (scalarHead || key !== scalarHeadName) parameters.set(key, tensor);
    } else {
      for (const [key, tensor] of initialLora(model.architecture, lora, seed)) parameters.set(key, tensor);
    }
    if (scalarHead && !parameters.has(scalarHeadName))
      parameters.set(scalarHeadName, initialScalarHead(model.architecture.hidden, seed));
    this.set(name, { parameters, lora }, trained);
  }

  /** An adapter as a PEFT folder with a note of its base. */
  writeFolder(name: string, folder: string): Promise<void> {
    return saveAdapterFolder(folder, name, { model: this.#machine.model, base: this.#source });
  }

  readFolder(folder: string): Promise<Adapter> {
    return loadAdapterFolder(folder, { model: this.#machine.model, base: this.#source });
  }

  /**
   * Puts an adapter that was read from files under its name: into the arrays of a trained one (its gradients, moments and
   * update count start anew), or as a frozen one.
   */
  receive(name: string, adapter: Adapter): void {
    const where = `loadAdapter ${name}`;
    if (name === "base") throw new PolicyError(expected(where, "the name of an adapter", "the base, which never changes"));
    const trainer = this.#trainers.get(name);
    if (trainer === undefined || trainer.trainable.size === 0) {
      if (!this.#machine.model.variants.includes(name) || this.baseIsTrained) this.#checkNew(name, where);
      this.set(name, adapter, false);
      return;
    }
    const current = this.#machine.model.variant(name);
    if (current.type !== "lora") return this.#checkNew(name, where);
    checkSame(where, ["the folder", adapter], [name, current.adapter]);
    const [has, wants] = [adapter.parameters.has(scalarHeadName), trainer.trainable.has(scalarHeadName)];
    if (has !== wants)
      throw new PolicyError(expected(where, `an adapter ${wants ? "with" : "without"} a scalar head`, `one ${has ? "with" : "without"}`));
    for (const [key, { floats }] of trainer.trainable) floats.set(adapter.parameters.get(key)!.floats);
    trainer.reset();
  }

  /** Refuses a name that is taken or malformed, and any adapter on a base that is itself trained. */
  #checkNew(name: string, where: string): void {
    const { variants } = this.#machine.model;
    if (!/^[A-Za-z][A-Za-z0-9_-]*$/.test(name))
      throw new PolicyError(expected(where, "a name of letters, digits, - and _", JSON.stringify(name)));
    const want = "a base that is not trained itself (train: lora or none)";
    if (this.baseIsTrained)
      throw new PolicyError(expected(where, want, "train: full", "its adapters would sit on a moving base: train the policy as LoRA"));
    if (variants.includes(name)) throw new PolicyError(expected(where, "a name that is not taken", `one of ${variants.join(", ")}`));
  }

  /**
   * to <- keep * to + (1 - keep) * from; true if a bit changed. LoRA adapters are blended matrix by matrix (A and B each), heads
   * where both have one. The plain base counts as an adapter whose B is zero: as `to` it becomes such an adapter first.
   */
  blend(from: string, to: string, keep: number): boolean {
    const where = `blendAdapter ${from} to ${to}`;
    if (!(keep >= 0 && keep <= 1)) throw new PolicyError(expected(`${where} keep`, "a number in 0..1", String(keep)));
    const { model } = this.#machine;
    const [source, target] = [model.variant(from), model.variant(to)];
    if (from === to) throw new PolicyError(expected(where, "two adapters", "one"));
    if (to === "base") throw new PolicyError(expected(where, "an adapter to change", "the base, which never changes"));
    this.#trainers.get(to)?.clearGradients();
    if (this.baseIsTrained) return this.#written(to, blend(model.parametersOf(from), this.#fullWeights(to, where), keep));
    if (source.type !== "lora") return target.type === "lora" && this.#written(to, blendToBase(target.adapter.parameters, keep));
    if (target.type === "lora") {
      checkSame(where, [from, source.adapter], [to, target.adapter]);
      return this.#written(to, blend(source.adapter.parameters, target.adapter.parameters, keep));
    }
    if (to === "policy") throw new PolicyError(`${where}: the model was opened for sampling only; open it with train: full or lora`);
    if (keep === 1) return false;
    const matrices = [...copyOf(source.adapter.parameters)].filter(([name]) => name !== scalarHeadName);
    for (const [name, { floats }] of matrices) if (name.endsWith(".loraB")) floats.fill(0);
    const parameters = new Map(matrices);
    this.set(to, { parameters, lora: source.adapter.lora }, false);
    return this.#written(to, blend(source.adapter.parameters, parameters, keep));
  }

  /** One LoRA adapter with its trainer, to be stored or read on its own. */
  one(name: string, where: string): Kept {
    const variant = this.#machine.model.variant(name);
    if (variant.type !== "lora") throw new PolicyError(expected(where, "a LoRA adapter", `${name}, which is none`));
    return { name, ...variant.adapter, trainer: this.#trainers.get(name) };
  }

  #written(name: string, changed: boolean): boolean {
    if (changed && name !== "policy") this.#blended.add(name);
    return changed;
  }

  #fullWeights(name: string, where: string): Tensors {
    const variant = this.#machine.model.variant(name);
    if (variant.type === "full") return variant.parameters;
    if (name === "policy") return this.#machine.model.base;
    throw new PolicyError(expected(where, "weights of its own to change", `${name}, which has none`));
  }

  /** What a state keeps beside the policy: every LoRA adapter, and a full copy that a blend has changed. */
  kept(): Kept[] {
    const { model } = this.#machine;
    return model.variants.flatMap((name): Kept[] => {
      const variant = model.variant(name);
      if (name === "policy" || variant.type === "base") return [];
      const trainer = this.#trainers.get(name);
      if (variant.type === "lora") return [{ name, ...variant.adapter, trainer }];
      return this.#blended.has(name) ? [{ name, parameters: variant.parameters, lora: undefined, trainer }] : [];
    });
  }

  /** Shapes of an adapter's parameters; without LoRA options, those of a copy of all weights. */
  shapesOf({ lora, scalarHead }: { lora: LoraOptions | null; scalarHead: boolean }): ReadonlyMap<string, readonly number[]> {
    const { architecture } = this.#machine.model;
    const matrices = lora === null ? parameterShapes(architecture) : loraShapes(architecture, lora);
    return new Map([...matrices, ...(scalarHead ? ([[scalarHeadName, [1, architecture.hidden]]] as const) : [])]);
  }

  /** The arrays that a stored adapter is read into: its own, or (where the engine has none) new ones under its name. */
  restored(
    name: string,
    { lora, trained, shapes }: { lora: LoraOptions | null; trained: boolean; shapes: ReadonlyMap<string, readonly number[]> },
  ): { parameters: Tensors; trainer: Trainer | undefined } {
    const { model } = this.#machine;
    const variant = model.variants.includes(name) ? model.variant(name) : undefined;
    const own = variant?.type === "lora" ? variant.adapter.parameters : variant?.type === "full" ? variant.parameters : undefined;
    const parameters = own ?? zeros(shapes);
    if (own === undefined && lora !== null) this.set(name, { parameters, lora }, trained);
    if (own === undefined && lora === null) model.setVariant(name, { type: "full", parameters });
    this.#blended.add(name);
    return { parameters, trainer: this.#trainers.get(name) };
  }

  /** Whether the reference is, or can be made again, what it was when the engine was opened. */
  get canUnblendReference(): boolean {
    return !this.#blended.has("reference") || this.#referenceIsBase;
  }

  /** The reference becomes the plain base again, if that is what it was. */
  unblendReference(): void {
    if (this.#blended.delete("reference")) this.#machine.model.setVariant("reference", { type: "base" });
  }

  close(): void {
    for (const trainer of this.#trainers.values()) trainer.close();
  }
}

/** Refuses two adapters whose matrices are not of the same layers, rank and scale. */
function checkSame(where: string, [from, source]: readonly [string, Adapter], [to, target]: readonly [string, Adapter]): void {
  const text = ({ parameters, lora: { rank, alpha } }: Adapter): string => {
    const parts = loraTargets.filter((part) => parameters.has(`layers.0.${part}.loraA`));
    return `rank ${rank}, alpha ${alpha} on ${parts.join(" ")}`;
  };
  if (text(source) !== text(target)) throw new PolicyError(expected(where, `${to} with ${text(source)} as ${from} has`, text(target)));
}

function zeros(shapes: ReadonlyMap<string, readonly number[]>): Tensors {
  const make = (shape: readonly number[]): HostTensor => new HostTensor(new Float32Array(shape.reduce((a, b) => a * b, 1)), shape);
  return new Map([...shapes].map(([name, shape]) => [name, make(shape)]));
}
