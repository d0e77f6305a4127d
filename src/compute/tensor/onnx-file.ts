/**
 * One ONNX file that needs nothing beside it: the graph with its weights. Weights are streamed into the file one by one, so
 * that a model larger than memory to spare can be written; the protocol buffer around them is put together here.
 */
import { ModelError, expected } from "../../errors.ts";
import type { Shape, SymbolicDim } from "./dim.ts";
import type { Tensor } from "./graph.ts";
import type { HostTensor } from "./host.ts";
import { lowerStandalone, type Emitter } from "./lowering.ts";

/** A protocol buffer is limited to this; larger models do not fit in one ONNX file. */
const MAX_BYTES = 2 ** 31 - 1;

interface OnnxModel {
  readonly outputs: Readonly<Record<string, Tensor>>;
  /** Values of float32 inputs of the graph, by name; they become part of the file. */
  readonly stored: ReadonlyMap<string, HostTensor>;
  /** Where each size can be read off: an input that is left, and its axis. */
  readonly sizes: Readonly<Record<string, { readonly input: string; readonly axis: number }>>;
}

/** The bytes of the file in order, and how many there are. ModelError if a protocol buffer cannot hold them. */
export function onnxFile({ outputs, stored, sizes }: OnnxModel): { readonly bytes: number; readonly chunks: () => Generator<Uint8Array> } {
  const { model, graph } = lowerStandalone(outputs, { stored: new Set(stored.keys()), shapeInGraph: shapeRule(sizes) });
  const tensors = [...stored].map(([name, { floats, shape }]) => ({ head: tensorHead(name, shape, floats.byteLength), floats }));
  const graphBytes = tensors.reduce((sum, { head, floats }) => sum + head.length + floats.byteLength, graph.length);
  const start = concat([model, field(7, 2), varint(graphBytes), graph]);
  const bytes = start.length - graph.length + graphBytes;
  if (bytes > MAX_BYTES) {
    const got = `${(bytes / 1e9).toFixed(1)} GB`;
    throw new ModelError(expected("ONNX export", "a model of at most 2.1 GB in float32", got, "export it as safetensors or GGUF"));
  }
  return {
    bytes,
    *chunks() {
      yield start;
      for (const { head, floats } of tensors) {
        yield head;
        yield new Uint8Array(floats.buffer, floats.byteOffset, floats.byteLength);
      }
    },
  };
}

/** GraphProto.initializer (field 5) up to the raw data: TensorProto with dims 1, data_type 2, name 8, raw_data 9. */
function tensorHead(name: string, shape: readonly number[], dataBytes: number): Uint8Array {
  const nameBytes = new TextEncoder().encode(name);
  const dims = shape.flatMap((size) => [field(1, 0), varint(size)]);
  const inner = concat([...dims, field(2, 0), varint(1), field(8, 2), varint(nameBytes.length), nameBytes, field(9, 2), varint(dataBytes)]);
  return concat([field(5, 2), varint(inner.length + dataBytes), inner]);
}

/** Tag of a field: 0 for a number, 2 for bytes that follow their length. */
function field(number: number, wire: 0 | 2): Uint8Array {
  return Uint8Array.of(number * 8 + wire);
}

function varint(value: number): Uint8Array {
  const bytes: number[] = [];
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return Uint8Array.from([...bytes, rest]);
    bytes.push((rest % 128) + 128);
  }
}

function concat(parts: readonly Uint8Array[]): Uint8Array {
  return new Uint8Array(Buffer.concat(parts));
}

/** Emits the nodes that compute a shape from the sizes of the inputs, each shape and size once. */
function shapeRule(sizes: OnnxModel["sizes"]): (shape: Shape, e: Emitter) => string {
  const known = new Map<string, string>();
  const once = (key: string, make: () => string): string => {
    const found = known.get(key) ?? make();
    known.set(key, found);
    return found;
  };
  const size = (name: string, e: Emitter): string =>
    once(name, () => {
      const from = sizes[name];
      if (from === undefined) throw new RangeError(expected(`ONNX export, size ${name}`, "an input that has it", "none"));
      const whole = once(`shape of ${from.input}`, () => e.emit("Shape", [from.input]));
      return e.emit("Gather", [whole, e.ints([from.axis])], { attributes: { axis: 0 } });
    });
  const dimension = (d: SymbolicDim, e: Emitter): string =>
    once(`dim ${d.key}`, () => {
      const products = [...d.terms].map(([names, factor]) => {
        const factors = names === "" ? [] : names.split("*").map((name) => size(name, e));
        const all = factor === 1 && factors.length > 0 ? factors : [e.ints([factor]), ...factors];
        return all.reduce((a, b) => e.emit("Mul", [a, b]));
      });
      return products.reduce((a, b) => e.emit("Add", [a, b]));
    });
  return (shape, e) =>
    once(`[${shape.map(String).join(",")}]`, () => {
      const parts = shape.map((d) => (typeof d === "number" ? e.ints([d]) : dimension(d, e)));
      return parts.length === 1 ? parts[0]! : e.emit("Concat", parts, { attributes: { axis: 0 } });
    });
}
