/** Sampling: against stored continuations, against the trainer's reading, and that no neighbour, batch or cache shows in a result. */
import { afterAll, expect, test } from "vitest";
import type { LocalEngine, LocalEngineOptions } from "../../../src/compute/policy/local/engine.ts";
import * as o from "../../../src/compute/tensor/ops.ts";
import { rng } from "../../../src/random.ts";
import type { Loss, RandomKey, SampledSpan, SampleRequest } from "../../../src/types.ts";
import { goldenEngine, trainRow } from "../../fakes/engines.ts";
import { difference, goldenJson } from "../../fakes/golden.ts";

const opened: LocalEngine[] = [];
afterAll(async () => {
  for (const engine of opened) await engine.close();
}, 60_000);

async function open(
  name: string,
  options: Omit<Partial<LocalEngineOptions>, "train"> & { train?: "none" | "full" | "stored-lora" } = {},
): Promise<LocalEngine> {
  const { train = "none", ...rest } = options;
  const { engine } = await goldenEngine(name, train, rest);
  opened.push(engine);
  return engine;
}

const keysOf = (count: number, seed = 1): RandomKey[] => Array.from({ length: count }, (_, i) => rng(seed, i));
function request(prompt: readonly number[], options: Partial<SampleRequest> = {}): SampleRequest {
  return { prompt, count: 1, maxTokens: 12, temperature: 1, stopIds: [], keys: keysOf(options.count ?? 1), ...options };
}

/** Prompts of 1 to 24 tokens. */
const prompts = Array.from({ length: 16 }, (_, i) => Array.from({ length: 1 + ((i * 7) % 24) }, (__, t) => (i * 31 + t * 17) % 96));
/** One request a prompt, each with a key of its own. */
const mixed = (count: number, options: Partial<SampleRequest> = {}): SampleRequest[] =>
  prompts.slice(0, count).map((prompt, i) => request(prompt, { keys: [rng(9, i)], ...options }));

async function all(engine: LocalEngine, requests: readonly SampleRequest[]): Promise<SampledSpan[]> {
  return (await Promise.all(requests.map((one) => engine.sample(one)))).flat();
}
async function oneByOne(engine: LocalEngine, requests: readonly SampleRequest[]): Promise<SampledSpan[]> {
  const spans: SampledSpan[] = [];
  for (const one of requests) spans.push(...(await engine.sample(one)));
  return spans;
}
function same(found: readonly SampledSpan[], wanted: readonly SampledSpan[], tolerance = 1e-5): void {
  expect(found.map(({ ids }) => ids)).toEqual(wanted.map(({ ids }) => ids));
  expect(found.map(({ finish }) => finish)).toEqual(wanted.map(({ finish }) => finish));
  expect(
    difference(
      found.flatMap(({ logprobs }) => logprobs),
      wanted.flatMap(({ logprobs }) => logprobs),
    ).max,
  ).toBeLessThan(tolerance);
}

interface Continuation {
  readonly prompt: readonly number[];
  readonly ids: readonly number[];
  readonly logprobs: readonly number[];
}

for (const [name, continuations] of Object.entries(goldenJson<Record<string, readonly Continuation[]>>("generate.json"))) {
  test(`${name}: greedy continuations equal transformers'`, async () => {
    const engine = await open(name);
    for (const { prompt, ids, logprobs } of continuations) {
      const [span] = await engine.sample(request(prompt, { maxTokens: ids.length, temperature: 0 }));
      expect(span!.ids).toEqual(ids);
      expect(difference(span!.logprobs, logprobs).max).toBeLessThan(1e-4);
      expect(span!.finish).toEqual({ type: "length" });
      expect(span!.temperature).toBe(0);
    }
  });
}

for (const [name, train] of [
  ["gpt2", "none"],
  ["llama", "stored-lora"],
  ["llama3", "none"],
  ["qwen2", "none"],
  ["qwen3", "none"],
] as const) {
  test(`${name} ${train}: the sampler's log-probs are the trainer's`, async () => {
    const engine = await open(name, { train });
    for (const temperature of [1, 0.5]) {
      const requests = mixed(8, { temperature, count: 2, keys: keysOf(2, 4), maxTokens: 20 });
      const spans = await all(engine, requests);
      const rows = spans.map(({ ids }, i) => {
        const { prompt } = requests[i >> 1]!;
        return trainRow(
          [...prompt, ...ids],
          ids.map((_, t) => prompt.length + t),
          { temperature },
        );
      });
      const scores = await engine.logprobs(rows);
      expect(spans.every(({ ids }) => ids.length === 20)).toBe(true);
      for (const [i, { logprobs }] of spans.entries()) expect(difference(scores[i]!, logprobs).max).toBeLessThan(1e-4);
    }
  });
}

