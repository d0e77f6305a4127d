/** The adapters of one base: the policy's own, its reference, critics and reward models. Each trained one has its own trainer. */
import { PolicyError, expected } from "../../../errors.ts";
import type { AdapterOptions } from "../../../types.ts";
import { initialLora, loraTargets, type LoraOptions } from "../../models/lora.ts";
import { initialScalarHead, scalarHeadName } from "../../models/scalar-head.ts";
import type { HostTensor } from "../../tensor/host.ts";
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
  readonly settings: TrainerOptions;
}

type Tensors = ReadonlyMap<string, HostTensor>;

export class Adapters {
  readonly #machine: Machine;
  readonly #settings: TrainerOptions;
  readonly #train: Trained;
  readonly #trainers = new Map<string, Trainer>();
  /** Adapters other than the policy that a blend has changed. */
  readonly #blended = new Set<string>();

  constructor(machine: Machine, { train, reference, seed, settings }: Start) {
    this.#machine = machine;
    this.#settings = settings;
    this.#train = train;
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
    const train = this.#train;
    if (train.type === "full") model.setVariant("reference", { type: "full", parameters: copyOf(model.base) });
    else if (train.type === "lora" && train.initial !== undefined)
      model.setVariant("reference", { type: "lora", adapter: { parameters: copyOf(train.initial), lora: train.lora } });
    else model.setVariant("reference", { type: "base" });
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
    this.checkNew(name, where);
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

  /** Refuses a name that is taken or malformed, and any adapter on a base that is itself trained. */
  checkNew(name: string, where: string): void {
    const { variants } = this.#machine.model;
    if (!/^[A-Za-z][A-Za-z0-9_-]*$/.test(name))
      throw new PolicyError(expected(where, "a name of letters, digits, - and _", JSON.stringify(name)));
    if (variants.includes(name)) throw new PolicyError(expected(where, "a name that is not taken", `one of ${variants.join(", ")}`));
    if (!this.baseIsTrained) return;
    const want = "a base that is not trained itself (train: lora or none)";
    throw new PolicyError(expected(where, want, "train: full", "its adapters would sit on a moving base: train the policy as LoRA"));
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
      checkSame(where, { from, to, source: source.adapter.lora, target: target.adapter.lora });
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

  close(): void {
    for (const trainer of this.#trainers.values()) trainer.close();
  }
}

function checkSame(
  where: string,
  { from, to, source, target }: { from: string; to: string; source: LoraOptions; target: LoraOptions },
): void {
  const text = ({ rank, alpha, targets }: LoraOptions): string => `rank ${rank}, alpha ${alpha} on ${targets.join(" ")}`;
  if (text(source) !== text(target)) throw new PolicyError(expected(where, `${to} with ${text(source)} as ${from} has`, text(target)));
}
