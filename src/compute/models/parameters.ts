/** The parameters of an architecture: names, shapes, loading from a checkpoint and writing back in the checkpoint's own layout. */
import { ModelError, expected } from "../../errors.ts";
import { normal, rng } from "../../random.ts";
import type { JsonObject } from "../../types.ts";
import { HostTensor } from "../tensor/host.ts";
import type { Architecture, Family, StoredAs } from "./architecture.ts";
import { gpt2 } from "./families/gpt2.ts";
import { llama } from "./families/llama.ts";
import { qwen2 } from "./families/qwen2.ts";
import { qwen3 } from "./families/qwen3.ts";

const families: readonly Family[] = [gpt2, llama, qwen2, qwen3];

/** Parameters by our names; matrices are [out, in]. */
export type Parameters = ReadonlyMap<string, HostTensor>;

/** What loading needs of a checkpoint (see files/weight-source.ts). */
interface TensorReader {
  readonly path: string;
  readonly tensors: ReadonlyMap<string, { readonly shape: readonly number[] }>;
  read(name: string): Promise<Float32Array>;
}

/** The family that a config.json names; an unknown one is refused with the list of known ones. */
export function familyOf(config: JsonObject): Family {
  const architecture = Array.isArray(config["architectures"]) ? String(config["architectures"][0]) : undefined;
  const type = typeof config["model_type"] === "string" ? config["model_type"] : undefined;
  const found = families.find((f) =>
    architecture === undefined ? f.modelTypes.includes(type ?? "") : f.architectures.includes(architecture),
  );
  if (found === undefined) {
    const known = families.flatMap((f) => f.architectures).join(", ");
    throw new ModelError(expected("config.json architectures", `one of ${known}`, architecture ?? type ?? "nothing"));
  }
  return found;
}

/** Family and architecture of a model on disk; what is wrong with its configuration is said with the file's path. */
export function readArchitecture(
  { config, configPath }: { readonly config: JsonObject; readonly configPath: string },
): { readonly family: Family; readonly architecture: Architecture } {
  try {
    const family = familyOf(config);
    return { family, architecture: family.read(config) };
  } catch (cause) {
    if (!(cause instanceof ModelError)) throw cause;
    throw new ModelError(cause.message.replace(/^config\.json(?= )/, () => configPath), { cause });
  }
}

/** The family of an architecture. */
export function familyNamed(name: string): Family {
  const found = families.find((family) => family.name === name);
  if (found === undefined) throw new ModelError(expected("family", `one of ${families.map((family) => family.name).join(", ")}`, name));
  return found;
}

/** Names and shapes of all parameters, in order: embedding, layers, final norm, head (absent where tied). */
export function parameterShapes(a: Architecture): Map<string, readonly number[]> {
  const shapes = new Map<string, readonly number[]>([["embed.weight", [a.vocabulary, a.hidden]]]);
  if (a.positions.type === "learned") shapes.set("positions.weight", [a.context, a.hidden]);
  const norm = (name: string, size = a.hidden, bias = a.norm === "layer"): void => {
    shapes.set(`${name}.weight`, [size]);
    if (bias) shapes.set(`${name}.bias`, [size]);
  };
  const linear = (name: string, size: readonly [number, number], bias: boolean): void => {
    shapes.set(`${name}.weight`, size);
    if (bias) shapes.set(`${name}.bias`, [size[0]]);
  };
  for (let i = 0; i < a.layers; i++) {
    const at = `layers.${i}`;
    norm(`${at}.attnNorm`);
    linear(`${at}.q`, [a.heads * a.headDim, a.hidden], a.qkvBias);
    linear(`${at}.k`, [a.kvHeads * a.headDim, a.hidden], a.qkvBias);
    linear(`${at}.v`, [a.kvHeads * a.headDim, a.hidden], a.qkvBias);
    linear(`${at}.o`, [a.hidden, a.heads * a.headDim], a.projectionBias);
    if (a.qkNorm) for (const part of ["qNorm", "kNorm"]) norm(`${at}.${part}`, a.headDim, false);
    norm(`${at}.mlpNorm`);
    if (a.mlp === "gated") linear(`${at}.gate`, [a.intermediate, a.hidden], a.projectionBias);
    linear(`${at}.up`, [a.intermediate, a.hidden], a.projectionBias);
    linear(`${at}.down`, [a.hidden, a.intermediate], a.projectionBias);
  }
  norm("finalNorm");
  if (!a.tied) shapes.set("head.weight", [a.vocabulary, a.hidden]);
  return shapes;
}

interface Placed {
  readonly name: string;
  readonly shape: readonly number[];
  readonly stored: StoredAs;
  /** Name of the tensor in the file. */
  readonly file: string;
}

