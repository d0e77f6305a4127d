/**
 * What a decoder-only transformer is made of, read from a Hugging Face `config.json`. One file a family says how its
 * configuration and its tensors are named; the layers themselves are shared (`decoder.ts`).
 */
import { ModelError, expected } from "../../errors.ts";
import type { JsonObject } from "../../types.ts";

export interface Architecture {
  readonly family: string;
  readonly layers: number;
  readonly hidden: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly intermediate: number;
  readonly vocabulary: number;
  readonly context: number;
  readonly epsilon: number;
  readonly norm: "rms" | "layer";
  readonly mlp: "gated" | "plain";
  readonly positions: { readonly type: "learned" } | { readonly type: "rotary"; readonly theta: number; readonly scaling: RopeScaling };
  readonly qkvBias: boolean;
  /** Bias on the attention output and the MLP. */
  readonly projectionBias: boolean;
  readonly qkNorm: boolean;
  /** The head is the embedding table. */
  readonly tied: boolean;
}

type RopeScaling =
  | { readonly type: "none" }
  | { readonly type: "linear"; readonly factor: number }
  | { readonly type: "llama3"; readonly factor: number; readonly low: number; readonly high: number; readonly original: number };

/** A tensor of a checkpoint that holds one parameter: possibly transposed, possibly a part of its columns. */
export interface StoredAs {
  readonly name: string;
  /** The file stores [in, out] where we hold [out, in]. */
  readonly transposed?: boolean;
  /** Part `index` of `count` equal parts along the output dimension of the stored tensor. */
  readonly part?: { readonly index: number; readonly count: number };
}

export interface Family {
  readonly name: string;
  /** `architectures[0]` and `model_type` values of config.json that this family reads. */
  readonly architectures: readonly string[];
  readonly modelTypes: readonly string[];
  readonly read: (config: JsonObject) => Architecture;
  /** Where a parameter (our name) is stored. */
  readonly storedAs: (parameter: string) => StoredAs;
}

/** A number of config.json, or the default; refuses anything else. */
export function numberOf(config: JsonObject, key: string, fallback?: number): number {
  const value = config[key] ?? fallback;
  if (typeof value !== "number" || !Number.isFinite(value)) {
    throw new ModelError(expected(`config.json ${key}`, "a number", JSON.stringify(config[key]) ?? "nothing"));
  }
  return value;
}

/** `rope_scaling` (or, in newer files, `rope_parameters`) as we know it; an unknown kind is refused by name. */
export function ropeOf(config: JsonObject, defaultTheta: number): Architecture["positions"] {
  const parameters = (config["rope_parameters"] ?? config["rope_scaling"] ?? {}) as JsonObject;
  const theta = typeof parameters["rope_theta"] === "number" ? parameters["rope_theta"] : numberOf(config, "rope_theta", defaultTheta);
  const type = parameters["rope_type"] ?? parameters["type"] ?? "default";
  if (type === "default") return { type: "rotary", theta, scaling: { type: "none" } };
  if (type === "linear") return { type: "rotary", theta, scaling: { type: "linear", factor: numberOf(parameters, "factor") } };
  if (type === "llama3") {
    const scaling: RopeScaling = {
      type: "llama3",
      factor: numberOf(parameters, "factor"),
      low: numberOf(parameters, "low_freq_factor"),
      high: numberOf(parameters, "high_freq_factor"),
      original: numberOf(parameters, "original_max_position_embeddings"),
    };
    return { type: "rotary", theta, scaling };
  }
  throw new ModelError(expected("config.json rope_scaling", 'type "default", "linear" or "llama3"', JSON.stringify(type)));
}

/** Angle tables of the rotary embedding: cos and sin, [positions, headDim / 2] each, computed in double precision. */
export function rotaryTables(architecture: Architecture, positions: number): { cos: Float32Array; sin: Float32Array } {
  const half = architecture.headDim / 2;
  const cos = new Float32Array(positions * half);
  const sin = new Float32Array(positions * half);
  if (architecture.positions.type === "learned") return { cos, sin };
  const { theta, scaling } = architecture.positions;
  for (let i = 0; i < half; i++) {
    const frequency = scaled(1 / theta ** (i / half), scaling);
    for (let p = 0; p < positions; p++) {
      cos[p * half + i] = Math.cos(p * frequency);
      sin[p * half + i] = Math.sin(p * frequency);
    }
  }
  return { cos, sin };
}

/** Llama 3.1's rule: long waves are slowed by `factor`, short ones are kept, those between are blended. */
function scaled(frequency: number, scaling: RopeScaling): number {
  if (scaling.type === "none") return frequency;
  if (scaling.type === "linear") return frequency / scaling.factor;
  const wavelength = (2 * Math.PI) / frequency;
  if (wavelength > scaling.original / scaling.low) return frequency / scaling.factor;
  if (wavelength < scaling.original / scaling.high) return frequency;
  const blend = (scaling.original / wavelength - scaling.low) / (scaling.high - scaling.low);
  return ((1 - blend) * frequency) / scaling.factor + blend * frequency;
}
