/** Compiles a loss (a graph function over log-probs and named fields) with its gradients; one program a loss. */
import { PolicyError, expected } from "../../../errors.ts";
import type { Loss } from "../../../types.ts";
import { dim } from "../../tensor/dim.ts";
import { gradient } from "../../tensor/gradients.ts";
import { topological, type Tensor } from "../../tensor/graph.ts";
import { floats, integers, type HostTensor } from "../../tensor/host.ts";
import * as o from "../../tensor/ops.ts";
import { Program } from "../../tensor/program.ts";

interface LossFeeds {
  readonly logprobs: Float32Array;
  readonly entropy: Float32Array | undefined;
  readonly row: Int32Array;
  readonly rowCount: number;
  readonly fields: ReadonlyMap<string, Float32Array>;
  readonly scalars: Readonly<Record<string, number>>;
}

interface LossResult {
  readonly loss: number;
  readonly metrics: Readonly<Record<string, number>>;
  readonly dLogprobs: Float32Array;
  readonly dEntropy: Float32Array | undefined;
}

export class LossProgram {
  readonly #program: Program;
  readonly #metrics: readonly string[];
  readonly fields: readonly string[];
  readonly scalars: readonly string[];
  /** Whether the loss reads entropies. */
  readonly usesEntropy: boolean;

  private constructor(
    program: Program,
    { metrics, fields, scalars, usesEntropy }: { metrics: string[]; fields: string[]; scalars: string[]; usesEntropy: boolean },
  ) {
    this.#program = program;
    this.#metrics = metrics;
    this.fields = fields;
    this.scalars = scalars;
    this.usesEntropy = usesEntropy;
  }

  static async compile(loss: Loss): Promise<LossProgram> {
    const size = [dim("N")];
    const logprobs = o.input("logprobs", size);
    const entropy = o.input("entropy", size);
    const fields = new Map<string, Tensor>();
    const scalars = new Map<string, Tensor>();
    const named = (from: Map<string, Tensor>, name: string, prefix: "field" | "scalar"): Tensor => {
      const known = from.get(name) ?? o.input(`${prefix}:${name}`, prefix === "field" ? size : []);
      from.set(name, known);
      return known;
    };
    const built = loss.build({
      logprobs,
      entropy,
      row: o.input("row", size, "int64"),
      rows: o.input("rows", [dim("R")]),
      values: o.input("values", size),
      unit: o.input("unit", size, "int64"),
      units: o.input("units", [dim("U")]),
      field: (name) => named(fields, name, "field"),
      scalar: (name) => named(scalars, name, "scalar"),
    });
    const reached = topological([built.loss, ...Object.values(built.metrics)]);
    const usesEntropy = reached.includes(entropy);
    const [dLogprobs, dEntropy] = gradient(built.loss, [logprobs, entropy]);
    const outputs = { loss: built.loss, dLogprobs: dLogprobs!, ...(usesEntropy ? { dEntropy: dEntropy! } : {}) };
    const metrics = Object.fromEntries(Object.entries(built.metrics).map(([name, tensor]) => [`metric:${name}`, tensor]));
    const program = await Program.compile({ ...outputs, ...metrics });
    return new LossProgram(program, {
      metrics: Object.keys(built.metrics),
      fields: [...fields.keys()],
      scalars: [...scalars.keys()],
      usesEntropy,
    });
  }

  async run(feeds: LossFeeds): Promise<LossResult> {
    const inputs: Record<string, HostTensor> = {
      logprobs: floats(feeds.logprobs),
      row: integers(feeds.row),
      rows: floats(new Float32Array(feeds.rowCount).fill(1)),
      ...(feeds.entropy === undefined ? {} : { entropy: floats(feeds.entropy) }),
    };
    for (const name of this.fields) inputs[`field:${name}`] = floats(feeds.fields.get(name)!);
    for (const name of this.scalars) {
      const value = feeds.scalars[name];
      if (value === undefined) throw new PolicyError(expected(`loss scalar ${name}`, "a number in batch.scalars", "none"));
      inputs[`scalar:${name}`] = floats([value], []);
    }
    const result = await this.#program.run(inputs, { sizes: { N: feeds.logprobs.length, R: feeds.rowCount } });
    return {
      loss: result["loss"]!.floats[0]!,
      metrics: Object.fromEntries(this.#metrics.map((name) => [name, result[`metric:${name}`]!.floats[0]!])),
      dLogprobs: result["dLogprobs"]!.floats,
      dEntropy: result["dEntropy"]?.floats,
    };
  }

  async close(): Promise<void> {
    await this.#program.close();
  }
}
