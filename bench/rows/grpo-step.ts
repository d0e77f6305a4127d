/** One GRPO step end to end: sample groups, reward, advantages, batch, gradients, AdamW, publish. */
import { grpo } from "../../src/algo/grpo.ts";
import { finite } from "../../src/errors.ts";
import { buildBatch } from "../../src/loop/batch/rows.ts";
import { noEvidence } from "../../src/train/evidence.ts";
import { rng, uniform } from "../../src/random.ts";
import type { Group, SampledSpan, Scored, Task } from "../../src/types.ts";
import { decodeCost, forwardCost, plus, trainCost, type Cost } from "../cost.ts";
import { adamw, lora, openEngine, randomIds, sampleAll } from "../engines.ts";
import { time, type FigureGroup } from "../figure.ts";
import { architectureOf } from "../shapes.ts";

function scored(task: Task, span: SampledSpan, { prompt, sample }: { prompt: readonly number[]; sample: number }): Scored {
  const rows = [{ spans: [{ kind: "context" as const, ids: prompt }, span] }];
  const record = { turns: [], messages: [], end: { type: "done" as const }, measures: {}, seconds: 0 };
  const trajectory = { id: `${task.id}/${sample}`, task, sample, rows, ...record };
  const score = finite(uniform(rng(0, "reward", task.id), sample), "reward");
  return { trajectory, verdict: { type: "scored", score, components: {}, explanation: "random" } };
}

export const grpoStep: FigureGroup = async ({ shape, quick, repeats, say }) => {
  const a = architectureOf(shape);
  const [prompts, groupSize, promptLength, answer] = quick ? [2, 4, 64, 16] : [8, 8, 256, 64];
  await using engine = openEngine(a, "lora");
  const algorithm = grpo({ groupSize });
  let step = 0;
  const run = async (): Promise<void> => {
    step++;
    const groups = await Promise.all(
      Array.from({ length: prompts }, async (_, p): Promise<Group> => {
        const task: Task = { id: `${step}/${p}`, prompt: [], data: {} };
        const prompt = randomIds(a, promptLength, "grpo", step, p);
        const spans = await sampleAll(engine, prompt, { count: groupSize, tokens: answer, from: task.id });
        return { task, members: spans.map((span, sample) => scored(task, span, { prompt, sample })) };
      }),
    );
    const options = { reduction: algorithm.reduction, maskTruncated: false, maxLength: answer, skipZero: true };
    const { batch } = buildBatch(algorithm.credit(groups, noEvidence({ maxTokens: answer, maxTurns: 1 })), options);
    await engine.forwardBackward(batch!, algorithm.loss);
    await engine.optimStep(adamw);
    await engine.publish();
  };
  const completions = prompts * groupSize;
  const times = (n: number, { flops, bytes }: Cost): Cost => ({ flops: n * flops, bytes: n * bytes });
  const cost = plus(
    forwardCost(a, { tokens: prompts * promptLength, heads: 0, lora }),
    times(answer, decodeCost(a, { rows: completions, slots: promptLength + answer, lora })),
    trainCost(a, { tokens: prompts * promptLength + completions * answer, heads: completions * answer, lora }),
  );
  const { seconds, rest } = await time({ run, cost }, { repeats: quick ? repeats : Math.min(repeats, 3), say });
  const name = `GRPO step, LoRA, ${prompts} x ${groupSize}, prompt ${promptLength}, answer ${answer}`;
  return [{ name, value: seconds, unit: "s", ...rest, note: `${((completions * answer) / seconds).toFixed(0)} sampled tokens/s` }];
};
