/**
 * Lowering to ONNX (operator set 17 and ONNX Runtime's contributed operators): one rule an operation, complete by type.
 * Shapes that depend on more than one symbolic size become int64 inputs, filled in from the bound sizes at run time.
 */
import onnxProto from "onnx-proto";
import type { Shape } from "./dim.ts";
import { topological, type DType, type Node, type OpName, type Tensor } from "./graph.ts";

const { onnx } = onnxProto;
const elementTypes: Record<DType, number> = { float32: 1, int64: 7, bool: 9 };
const contributed = "com.microsoft";

interface ProgramInput {
  readonly name: string;
  readonly shape: Shape;
  readonly dtype: DType;
}

export interface Lowered {
  readonly bytes: Uint8Array;
  readonly inputs: readonly ProgramInput[];
  readonly outputs: readonly ProgramInput[];
  /** Hidden inputs: name -> the shape whose sizes it holds. */
  readonly shapeInputs: ReadonlyMap<string, Shape>;
}

type Attribute = number | readonly number[] | string | { readonly float: number };

export class Emitter {
  readonly nodes: { opType: string; domain: string; input: string[]; output: string[]; attribute: object[] }[] = [];
  readonly initializers = new Map<string, unknown>();
  readonly shapeInputs = new Map<string, Shape>();
  readonly names = new Map<Tensor, string>();
  /** Outputs of nodes that have no name of their own yet. */
  readonly #renamable = new Set<string>();
  /** Works a shape out inside the graph; without it, such shapes become inputs. */
  readonly #shapeInGraph: ((shape: Shape, e: Emitter) => string) | undefined;
  #fresh = 0;

  constructor(shapeInGraph?: (shape: Shape, e: Emitter) => string) {
    this.#shapeInGraph = shapeInGraph;
  }

  name(x: Tensor): string {
    return this.names.get(x)!;
  }

  emit(
    type: string,
    inputs: readonly string[],
    options: { output?: string; domain?: string; attributes?: Record<string, Attribute> } = {},
  ): string {
    const output = options.output ?? `t${this.#fresh++}`;
    if (options.output === undefined) this.#renamable.add(output);
    const attribute = Object.entries(options.attributes ?? {}).map(([name, value]) => {
      if (typeof value === "number") return { name, type: 2, i: value };
      if (typeof value === "string") return { name, type: 3, s: new TextEncoder().encode(value) };
      if ("float" in value) return { name, type: 1, f: value.float };
      return { name, type: 7, ints: [...value] };
    });
    this.nodes.push({ opType: type, domain: options.domain ?? "", input: [...inputs], output: [output], attribute });
    return output;
  }

  /** Names a tensor as an output: in the node that makes it where that is possible, so that nothing is copied. */
  output(name: string, x: Tensor): void {
    const inner = this.name(x);
    if (!this.#renamable.delete(inner)) {
      this.emit("Identity", [inner], { output: name });
      return;
    }
    this.names.set(x, name);
    for (const made of this.nodes) {
      made.input = made.input.map((used) => (used === inner ? name : used));
      made.output = made.output.map((used) => (used === inner ? name : used));
    }
    for (const [other, known] of this.names) if (known === inner) this.names.set(other, name);
  }

  inputsOf({ inputs }: { readonly inputs: readonly Tensor[] }): string[] {
    return inputs.map((x) => this.name(x));
  }

  /** A constant int64 vector. */
  ints(values: readonly number[]): string {
    const name = `i:${values.join(",")}`;
    const rawData = new Uint8Array(BigInt64Array.from(values.map(BigInt)).buffer);
    this.initializers.set(name, { name, dims: [values.length], dataType: elementTypes.int64, rawData });
    return name;
  }

  scalar(value: number, dtype: DType): string {
    const name = `${dtype}:${Object.is(value, -0) ? "-0" : value}`;
    const array = dtype === "float32" ? Float32Array.of(value) : dtype === "int64" ? BigInt64Array.of(BigInt(value)) : Uint8Array.of(value);
    this.initializers.set(name, { name, dims: [], dataType: elementTypes[dtype], rawData: new Uint8Array(array.buffer) });
    return name;
  }

