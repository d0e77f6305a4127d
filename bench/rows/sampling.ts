/** Sampling: decoding steps at a cache of 256 slots, prefill, and log-probs against the trainer's. */
import type { LocalEngine } from "../../src/compute/policy/local/engine.ts";
import { decodeCost, forwardCost } from "../cost.ts";
import { lora, openEngine, randomIds, sampleAll } from "../engines.ts";
import { time, type BenchOptions, type Figure, type FigureGroup } from "../figure.ts";
import { architectureOf } from "../shapes.ts";

const slots = 256;

type DecodeOptions = BenchOptions & { readonly train: "lora" | "none" };

async function decodeFigures(engine: LocalEngine, rows: number, { shape, quick, train, ...options }: DecodeOptions): Promise<Figure[]> {
  const a = architectureOf(shape);
  const tokens = quick ? 8 : 24;
  const prompt = randomIds(a, slots - tokens - 8, "decode");
  const { stats } = engine.sampler;
  const run = async (): Promise<number> => {
    const before = stats.decodeSeconds;
    await sampleAll(engine, prompt, { count: rows, tokens, from: "decode" });
    return (stats.decodeSeconds - before) / tokens;
  };
  const cost = decodeCost(a, { rows, slots, lora: train === "lora" ? lora : undefined });
  options.say(`decode ${rows} ${train}`);
  const { seconds, rest } = await time({ run, cost }, options);
  const note = `${(rows / seconds).toFixed(0)} tokens/s`;
  const name = `decode, ${rows} sequence${rows === 1 ? "" : "s"}${train === "lora" ? ", LoRA" : ""}`;
  return [{ name, value: seconds * 1000, unit: "ms/step", ...rest, note }];
}

export const decode: FigureGroup = async (options) => {
  const figures: Figure[] = [];
  for (const train of ["none", "lora"] as const) {
    await using engine = openEngine(architectureOf(options.shape), train);
    for (const rows of [1, 16, 64]) figures.push(...(await decodeFigures(engine, rows, { ...options, train })));
  }
  return figures;
};

export const prefill: FigureGroup = async ({ shape, ...options }) => {
  const a = architectureOf(shape);
  await using engine = openEngine(a, "none", { retainBudget: 0 });
  const [prompts, length] = [4, 256];
  const { stats } = engine.sampler;
  const run = async (): Promise<number> => {
    const before = stats.prefillSeconds;
    const one = (p: number): Promise<unknown> =>
      sampleAll(engine, randomIds(a, length, "prefill", p), { count: 1, tokens: 1, from: "prefill" });
    await Promise.all(Array.from({ length: prompts }, (_, p) => one(p)));
    return stats.prefillSeconds - before;
  };
  const tokens = prompts * (length - 1);
  const { seconds, rest } = await time({ run, cost: forwardCost(a, { tokens, heads: 0 }) }, options);
  return [{ name: `prefill, ${prompts} x ${length}`, value: tokens / seconds, unit: "tokens/s", ...rest }];
};

/** The same tokens scored by the decoding program and by the training programs, with the same weights. */
export const agreement: FigureGroup = async ({ shape }) => {
  const a = architectureOf(shape);
  const prompt = randomIds(a, 64, "agreement");
  await using engine = openEngine(a, "lora");
  const spans = await sampleAll(engine, prompt, { count: 8, tokens: 32, from: "agreement" });
  const trained = Int32Array.from({ length: 32 }, (_, t) => prompt.length + t);
  const rows = spans.map(({ ids }) => ({ ids: Int32Array.from([...prompt, ...ids]), trained, fields: {}, temperature: 1 }));
  const scored = await engine.logprobs(rows);
  const gaps = spans.flatMap(({ logprobs }, row) => logprobs.map((value, t) => Math.abs(value - scored[row]![t]!)));
  return [{ name: "sampler against trainer, log-prob", value: Math.max(...gaps), unit: "max difference", note: `${gaps.length} tokens` }];
};