test("neighbours in the batch change nothing: 1, 5 and 16 prompts of unequal length", async () => {
  const engine = await open("llama", { retainBudget: 0 });
  const alone = await oneByOne(engine, mixed(16));
  for (const count of [5, 16]) same(await all(engine, mixed(count)), alone.slice(0, count));
  const backwards = await all(engine, mixed(16).reverse());
  same(backwards.reverse(), alone);
});

test("temperatures may differ inside a batch, greedy among them", async () => {
  const engine = await open("qwen3", { retainBudget: 0 });
  const requests = mixed(6).map((one, i) => ({ ...one, temperature: [0, 0.5, 1][i % 3]! }));
  same(await all(engine, requests), await oneByOne(engine, requests));
});

test("eight samples of one prompt equal eight requests with the same keys", async () => {
  const engine = await open("llama", { retainBudget: 0 });
  const keys = keysOf(8);
  const group = await engine.sample(request(prompts[5]!, { count: 8, keys }));
  const before = engine.sampler.stats.prefilled;
  same(
    await oneByOne(
      engine,
      keys.map((key) => request(prompts[5]!, { keys: [key] })),
    ),
    group,
  );
  expect(new Set(group.map(({ ids }) => ids.join())).size).toBeGreaterThan(6);
  expect(before).toBe(prompts[5]!.length - 1);
});

test("a place freed is filled: two rows, seven requests", async () => {
  const wide = await open("llama", { retainBudget: 0 });
  const narrow = await open("llama", { maxRows: 2, retainBudget: 0 });
  const requests = mixed(7).map((one, i) => ({ ...one, maxTokens: 3 + ((i * 5) % 11) }));
  same(await all(narrow, requests), await all(wide, requests));
  const group = request(prompts[5]!, { count: 5, keys: keysOf(5) });
  same(await narrow.sample(group), await wide.sample(group));
});

test("a small cache budget bounds the rows, not the results", async () => {
  const small = await open("llama", { cacheBudget: 1, retainBudget: 0 });
  same(await all(small, mixed(4)), await all(await open("llama", { retainBudget: 0 }), mixed(4)));
});

test("a prompt filled in pieces gives the same", async () => {
  const pieces = await open("qwen2", { prefillTokens: 5, retainBudget: 0 });
  same(await all(pieces, mixed(9)), await all(await open("qwen2", { retainBudget: 0 }), mixed(9)));
});

/** Four steps of a float32 between 8 and 16, where the log-probs of unlikely tokens are. */
const lastDigits = 4e-6;

test("prompts that begin alike: the common beginning is computed once, the rest and the results stay the same", async () => {
  for (const name of ["llama", "gpt2"]) {
    const start = Array.from({ length: 40 }, (_, t) => (t * 13 + 5) % 96);
    const endings = [[1], [2, 3, 4], [2, 3, 9, 9, 9], [7, 8, 9, 10, 11, 12, 13]];
    const requests = endings.map((ending, i) => request([...start, ...ending], { keys: keysOf(2, i), count: 2, maxTokens: 6 }));
    const engine = await open(name, { retainBudget: 0 });
    const alone = await oneByOne(engine, requests);
    // Alone, all but the last token of each: 40 + 42 + 44 + 46.
    expect(engine.sampler.stats.prefilled).toBe(172);
    const spans = await all(engine, requests);
    same(spans, alone, lastDigits);
    // Together, 40 once and the rests 0 + 2 + 4 + 6.
    expect(engine.sampler.stats).toMatchObject({ prefilled: 172 + 52, reused: 120 });
    // Two that begin otherwise, and one that shares too little, are no part of it.
    const unlike = [[4, ...start], [5, ...start], [...start.slice(0, 31), 1, 2]];
    const others = unlike.map((prompt, i) => request(prompt, { keys: keysOf(1, 9 + i) }));
    same(await all(engine, [...others, ...requests]), [...(await oneByOne(engine, others)), ...alone], lastDigits);
    expect(engine.sampler.stats.prefilled).toBe(224 + 2 * (40 + 40 + 32) + 52);
  }
});