  /** A shape operand; with `infer`, one symbolic size may be left for the runtime to work out. */
  shape(shape: Shape, infer: boolean): string {
    const symbolic = shape.filter((d) => typeof d !== "number").length;
    if (symbolic === 0) return this.ints(shape as number[]);
    if (infer && symbolic === 1) return this.ints(shape.map((d) => (typeof d === "number" ? d : -1)));
    if (this.#shapeInGraph !== undefined) return this.#shapeInGraph(shape, this);
    const name = `shape:${shape.map(String).join(",")}`;
    this.shapeInputs.set(name, shape);
    return name;
  }

  reshape(x: string, shape: Shape): string {
    return this.emit("Reshape", [x, this.shape(shape, true)]);
  }

  zeros(shape: Shape): string {
    return this.emit("Expand", [this.scalar(0, "float32"), this.shape(shape, false)]);
  }
}

type Rule<K extends OpName> = (n: Node<K>, e: Emitter) => string;

const plain = (type: string): Rule<OpName> => (n, e) => e.emit(type, n.inputs.map((x) => e.name(x)));
const contrib = (type: string, attributes: Record<string, Attribute> = {}): Rule<OpName> => (n, e) =>
  e.emit(type, n.inputs.map((x) => e.name(x)), { domain: contributed, attributes });

function matmul(n: Node<"matmul">, e: Emitter): string {
  const [a, b] = [n.inputs[0]!, n.inputs[1]!];
  const { transA, transB, alpha } = n.attributes;
  const names = [e.name(a), e.name(b)];
  if (!transA && !transB && alpha === 1) return e.emit("MatMul", names);
  if (a.shape.length === 2 && b.shape.length === 2) {
    return e.emit("Gemm", names, { attributes: { transA: Number(transA), transB: Number(transB), alpha: { float: alpha } } });
  }
  return e.emit("FusedMatMul", names, {
    domain: contributed,
    attributes: { transA: Number(transA), transB: Number(transB), alpha: { float: alpha } },
  });
}

const reduceByAttribute = (type: string): Rule<"reduceMean" | "reduceMax"> => (n, e) =>
  e.emit(type, [e.name(n.inputs[0]!)], { attributes: { axes: n.attributes.axes, keepdims: Number(n.attributes.keep) } });

const rules: { readonly [K in OpName]: Rule<K> } = {
  input: (n) => n.attributes.name,
  constant: (n, e) => e.scalar(n.attributes.value, n.dtype),
  neg: plain("Neg"),
  exp: plain("Exp"),
  log: plain("Log"),
  sqrt: plain("Sqrt"),
  tanh: plain("Tanh"),
  sigmoid: plain("Sigmoid"),
  erf: plain("Erf"),
  abs: plain("Abs"),
  not: plain("Not"),
  silu: contrib("QuickGelu", { alpha: { float: 1 } }),
  gelu: contrib("FastGelu"),
  add: plain("Add"),
  sub: plain("Sub"),
  mul: plain("Mul"),
  div: plain("Div"),
  pow: plain("Pow"),
  max: plain("Max"),
  min: plain("Min"),
  less: plain("Less"),
  greater: plain("Greater"),
  equal: plain("Equal"),
  where: plain("Where"),
  stopGradient: plain("Identity"),
  cast: (n, e) => e.emit("Cast", [e.name(n.inputs[0]!)], { attributes: { to: elementTypes[n.attributes.to] } }),
  matmul,
  reduceSum: (n, e) =>
    e.emit("ReduceSum", [e.name(n.inputs[0]!), e.ints(n.attributes.axes)], { attributes: { keepdims: Number(n.attributes.keep) } }),
  reduceMean: reduceByAttribute("ReduceMean"),
  reduceMax: reduceByAttribute("ReduceMax"),
  reshape: (n, e) => e.reshape(e.name(n.inputs[0]!), n.shape),
  transpose: (n, e) => e.emit("Transpose", [e.name(n.inputs[0]!)], { attributes: { perm: n.attributes.permutation } }),
  slice: (n, e) =>
    e.emit("Slice", [
      e.name(n.inputs[0]!),
      e.shape([n.attributes.start], false),
      e.shape([n.attributes.end], false),
      e.ints([n.attributes.axis]),
    ]),
  concat: (n, e) => e.emit("Concat", e.inputsOf(n), { attributes: { axis: n.attributes.axis } }),
  expand: (n, e) => e.emit("Expand", [e.name(n.inputs[0]!), e.shape(n.shape, false)]),
  softmax: (n, e) => e.emit("Softmax", [e.name(n.inputs[0]!)], { attributes: { axis: -1 } }),
  cumSum: (n, e) => e.emit("CumSum", [e.name(n.inputs[0]!), e.scalar(n.shape.length - 1, "int64")]),
  argMax: (n, e) => e.emit("ArgMax", [e.name(n.inputs[0]!)], { attributes: { axis: n.shape.length - 1, keepdims: 1 } }),
  rmsNorm: (n, e) =>
    e.emit("SimplifiedLayerNormalization", e.inputsOf(n), { attributes: { axis: -1, epsilon: { float: n.attributes.epsilon } } }),
  layerNorm: (n, e) =>
    e.emit("LayerNormalization", e.inputsOf(n), { attributes: { axis: -1, epsilon: { float: n.attributes.epsilon } } }),
  rotary: contrib("RotaryEmbedding"),
  gatherRows: (n, e) => e.emit("Gather", e.inputsOf(n), { attributes: { axis: 0 } }),
  scatterRows: (n, e) => {
    const [rows, ids, like] = [n.inputs[0]!, n.inputs[1]!, n.inputs[2]!];
    const flatIds = e.emit("Reshape", [e.name(ids), e.ints([-1, 1])]);
    const flatRows = e.emit("Reshape", [e.name(rows), e.shape([-1, ...like.shape.slice(1)], false)]);
    return e.emit("ScatterND", [e.zeros(like.shape), flatIds, flatRows], { attributes: { reduction: "add" } });
  },
  selectRows: (n, e) => e.emit("Gather", [e.name(n.inputs[0]!), e.name(n.inputs[1]!)], { attributes: { axis: 0 } }),
  takeLast: (n, e) => e.emit("GatherElements", e.inputsOf(n), { attributes: { axis: n.shape.length - 1 } }),
  addAtLast: (n, e) => e.emit("ScatterElements", e.inputsOf(n), { attributes: { axis: n.shape.length - 1, reduction: "add" } }),
  segmentSum: (n, e) =>
    e.emit("ScatterElements", [e.zeros(n.shape), e.name(n.inputs[1]!), e.name(n.inputs[0]!)], {
      attributes: { axis: 0, reduction: "add" },
    }),
};

const valueInfo = ({ name, shape, dtype }: ProgramInput): object => ({
  name,
  type: {
    tensorType: {
      elemType: elementTypes[dtype],
      shape: { dim: shape.map((d) => (typeof d === "number" ? { dimValue: d } : { dimParam: d.key })) },
    },
  },
});

interface Emitted {
  readonly inputs: readonly ProgramInput[];
  readonly outputs: readonly ProgramInput[];
}

/** Emits all nodes that `outputs` need; what `given` holds counts as an input. */
function emitGraph(e: Emitter, outputs: Readonly<Record<string, Tensor>>, given: Readonly<Record<string, Tensor>>): Emitted {
  const inputs: ProgramInput[] = [];
  for (const [name, x] of Object.entries(given)) e.names.set(x, name);
  const cut = new Set(Object.values(given));
  for (const x of topological(Object.values(outputs), cut)) {
    if (x.op === "input" || cut.has(x))
      inputs.push({ name: x.op === "input" ? x.attributes.name : e.name(x), shape: x.shape, dtype: x.dtype });
    if (!e.names.has(x)) e.names.set(x, (rules[x.op] as Rule<OpName>)(x, e));
  }
  const results = Object.entries(outputs).map(([name, x]) => ({ name, shape: x.shape, dtype: x.dtype }));
  for (const [name, x] of Object.entries(outputs)) e.output(name, x);
  return { inputs, outputs: results };
}

/** Lowers the graph that ends in `outputs`. Tensors in `given` are inputs of the program, whatever they were made from. */
export function lower(outputs: Readonly<Record<string, Tensor>>, given: Readonly<Record<string, Tensor>> = {}): Lowered {
  const e = new Emitter();
  const { inputs, outputs: results } = emitGraph(e, outputs, given);
  const hidden = [...e.shapeInputs].map(([name, shape]): ProgramInput => ({ name, shape: [shape.length], dtype: "int64" }));
  const graph = graphFields(e, [...inputs, ...hidden], results);
  return { bytes: onnx.ModelProto.encode({ ...modelFields, graph }).finish(), inputs, outputs: results, shapeInputs: e.shapeInputs };
}

const modelFields = {
  irVersion: 8,
  producerName: "flywheel",
  opsetImport: [{ domain: "", version: 17 }, { domain: contributed, version: 1 }],
};

function graphFields(e: Emitter, inputs: readonly ProgramInput[], outputs: readonly ProgramInput[]) {
  const initializer = [...e.initializers.values()] as object[];
  return { name: "program", node: e.nodes, initializer, input: inputs.map(valueInfo), output: outputs.map(valueInfo) };
}

interface Standalone {
  /** The encoded model without its graph. */
  readonly model: Uint8Array;
  /** The encoded graph without the tensors that `stored` names; those follow it as further initializers. */
  readonly graph: Uint8Array;
  readonly inputs: readonly ProgramInput[];
}

/**
 * Lowers the graph for a file that runs by itself: inputs that `stored` names become initializers, which the writer appends,
 * and `shapeInGraph` works out shapes that depend on several sizes.
 */
export function lowerStandalone(
  outputs: Readonly<Record<string, Tensor>>,
  { stored, shapeInGraph }: { readonly stored: ReadonlySet<string>; readonly shapeInGraph: (shape: Shape, e: Emitter) => string },
): Standalone {
  const e = new Emitter(shapeInGraph);
  const emitted = emitGraph(e, outputs, {});
  const inputs = emitted.inputs.filter(({ name }) => !stored.has(name));
  const graph = onnx.GraphProto.encode(graphFields(e, inputs, emitted.outputs)).finish();
  return { model: onnx.ModelProto.encode(modelFields).finish(), graph, inputs };
}