/** Where each parameter is stored, from the file's header alone. ModelError for one that is absent or has another shape. */
export function placeParameters(family: Family, architecture: Architecture, source: Omit<TensorReader, "read">): Placed[] {
  return [...parameterShapes(architecture)].map(([name, shape]) => {
    const stored = family.storedAs(name);
    const file = source.tensors.get(stored.name) === undefined ? stripPrefix(source, stored.name) : stored.name;
    const info = file === undefined ? undefined : source.tensors.get(file);
    if (file === undefined || info === undefined)
      throw new ModelError(
        expected(source.path, `tensor ${stored.name}`, "none of that name", "the file is not a checkpoint of this architecture"),
      );
    const whole = storedShape(shape, stored);
    if (info.shape.join() !== whole.join())
      throw new ModelError(expected(`${source.path} ${file}`, `shape [${whole.join(", ")}]`, `[${info.shape.join(", ")}]`));
    return { name, shape, stored, file };
  });
}

/** Reads every parameter, one stored tensor in memory at a time beside the result. Errors as of `placeParameters`. */
export async function loadParameters(family: Family, architecture: Architecture, source: TensorReader): Promise<Map<string, HostTensor>> {
  const parameters = new Map<string, HostTensor>();
  let held: { name: string; data: Float32Array } | undefined;
  for (const { name, shape, stored, file } of placeParameters(family, architecture, source)) {
    if (held?.name !== file) held = { name: file, data: await source.read(file) };
    parameters.set(name, new HostTensor(fromStored(held.data, shape, stored), shape));
    if (stored.part === undefined) held = undefined;
  }
  return parameters;
}

/** Some checkpoints leave out the leading `model.` or `transformer.`. */
function stripPrefix(source: Pick<TensorReader, "tensors">, name: string): string | undefined {
  const short = name.replace(/^(model|transformer)\./, "");
  return source.tensors.has(short) ? short : undefined;
}

function storedShape(shape: readonly number[], { transposed = false, part }: StoredAs): number[] {
  const whole = [shape[0]! * (part?.count ?? 1), ...shape.slice(1)];
  return transposed && whole.length === 2 ? whole.reverse() : whole;
}

/** Our [out, in] array from the stored one. */
function fromStored(data: Float32Array, shape: readonly number[], { transposed = false, part }: StoredAs): Float32Array {
  const [rows, columns = 1] = [shape[0]!, shape[1]];
  const offset = (part?.index ?? 0) * rows;
  if (!transposed || shape.length === 1) return part === undefined ? data : data.slice(offset * columns, (offset + rows) * columns);
  const stride = rows * (part?.count ?? 1);
  const out = new Float32Array(rows * columns);
  for (let c = 0; c < columns; c++) for (let r = 0; r < rows; r++) out[r * columns + c] = data[c * stride + offset + r]!;
  return out;
}

/** The checkpoint's own tensors from our parameters, for export; fused tensors are put together again. */
export function* storedTensors(
  family: Family,
  parameters: Parameters,
): Generator<{ name: string; shape: readonly number[]; data: Float32Array }> {
  const done = new Set<string>();
  for (const name of parameters.keys()) {
    const stored = family.storedAs(name);
    if (done.has(stored.name)) continue;
    done.add(stored.name);
    const parts = [...parameters].filter(([other]) => family.storedAs(other).name === stored.name);
    const shape = storedShape(parts[0]![1].shape, stored);
    if (stored.part === undefined && stored.transposed !== true) {
      yield { name: stored.name, shape, data: parts[0]![1].floats };
      continue;
    }
    const data = new Float32Array(shape.reduce((a, b) => a * b, 1));
    for (const [other, tensor] of parts) intoStored(data, tensor, family.storedAs(other));
    yield { name: stored.name, shape, data };
  }
}

function intoStored(data: Float32Array, tensor: HostTensor, { transposed = false, part }: StoredAs): void {
  const [rows, columns = 1] = [tensor.shape[0]!, tensor.shape[1]];
  const offset = (part?.index ?? 0) * rows;
  if (!transposed || tensor.shape.length === 1) {
    data.set(tensor.floats, offset * columns);
    return;
  }
  const stride = rows * (part?.count ?? 1);
  for (let c = 0; c < columns; c++) for (let r = 0; r < rows; r++) data[c * stride + offset + r] = tensor.floats[r * columns + c]!;
}

/** Fresh parameters: normal with deviation 0.02 (output projections 0.02 / sqrt(2 layers), as in GPT-2), norms 1, biases 0. */
export function initialParameters(architecture: Architecture, seed: number): Map<string, HostTensor> {
  const parameters = new Map<string, HostTensor>();
  for (const [name, shape] of parameterShapes(architecture)) {
    const data = new Float32Array(shape.reduce((a, b) => a * b, 1));
    const residual = /\.(o|down)\.weight$/.test(name);
    const deviation = residual ? 0.02 / Math.sqrt(2 * architecture.layers) : 0.02;
    if (shape.length === 1) data.fill(name.endsWith(".weight") ? 1 : 0);
    else {
      const key = rng(seed, "parameters", name);
      for (let i = 0; i < data.length; i++) data[i] = normal(key, i) * deviation;
    }
    parameters.set(name, new HostTensor(data, shape));
  }
  return parameters;
}