test("a prompt that begins like one that is running goes on from its row", async () => {
  const start = Array.from({ length: 36 }, (_, t) => (t * 29) % 96);
  const first = request([...start, 1, 2], { maxTokens: 20 });
  const second = request([...start, 3, 4, 5], { maxTokens: 6, keys: keysOf(1, 8) });
  const engine = await open("llama", { retainBudget: 0, decode: () => ((late ??= engine.sample(second)), "") });
  let late: Promise<readonly SampledSpan[]> | undefined;
  const spans = await engine.sample({ ...first, stopStrings: ["x"] });
  expect(engine.sampler.stats).toMatchObject({ prefilled: 37 + 2, reused: 36 });
  same([...spans, ...(await late!)], await oneByOne(await open("llama", { retainBudget: 0 }), [first, second]), lastDigits);
});

test("requests of two adapters that wait together both progress", async () => {
  const engine = await open("llama", { train: "stored-lora", maxRows: 2 });
  const ended: string[] = [];
  const ask = async (name: string, adapter: string, i: number): Promise<readonly SampledSpan[]> => {
    const spans = await engine.sample(request(prompts[i]!, { adapter, maxTokens: 4, keys: keysOf(1, i) }));
    ended.push(name);
    return spans;
  };
  const early = [0, 1, 2].map((i) => ask("policy", "policy", i));
  const between = [ask("base", "base", 3), ask("base", "base", 4)];
  const late = [5, 6, 7, 8].map((i) => ask("policy", "policy", i));
  await Promise.all([...early, ...between, ...late]);
  // Two by two; the third early one takes the first late one along, and then the other adapter is next.
  expect(ended).toEqual(["policy", "policy", "policy", "policy", "base", "base", "policy", "policy", "policy"]);
  const [alone] = await (await open("llama")).sample(request(prompts[3]!, { maxTokens: 4, keys: keysOf(1, 3) }));
  same(await between[0]!, [alone!]);
});

test("turns that go on from kept keys and values equal those that do not", async () => {
  for (const name of ["llama", "gpt2"]) {
    const [kept, fresh] = [await open(name), await open(name, { retainBudget: 0 })];
    let conversation = [...prompts[3]!];
    for (let turn = 0; turn < 3; turn++) {
      const one = request(conversation, { count: 2, keys: keysOf(2, turn), maxTokens: 6 });
      const [found, wanted] = [await kept.sample(one), await fresh.sample(one)];
      same(found, wanted);
      conversation = [...conversation, ...found[turn % 2]!.ids, 7, 8, 9 + turn];
    }
    expect(kept.sampler.stats.reused).toBeGreaterThan(30);
    expect(fresh.sampler.stats.reused).toBe(0);
  }
});

test("kept caches that do not all fit: results are the same", async () => {
  const bytes = 2 * 2 * 2 * 8 * 4 * 40; // keys and values, layers, heads, head size, float32, 40 tokens
  const engine = await open("llama", { retainBudget: bytes });
  const fresh = await open("llama", { retainBudget: 0 });
  for (let round = 0; round < 3; round++) same(await all(engine, mixed(9)), await all(fresh, mixed(9)));
});

test("a stop id ends a turn and is part of it", async () => {
  const engine = await open("llama");
  const [free] = await engine.sample(request(prompts[5]!, { maxTokens: 20 }));
  const stop = free!.ids[7]!;
  const at = free!.ids.indexOf(stop);
  const [span] = await engine.sample(request(prompts[5]!, { maxTokens: 20, stopIds: [stop] }));
  expect(span!.ids).toEqual(free!.ids.slice(0, at + 1));
  expect(span!.finish).toEqual({ type: "eos", id: stop });
  expect(span!.logprobs.length).toBe(at + 1);
});

test("a stop string may span tokens; the first that the text has wins over the length", async () => {
  const decode = (ids: readonly number[]): string => ids.map((id) => `${id},`).join("");
  const engine = await open("llama", { decode });
  const [free] = await engine.sample(request(prompts[5]!, { maxTokens: 20 }));
  const stopString = decode(free!.ids.slice(4, 6)).slice(1);
  const [span] = await engine.sample(request(prompts[5]!, { maxTokens: 20, stopStrings: ["never", stopString] }));
  const end = free!.ids.findIndex((_, i) => decode(free!.ids.slice(0, i + 1)).includes(stopString));
  expect(span!.ids).toEqual(free!.ids.slice(0, end + 1));
  expect(span!.finish).toEqual({ type: "stopString", value: stopString });
});

