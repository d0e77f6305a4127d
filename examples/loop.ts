/** Policy gradients by hand: sample, score, advantage, loss, step, publish. The reward is short answers. */
import { grpo, openPolicy, rng, type Batch, type TrainRow } from "../src/index.ts";

const adamw = { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0, maxGradNorm: 1 };

/** Returns the mean reward of each step. */
export async function shorten(model: string, { steps, learningRate }: { steps: number; learningRate: number }): Promise<number[]> {
  await using policy = await openPolicy(model, { train: { type: "full" } });
  const { engine, renderer } = policy;
  const { ids: prompt } = renderer.start([{ role: "user", content: "Say hello." }]);
  const means: number[] = [];
  for (let step = 1; step <= steps; step++) {
    const keys = Array.from({ length: 8 }, (_, sample) => rng(0, step, sample));
    const spans = await engine.sample({ prompt, count: 8, maxTokens: 16, temperature: 1, stopIds: renderer.stopIds, keys });
    const rewards = spans.map(({ ids }) => 1 - ids.length / 16);
    const mean = rewards.reduce((a, b) => a + b, 0) / rewards.length;
    const tokens = spans.reduce((sum, { ids }) => sum + ids.length, 0);
    const rows = spans.map(({ ids, logprobs, temperature }, i): TrainRow => {
      const each = (value: number): Float32Array => new Float32Array(ids.length).fill(value);
      return {
        ids: Int32Array.from([...prompt, ...ids]),
        trained: Int32Array.from(ids, (_, t) => prompt.length + t),
        fields: { old: Float32Array.from(logprobs), advantage: each(rewards[i]! - mean), weight: each(1 / tokens) },
        temperature,
      };
    });
    const batch: Batch = { units: [{ rows }], scalars: { tokens } };
    await engine.forwardBackward(batch, grpo().loss);
    await engine.optimStep({ ...adamw, learningRate });
    await engine.publish();
    means.push(mean);
  }
  return means;
}
