/** Compiled programs: a lowered graph in an ONNX Runtime session, run on host arrays that are neither copied in nor out. */
import * as ort from "onnxruntime-node";
import { expected } from "../../errors.ts";
import { bindShape, evaluate, isCompound } from "./dim.ts";
import type { Tensor } from "./graph.ts";
import type { HostTensor } from "./host.ts";
import { integers, Pool } from "./host.ts";
import { lower, type Lowered } from "./lowering.ts";

export type HostTensors = Readonly<Record<string, HostTensor>>;

interface CompileOptions {
  /** Tensors that become inputs of the program, whatever they were made from. */
  readonly given?: Readonly<Record<string, Tensor>>;
  readonly threads?: number;
  /** File prefix for the runtime's own profile. */
  readonly profile?: string;
}

interface RunOptions {
  /** Where outputs are written. */
  readonly into?: HostTensors;
  /** Lends buffers for the other outputs. */
  readonly pool?: Pool;
  /** Sizes that no input has as a dimension of its own. */
  readonly sizes?: Readonly<Record<string, number>>;
}

export class Program {
  readonly #session: ort.InferenceSession;
  readonly #lowered: Lowered;
  readonly #shapes = new Map<string, HostTensor>();
  /** Inputs whose shapes can be checked only when all names are bound. */
  readonly #compound: Lowered["inputs"];

  private constructor(session: ort.InferenceSession, lowered: Lowered) {
    this.#session = session;
    this.#lowered = lowered;
    this.#compound = lowered.inputs.filter(({ shape }) => isCompound(shape));
  }

  /** Compiles the graph that ends in `outputs`; its inputs are the `input` nodes met on the way and `given`. */
  static async compile(outputs: Readonly<Record<string, Tensor>>, { given = {}, threads, profile }: CompileOptions = {}): Promise<Program> {
    const lowered = lower(outputs, given);
    const session = await ort.InferenceSession.create(lowered.bytes, {
      graphOptimizationLevel: "all",
      executionMode: "sequential",
      enableCpuMemArena: true,
      enableMemPattern: false,
      logSeverityLevel: 3,
      // Threads that wait by spinning take the cores from whoever else works: half of all processor time where processes share them.
      extra: { session: { intra_op: { allow_spinning: "0" } } },
      ...(threads === undefined ? {} : { intraOpNumThreads: threads }),
      ...(profile === undefined ? {} : { enableProfiling: true, profileFilePrefix: profile }),
    });
    return new Program(session, lowered);
  }

  get inputNames(): readonly string[] {
    return this.#lowered.inputs.map(({ name }) => name);
  }

  /**
   * Runs on `feeds` (those not of this program are ignored). Outputs are written into `into` where given, else into buffers
   * from `pool`. An output may share its buffer with an input only if every operation between them is elementwise.
   */
  async run(feeds: HostTensors, { into = {}, pool = new Pool(), sizes = {} }: RunOptions = {}): Promise<Record<string, HostTensor>> {
    const bindings = new Map<string, number>(Object.entries(sizes));
    const inputs: Record<string, ort.Tensor> = {};
    for (const { name, shape, dtype } of this.#lowered.inputs) {
      const fed = feeds[name];
      if (fed === undefined) throw new RangeError(expected(`program input ${name}`, "a tensor", "none"));
      if (fed.dtype !== dtype) throw new TypeError(expected(`program input ${name}`, dtype, fed.dtype));
      bindShape(shape, fed.shape, bindings, `program input ${name}`);
      inputs[name] = fed.value;
    }
    for (const { name, shape } of this.#compound) bindShape(shape, feeds[name]!.shape, bindings, `program input ${name}`);
    for (const [name, shape] of this.#lowered.shapeInputs) inputs[name] = this.#shape(shape.map((d) => evaluate(d, bindings))).value;
    const results: Record<string, HostTensor> = {};
    const fetches: Record<string, ort.Tensor> = {};
    for (const { name, shape, dtype } of this.#lowered.outputs) {
      const target =
        into[name] ??
        pool.take(
          shape.map((d) => evaluate(d, bindings)),
          dtype,
        );
      if (target.dtype !== dtype) throw new TypeError(expected(`program output ${name}`, dtype, target.dtype));
      bindShape(shape, target.shape, bindings, `program output ${name}`);
      results[name] = target;
      fetches[name] = target.value;
    }
    await this.#session.run(inputs, fetches);
    return results;
  }

  #shape(sizes: readonly number[]): HostTensor {
    const key = sizes.join(",");
    let known = this.#shapes.get(key);
    if (known === undefined) {
      if (this.#shapes.size > 4096) this.#shapes.clear();
      this.#shapes.set(key, (known = integers(sizes)));
    }
    return known;
  }

  async close(): Promise<void> {
    await this.#session.release();
  }
}