test("a turn ends at maxTokens and at the model's context", async () => {
  const engine = await open("gpt2");
  const [short] = await engine.sample(request([1, 2, 3], { maxTokens: 1 }));
  expect(short!.ids.length).toBe(1);
  const long = Array.from({ length: 60 }, (_, i) => i);
  const spans = await engine.sample(request(long, { maxTokens: 50, count: 2, keys: keysOf(2) }));
  expect(spans.map(({ ids }) => ids.length)).toEqual([4, 4]);
  expect(spans.map(({ finish }) => finish)).toEqual([{ type: "length" }, { type: "length" }]);
});

test("a deadline ends a turn with what there is, and a waiting one with nothing; others go on", async () => {
  const engine = await open("llama", { maxRows: 2 });
  const first = engine.sample(request(prompts[3]!, { maxTokens: 40, deadline: Date.now() + 1e6 }));
  const late = engine.sample(request(prompts[4]!, { deadline: Date.now() - 1 }));
  const [span] = await late;
  expect(span).toMatchObject({ ids: [], logprobs: [], finish: { type: "timeout" } });
  expect((await first)[0]!.ids.length).toBe(40);
  const long = await open("llama", { maxRows: 1 });
  let calls = 0;
  // The clock of a stop-string check is the only hook inside a step: it lets the deadline pass after three tokens.
  const deadline = Date.now() + 200;
  const slow = await open("llama", { decode: () => ((calls += 1) >= 3 ? (waitUntil(deadline), "") : "") });
  const [cut] = await slow.sample(request(prompts[3]!, { maxTokens: 40, deadline, stopStrings: ["x"] }));
  expect(cut!.finish).toEqual({ type: "timeout" });
  expect(cut!.ids.length).toBeGreaterThan(0);
  expect(cut!.ids.length).toBeLessThanOrEqual(4);
  same([cut!], [{ ...(await long.sample(request(prompts[3]!, { maxTokens: cut!.ids.length })))[0]!, finish: { type: "timeout" } }]);
});

function waitUntil(time: number): void {
  while (Date.now() < time) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
}

test("an abort rejects its own request, running or waiting; the others' results are as without it", async () => {
  const engine = await open("llama", { maxRows: 3, retainBudget: 0, decode: () => (stop.abort(new Error("enough")), "") });
  const stop = new AbortController();
  const wanted = await all(await open("llama", { retainBudget: 0 }), mixed(3));
  const others = all(engine, mixed(3));
  const aborted = engine.sample(
    request(prompts[6]!, { count: 2, keys: keysOf(2), signal: stop.signal, stopStrings: ["x"], maxTokens: 30 }),
  );
  const before = engine.sample(request(prompts[6]!, { signal: AbortSignal.abort(new Error("not wanted")) }));
  await expect(before).rejects.toThrow("not wanted");
  await expect(aborted).rejects.toThrow("enough");
  same(await others, wanted);
  expect(engine.sampler.busy).toBe(false);
  same(await all(engine, mixed(3)), wanted);
});

test("a failure inside a step rejects all that run, and the next request works", async () => {
  let fail = true;
  const decode = (): string => {
    if (fail) throw new Error("decoder broke");
    return "";
  };
  const engine = await open("llama", { decode, retainBudget: 0 });
  const results = await Promise.allSettled([
    engine.sample(request(prompts[3]!, { stopStrings: ["x"] })),
    engine.sample(request(prompts[4]!)),
  ]);
  expect(results.map((result) => (result.status === "rejected" ? String(result.reason) : "fulfilled"))).toEqual([
    "Error: decoder broke",
    "Error: decoder broke",
  ]);
  fail = false;
  same(await all(engine, mixed(2)), await all(await open("llama", { retainBudget: 0 }), mixed(2)));
});

