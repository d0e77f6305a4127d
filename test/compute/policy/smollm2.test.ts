/** A real checkpoint against transformers: needs the file that scripts/fetch-smollm2.sh puts into the model cache. */
import { afterAll, describe, expect, test } from "vitest";
import { openPolicy, type OpenedPolicy } from "../../../src/compute/policy/open.ts";
import { rng } from "../../../src/random.ts";
import type { Message } from "../../../src/types.ts";
import { trainRow } from "../../fakes/engines.ts";
import { difference, goldenJson } from "../../fakes/golden.ts";
import { smolLM2, hasSmolLM2 } from "../../fakes/smollm2.ts";

interface Described {
  readonly text: string;
  readonly ids: readonly number[];
  readonly logprobs: readonly number[];
  readonly topIds: readonly number[];
  readonly topLogits: readonly number[];
  readonly probeIds: readonly number[];
  readonly probeLogits: readonly number[];
  readonly logSumExp: number;
  readonly greedyIds: readonly number[];
  readonly greedyLogprobs: readonly number[];
  readonly greedyMargins: readonly number[];
  readonly greedyText: string;
}
const golden = goldenJson<{ plain: Described; chat: Described; chatMessages: readonly Message[] }>("smollm2.json");

describe.skipIf(!hasSmolLM2)("SmolLM2-135M-Instruct (scripts/fetch-smollm2.sh)", { timeout: 300_000 }, () => {
  let opened: OpenedPolicy | undefined;
  const policy = async (): Promise<OpenedPolicy> => (opened ??= await openPolicy(smolLM2));
  afterAll(() => opened?.[Symbol.asyncDispose](), 60_000);

  test("the tokenizer gives transformers' ids, and the chat template its text", async () => {
    const { renderer } = await policy();
    for (const { text, ids } of [golden.plain, golden.chat]) {
      expect(renderer.tokenizer.encode(text)).toEqual(ids);
      expect(renderer.tokenizer.decode([...ids])).toBe(text);
    }
    expect(renderer.start(golden.chatMessages).ids).toEqual(golden.chat.ids);
  });

  for (const name of ["plain", "chat"] as const) {
    test(`${name}: log-probs of every token, and of 84 continuations`, async () => {
      const { engine } = await policy();
      const { ids, logprobs, topIds, topLogits, probeIds, probeLogits, logSumExp } = golden[name];
      const [own] = await engine.logprobs([trainRow(ids, ids.slice(1).map((_, t) => t + 1))]);
      expect(difference(own!, logprobs).max).toBeLessThan(5e-4);
      const rows = [...topIds, ...probeIds].map((id) => trainRow([...ids, id], [ids.length]));
      const found = (await engine.logprobs(rows)).map((row) => row[0]!);
      expect(difference(found, [...topLogits, ...probeLogits].map((logit) => logit - logSumExp)).max).toBeLessThan(5e-4);
    });

    test(`${name}: a greedy answer, token by token`, async () => {
      const { engine, renderer } = await policy();
      const { ids, greedyIds, greedyLogprobs, greedyMargins, greedyText } = golden[name];
      // No choice of the stored answer is so close that rounding could turn it.
      expect(Math.min(...greedyMargins)).toBeGreaterThan(1e-2);
      const request = { prompt: ids, count: 1, maxTokens: 16, temperature: 0, stopIds: renderer.stopIds, keys: [rng(0)] };
      const [span] = await engine.sample(request);
      expect(span!.ids).toEqual(greedyIds);
      expect(difference(span!.logprobs, greedyLogprobs).max).toBeLessThan(5e-4);
      expect(renderer.tokenizer.decode([...span!.ids])).toBe(greedyText);
    });
  }
});
