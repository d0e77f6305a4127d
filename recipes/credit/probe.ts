import { processRewardModel } from "../../src/algo/process-reward-model.ts";
import { openPolicy } from "../../src/compute/policy/open.ts";
import { lock, lockOf } from "../../src/env/lock.ts";
import { tasksOfStep } from "../../src/loop/prompt/order.ts";
import { permutation, rng } from "../../src/random.ts";
import { collectGroups } from "../../src/train/collect.ts";
import { labelSteps } from "../../src/train/process/label-steps.ts";
import { labelledBatch, turnScorer } from "../../src/train/process/turn-scorer.ts";
const o = JSON.parse(process.argv[2] ?? "{}");
const env = lock({ tries: o.tries ?? 6 });
const limits = { maxTokens: 4, maxTurns: 25, concurrency: 128, deadlineSeconds: 600 };
await using policy = await openPolicy(o.model ?? "/tmp/cr2/model", { train: { type: "none" }, seed: 0, maxRows: 128, microBatchTokens: 8192 });
const { engine } = policy;
await engine.publish();
const sampling = { ...limits, policy, seed: 0, temperature: 1 };
const groups = await collectGroups(env, tasksOfStep(env.tasks("train"), { seed: 0, step: 1, count: o.episodes ?? 64 }), { ...sampling, stage: "heldout", step: 0, groupSize: 1 });
const test = await collectGroups(env, tasksOfStep(env.tasks("train"), { seed: 0, step: 7, count: 64 }), { ...sampling, stage: "heldout", step: 1, groupSize: 1 });
const labelled = await labelSteps(env, groups.flatMap((g) => g.members), { ...sampling, completions: o.n ?? 4, kind: o.kind ?? "soft", steps: "turns" });
console.log("tokens", labelled.reduce((s, l) => s + l.sampledTokens, 0), "labels", labelled.flatMap((l) => l.labels).length, "mean", labelled.flatMap((l) => l.labels as number[]).reduce((a, b) => a + b, 0) / labelled.flatMap((l) => l.labels).length);
for (const lr of o.lrs ?? [3e-3, 1e-2]) for (const rank of [8]) {
  const name = `p${String(lr).replace(/\W/g, "")}`;
  engine.addAdapter(name, { from: "base", rank, alpha: 2 * rank, scalarHead: true, trained: true, seed: 0 });
  const t0 = performance.now();
  for (let epoch = 0; epoch < (o.epochs ?? 30); epoch++) {
    const order = permutation(rng(0, "judge", epoch), labelled.length);
    const size = Math.ceil(labelled.length / 4);
    let sum = 0;
    for (let at = 0; at < order.length; at += size) {
      const { loss } = await engine.forwardBackward(labelledBatch(order.slice(at, at + size).map((i) => labelled[i]!), o.at ?? "reply")!, processRewardModel().loss, { adapter: name });
      await engine.optimStep({ learningRate: lr, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0, maxGradNorm: 1, adapter: name });
      sum += loss / 4;
    }
    if (epoch % 10 === 9) {
      const trajectories = test.flatMap((g) => g.members.map((m) => m.trajectory));
      const scores = await turnScorer({ adapter: name, at: o.at ?? "reply" })(trajectories, { policy });
      const diffs: Record<string, number[]> = { right: [], wrong: [], earlyRight: [], earlyWrong: [] };
      trajectories.forEach((t, i) => {
        let set = 0;
        t.turns.forEach((turn, k) => {
          const ok = turn.message.content === lockOf(t.task).right[set];
          if (k > 0) { const d = scores[i]![k]! - scores[i]![k - 1]!; diffs[ok ? "right" : "wrong"]!.push(d); if (set < 5) diffs[ok ? "earlyRight" : "earlyWrong"]!.push(d); }
          if (ok) set++;
        });
      });
      const mean = (x: number[]) => (x.reduce((a, b) => a + b, 0) / x.length).toFixed(3);
      const pos = (x: number[]) => (x.filter((d) => d > 0).length / x.length).toFixed(2);
      console.log("lr", lr, "epoch", epoch + 1, "loss", sum.toFixed(4), Object.entries(diffs).map(([k, x]) => `${k} ${mean(x)} >0 ${pos(x)}`).join("  "), ((performance.now() - t0) / 1000).toFixed(0), "s");
    }
  }
}
