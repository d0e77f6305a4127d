/** Compiles a loss (a graph function over log-probs, values and named fields) with its gradients; one program a loss. */
import { PolicyError, expected } from "../../../errors.ts";
import type { Loss } from "../../../types.ts";
import { dim } from "../../tensor/dim.ts";
import { gradient } from "../../tensor/gradients.ts";
import { topological, type Tensor } from "../../tensor/graph.ts";
import { floats, integers, type HostTensor } from "../../tensor/host.ts";
import * as o from "../../tensor/ops.ts";
import { Program } from "../../tensor/program.ts";

/** What a model says of each trained token, as far as a loss reads it. */
type Reading = "logprobs" | "entropy" | "values";
const readings = ["logprobs", "entropy", "values"] as const satisfies readonly Reading[];

interface LossFeeds extends Readonly<Partial<Record<Reading, Float32Array | undefined>>> {
  /** [N] row index of each trained token, and the number of rows; the same of units (default: one unit). */
  readonly row: Int32Array;
  readonly rowCount: number;
  readonly unit?: Int32Array;
  readonly unitCount?: number;
  readonly fields: ReadonlyMap<string, Float32Array>;
  readonly scalars: Readonly<Record<string, number>>;
}

interface LossResult {
  readonly loss: number;
  readonly metrics: Readonly<Record<string, number>>;
  /** Gradients of the loss: of log-probs always (zeros if it does not depend on them), of the others where it does. */
  readonly dLogprobs: Float32Array;
  readonly dEntropy: Float32Array | undefined;
  readonly dValues: Float32Array | undefined;
}

interface Facts {
  readonly metrics: readonly string[];
  readonly fields: readonly string[];
  readonly scalars: readonly string[];
  readonly reads: ReadonlySet<Reading>;
  readonly slopes: ReadonlySet<Reading>;
}

export class LossProgram {
  readonly #program: Program;
  readonly #facts: Facts;

  private constructor(program: Program, facts: Facts) {
    this.#program = program;
    this.#facts = facts;
  }

  get fields(): readonly string[] {
    return this.#facts.fields;
  }

  /** What the loss or a metric reads. */
  get reads(): ReadonlySet<Reading> {
    return this.#facts.reads;
  }

  /** What the loss itself depends on: what has a gradient. */
  get slopes(): ReadonlySet<Reading> {
    return this.#facts.slopes;
  }

  static async compile(loss: Loss): Promise<LossProgram> {
    const size = [dim("N")];
    const inputs = { logprobs: o.input("logprobs", size), entropy: o.input("entropy", size), values: o.input("values", size) };
    const fields = new Map<string, Tensor>();
    const scalars = new Map<string, Tensor>();
    const named = (from: Map<string, Tensor>, name: string, prefix: "field" | "scalar"): Tensor => {
      const known = from.get(name) ?? o.input(`${prefix}:${name}`, prefix === "field" ? size : []);
      from.set(name, known);
      return known;
    };
    const built = loss.build({
      ...inputs,
      row: o.input("row", size, "int64"),
      rows: o.input("rows", [dim("R")]),
      unit: o.input("unit", size, "int64"),
      units: o.input("units", [dim("U")]),
      field: (name) => named(fields, name, "field"),
      scalar: (name) => named(scalars, name, "scalar"),
    });
    const reached = (...ends: readonly Tensor[]): Set<Reading> => {
      const nodes = new Set<Tensor>(topological(ends));
      return new Set(readings.filter((name) => nodes.has(inputs[name])));
    };
    const slopes = reached(built.loss);
    const wanted = [...slopes];
    const found = gradient(built.loss, wanted.map((name) => inputs[name]));
    const outputs: Record<string, Tensor> = { loss: built.loss };
    wanted.forEach((name, i) => (outputs[`gradient:${name}`] = found[i]!));
    for (const [name, tensor] of Object.entries(built.metrics)) outputs[`metric:${name}`] = tensor;
    return new LossProgram(await Program.compile(outputs), {
      metrics: Object.keys(built.metrics),
      fields: [...fields.keys()],
      scalars: [...scalars.keys()],
      reads: reached(built.loss, ...Object.values(built.metrics)),
      slopes,
    });
  }

  async run(feeds: LossFeeds): Promise<LossResult> {
    const { row, rowCount, unit = new Int32Array(row.length), unitCount = 1 } = feeds;
    const ones = (count: number): HostTensor => floats(new Float32Array(count).fill(1));
    const inputs: Record<string, HostTensor> = {
      row: integers(row),
      rows: ones(rowCount),
      unit: integers(unit),
      units: ones(unitCount),
    };
    for (const name of readings) if (feeds[name] !== undefined) inputs[name] = floats(feeds[name]);
    for (const name of this.#facts.fields) inputs[`field:${name}`] = floats(feeds.fields.get(name)!);
    for (const name of this.#facts.scalars) {
      const value = feeds.scalars[name];
      if (value === undefined) throw new PolicyError(expected(`loss scalar ${name}`, "a number in batch.scalars", "none"));
      inputs[`scalar:${name}`] = floats([value], []);
    }
    const result = await this.#program.run(inputs, { sizes: { N: row.length, R: rowCount, U: unitCount } });
    return {
      loss: result["loss"]!.floats[0]!,
      metrics: Object.fromEntries(this.#facts.metrics.map((name) => [name, result[`metric:${name}`]!.floats[0]!])),
      dLogprobs: result["gradient:logprobs"]?.floats ?? new Float32Array(row.length),
      dEntropy: result["gradient:entropy"]?.floats,
      dValues: result["gradient:values"]?.floats,
    };
  }

  async close(): Promise<void> {
    await this.#program.close();
  }
}
