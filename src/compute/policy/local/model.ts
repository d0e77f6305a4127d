/** A model in memory: one set of base parameters, and adapters on it. Sampler and trainer read the same arrays. */
import { PolicyError, expected } from "../../../errors.ts";
import { rotaryTables, type Architecture } from "../../models/architecture.ts";
import type { LoraOptions } from "../../models/lora.ts";
import { scalarHeadName } from "../../models/scalar-head.ts";
import { HostTensor, type HostArray } from "../../tensor/host.ts";
import type { HostTensors } from "../../tensor/program.ts";

export interface Adapter {
  /** LoRA matrices and, if it has one, the scalar head. */
  readonly parameters: ReadonlyMap<string, HostTensor>;
  readonly lora: LoraOptions;
}

/** What an adapter name stands for: LoRA matrices, or (in full fine-tuning) other values of base parameters. */
type Variant =
  | { readonly type: "base" }
  | { readonly type: "lora"; readonly adapter: Adapter }
  | { readonly type: "full"; readonly parameters: ReadonlyMap<string, HostTensor> };

export class LocalModel {
  readonly architecture: Architecture;
  readonly base: ReadonlyMap<string, HostTensor>;
  readonly tables: { readonly cos: HostTensor; readonly sin: HostTensor };
  readonly #variants = new Map<string, Variant>();
  readonly #feeds = new Map<string, HostTensors>();

  constructor(architecture: Architecture, base: ReadonlyMap<string, HostTensor>) {
    this.architecture = architecture;
    this.base = base;
    const { cos, sin } = rotaryTables(architecture, architecture.context);
    const shape = [architecture.context, architecture.headDim / 2];
    this.tables = { cos: new HostTensor(cos, shape), sin: new HostTensor(sin, shape) };
  }

  get variants(): readonly string[] {
    return [...this.#variants.keys()];
  }

  setVariant(name: string, variant: Variant): void {
    this.#variants.set(name, variant);
    for (const key of [...this.#feeds.keys()]) if (key.startsWith(`${name}/`)) this.#feeds.delete(key);
  }

  variant(name: string): Variant {
    const found = this.#variants.get(name);
    if (found === undefined) throw new PolicyError(expected("adapter", `one of ${this.variants.join(", ")}`, name));
    return found;
  }

  /** LoRA shape of a variant; programs are compiled once for each. */
  loraOf(name: string): LoraOptions | undefined {
    const variant = this.variant(name);
    return variant.type === "lora" ? variant.adapter.lora : undefined;
  }

  /** Refuses a variant that has no scalar head. */
  needScalarHead(name: string, where: string): void {
    if (this.parametersOf(name).has(scalarHeadName)) return;
    const remedy = "add the adapter with scalarHead: true";
    throw new PolicyError(expected(where, "an adapter with a scalar head", `${name}, which has none`, remedy));
  }

  /** All parameters of a variant by full name. */
  parametersOf(name: string): ReadonlyMap<string, HostTensor> {
    const variant = this.variant(name);
    if (variant.type === "base") return this.base;
    return new Map([...this.base, ...(variant.type === "lora" ? variant.adapter.parameters : variant.parameters)]);
  }

  /** Feeds of whole-model programs (full names), of one layer's programs ("q.weight") or of the head. */
  feeds(name: string, part: "all" | "head" | number): HostTensors {
    const key = `${name}/${part}`;
    let feeds = this.#feeds.get(key);
    if (feeds === undefined) {
      const prefix = typeof part === "number" ? `layers.${part}.` : "";
      const entries = [...this.parametersOf(name)].filter(([parameter]) => parameter.startsWith(prefix));
      feeds = {
        ...Object.fromEntries(entries.map(([parameter, tensor]) => [parameter.slice(prefix.length), tensor])),
        cos: this.tables.cos,
        sin: this.tables.sin,
      };
      this.#feeds.set(key, feeds);
    }
    return feeds;
  }
}

/** A copy with memory of its own. */
export function copyOf(parameters: ReadonlyMap<string, HostTensor>): Map<string, HostTensor> {
  return new Map([...parameters].map(([name, tensor]) => [name, new HostTensor(tensor.data.slice() as HostArray, tensor.shape)]));
}