test("requests that cannot be met are refused", async () => {
  const engine = await open("llama");
  const refused = (one: Partial<SampleRequest>, message: string): Promise<void> =>
    expect(engine.sample(request([1, 2], one))).rejects.toThrow(message);
  await refused({ prompt: [] }, "sample prompt: expected at least one token, got 0");
  await refused({ prompt: [1, 96] }, "sample prompt position 1: expected a token id below 96, got 96");
  await refused({ prompt: [1.5] }, "sample prompt position 0: expected a token id below 96, got 1.5");
  await refused(
    { prompt: new Array<number>(64).fill(1) },
    "sample prompt: expected fewer than 64 tokens (the model's context), got 64; shorten the prompt",
  );
  await refused({ count: 0, keys: [] }, "sample count: expected a positive integer, got 0");
  await refused({ count: 2, keys: keysOf(1) }, "sample keys: expected 2 keys, one for each sample, got 1");
  await refused({ maxTokens: 0 }, "sample maxTokens: expected at least 1, got 0");
  await refused({ temperature: -1 }, "sample temperature: expected 0 (greedy) or more, got -1");
  await refused({ temperature: Infinity }, "sample temperature: expected 0 (greedy) or more, got Infinity");
  await refused({ stopStrings: ["\n"] }, 'sample stopStrings: expected none, got ["\\n"]; the engine was opened without a tokenizer');
  await refused({ adapter: "critic" }, "adapter: expected one of base, policy, got critic");
});

test("padding may reach beyond the context: a long prefix with a short rest beside a short prefix with a long rest", async () => {
  const ids = (seed: number, length: number): number[] => Array.from({ length }, (_, t) => (seed * 31 + t * 17) % 96);
  for (const name of ["gpt2", "llama"]) {
    const engine = await open(name, { retainBudget: 0, train: "full" });
    const unit = (seed: number, prefix: number, rest: number) => ({
      rows: [0, 1].map((i) => trainRow([...ids(seed, prefix), ...ids(seed + 7 + i, rest)], [prefix + 1, prefix + rest - 1])),
    });
    // Context 64: 50 + 5 and 10 + 50 tokens; padded, the first would end at 100.
    const units = [unit(1, 50, 5), unit(2, 10, 50)];
    const logprobs = async (some: typeof units): Promise<number[]> => {
      const loss: Loss = { key: "test/sum", build: (x) => ({ loss: o.sum(x.logprobs), metrics: {} }) };
      const result = await engine.forwardBackward({ units: some, scalars: {} }, loss);
      return result.logprobs.flat().flatMap((row) => [...row]);
    };
    const alone = [...(await logprobs([units[0]!])), ...(await logprobs([units[1]!]))];
    expect(difference(await logprobs(units), alone).max).toBeLessThan(1e-5);
    // The same in sampling: a row that goes on from 41 tokens beside one that has them all to do.
    const requests = [request(ids(1, 44), { maxTokens: 4 }), request(ids(3, 60), { maxTokens: 4 })];
    const keeping = await open(name);
    await keeping.sample(request(ids(1, 41), { maxTokens: 1 }));
    same(await all(keeping, requests), await oneByOne(engine, requests));
    expect(keeping.sampler.stats.reused).toBe(41);
  }
});

test("log-probs do not depend on padding, on packing or on what was computed before", async () => {
  for (const name of ["gpt2", "llama"]) {
    const engine = await open(name, { microBatchTokens: 200 });
    const row = trainRow([5, 6, 7], [1, 2]);
    const long = (length: number): ReturnType<typeof trainRow> =>
      trainRow(
        Array.from({ length }, (_, t) => (t * 29) % 96),
        [1, length - 1],
      );
    const [alone] = await engine.logprobs([row]);
    const [, beside] = await engine.logprobs([long(40), row, long(25)]);
    const [again] = await engine.logprobs([row]);
    const [shared] = await engine.logprobs([trainRow([5, 6, 7], [1, 2]), trainRow([5, 9, 1, 3], [1, 2])]);
    expect(difference(beside!, alone!).max).toBeLessThan(1e-5);
    expect(difference(shared!, alone!).max).toBeLessThan(1e-5);
    expect([...again!]).toEqual([...alone!]);
    const [span] = await engine.sample(request([5], { maxTokens: 2, temperature: 0 }));
    const [score] = await engine.logprobs([trainRow([5, ...span!.ids], [1, 2])]);
    expect(difference(score!, span!.logprobs).max).toBeLessThan(1e-4);
  }
});
