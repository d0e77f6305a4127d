/** Runs a loss by itself: its value, its metrics and its gradients, compiled once for each key. */
import { dim } from "../../src/compute/tensor/dim.ts";
import { gradient } from "../../src/compute/tensor/gradients.ts";
import { topological, type Tensor } from "../../src/compute/tensor/graph.ts";
import { floats, integers } from "../../src/compute/tensor/host.ts";
import * as o from "../../src/compute/tensor/ops.ts";
import { Program } from "../../src/compute/tensor/program.ts";
import { policyLoss, type TokenPart } from "../../src/loop/loss/policy-loss.ts";
import type { Loss } from "../../src/types.ts";

export interface Tokens {
  readonly logprobs: readonly number[];
  readonly entropy?: readonly number[];
  readonly fields: Readonly<Record<string, readonly number[]>>;
  /** Default: one row, one unit, and `tokens` as many as there are. */
  readonly row?: readonly number[];
  readonly unit?: readonly number[];
  readonly scalars?: Readonly<Record<string, number>>;
}

export interface LossRun {
  readonly loss: number;
  readonly metrics: Readonly<Record<string, number>>;
  /** [N] of the log-probs, and of the entropies (zeros if the loss does not read them). */
  readonly gradient: readonly number[];
  readonly entropyGradient: readonly number[];
}

const programs = new Map<string, Promise<Program>>();

function compile(loss: Loss): Promise<Program> {
  const size = [dim("N")];
  const field = (name: string): Tensor => o.input(name, size);
  const inputs = new Map<string, Tensor>();
  const once = (name: string, make: () => Tensor): Tensor => inputs.get(name) ?? inputs.set(name, make()).get(name)!;
  const [logprobs, entropy] = [field("logprobs"), field("entropy")];
  const { loss: value, metrics } = loss.build({
    logprobs,
    entropy,
    values: field("values"),
    row: o.input("row", size, "int64"),
    rows: o.input("rows", [dim("R")]),
    unit: o.input("unit", size, "int64"),
    units: o.input("units", [dim("U")]),
    field: (name) => once(`field:${name}`, () => field(`field:${name}`)),
    scalar: (name) => once(`scalar:${name}`, () => o.input(`scalar:${name}`, [])),
  });
  const named = Object.fromEntries(Object.entries(metrics).map(([name, tensor]) => [`metric:${name}`, tensor]));
  const reads = topological([value]).includes(entropy);
  const [gradient0, gradient1] = gradient(value, [logprobs, entropy]);
  return Program.compile({ loss: value, gradient: gradient0!, ...(reads ? { entropyGradient: gradient1! } : {}), ...named });
}

export async function runLoss(loss: Loss, { logprobs, entropy = logprobs.map(() => 0), fields, ...rest }: Tokens): Promise<LossRun> {
  const zeros = logprobs.map(() => 0);
  const { row = zeros, unit = zeros, scalars = {} } = rest;
  const compiled = programs.get(loss.key) ?? compile(loss);
  programs.set(loss.key, compiled);
  const ones = (index: readonly number[]): number[] => Array.from({ length: Math.max(...index) + 1 }, () => 1);
  const program = await compiled;
  const sizes = { N: logprobs.length, R: ones(row).length, U: ones(unit).length };
  const feeds = {
    logprobs: floats(logprobs),
    entropy: floats(entropy),
    row: integers(row),
    rows: floats(ones(row)),
    unit: integers(unit),
    units: floats(ones(unit)),
    ...Object.fromEntries(Object.entries(fields).map(([name, values]) => [`field:${name}`, floats(values)])),
    ...Object.fromEntries(
      Object.entries({ tokens: logprobs.length, ...scalars }).map(([name, value]) => [`scalar:${name}`, floats([value], [])]),
    ),
  };
  const outputs = await program.run(feeds, { sizes });
  const metrics = Object.entries(outputs).flatMap(
    ([
      name,
      {
        floats: [value],
      },
    ]) => (name.startsWith("metric:") ? [[name.slice(7), value!] as const] : []),
  );
  return {
    loss: outputs["loss"]!.floats[0]!,
    metrics: Object.fromEntries(metrics),
    gradient: [...outputs["gradient"]!.floats],
    entropyGradient: [...(outputs["entropyGradient"]?.floats ?? zeros)],
  };
}

/** A surrogate alone, or with what multiplies it and what is added to it. */
export const lossOf = (surrogate: TokenPart, more: { weights?: TokenPart[]; terms?: TokenPart[] } = {}): Loss =>
  policyLoss({ surrogate, ...more });

/** Nothing but a term. */
export const termLoss = (term: TokenPart): Loss =>
  policyLoss({ surrogate: { key: "none", build: ({ logprobs }) => ({ value: o.mul(o.stopGradient(logprobs), 0) }) }, terms: [term] });

/**
 * Central differences of the loss with respect to each log-prob (or entropy): what the gradient must be, for losses without
 * stopped gradients. The step is 2^-7: errors of float32 and of the third derivative are then both below 1e-4.
 */
export async function differences(loss: Loss, tokens: Tokens, of: "logprobs" | "entropy" = "logprobs"): Promise<number[]> {
  const h = 2 ** -7;
  const at = async (t: number, by: number): Promise<number> => {
    const moved = tokens[of]!.map((value, i) => (i === t ? value + by : value));
    return (await runLoss(loss, { ...tokens, [of]: moved })).loss;
  };
  return Promise.all(tokens[of]!.map(async (_, t) => ((await at(t, h)) - (await at(t, -h))) / (2 * h)));
}

export async function closePrograms(): Promise<void> {
  await Promise.all([...programs.values()].map(async (program) => (await program).close()));
  programs.clear();
}
