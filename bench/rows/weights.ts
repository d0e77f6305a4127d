/** Weights on the move: publishing them to the sampler, and loading them from a file. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openSafetensors, writeSafetensors } from "../../src/compute/models/files/safetensors.ts";
import { initialParameters, loadParameters, storedTensors } from "../../src/compute/models/parameters.ts";
import { llama } from "../../src/compute/models/families/llama.ts";
import { supervisedBatch } from "../../src/loop/batch/dialogue.ts";
import { crossEntropy } from "../../src/loop/loss/cross-entropy.ts";
import { adamw, openEngine, randomIds, sampleAll } from "../engines.ts";
import { time, type FigureGroup } from "../figure.ts";
import { architectureOf, configs } from "../shapes.ts";

/** Bytes of trained weights that the sampler reads from memory other than the trainer's, and the time of publish with its probe. */
export const publish: FigureGroup = async ({ shape }) => {
  const a = architectureOf(shape);
  await using engine = openEngine(a, "full");
  await sampleAll(engine, randomIds(a, 16, "publish"), { count: 1, tokens: 2, from: "publish" });
  await engine.publish();
  const row = { ids: Int32Array.from(randomIds(a, 16, "publish")), trained: Int32Array.of(1, 2, 3) };
  await engine.forwardBackward(supervisedBatch([row], "token-mean"), crossEntropy);
  await engine.optimStep(adamw);
  const started = performance.now();
  await engine.publish();
  const milliseconds = performance.now() - started;
  const read = engine.model.feeds("policy", "all");
  const copied = [...engine.trainer.trainable].filter(([name, { data }]) => read[name]!.data !== data);
  const bytes = copied.reduce((sum, [, { data }]) => sum + data.byteLength, 0);
  return [
    { name: "publish, bytes copied", value: bytes, unit: "bytes", note: `of ${4 * engine.info.trainable}` },
    { name: "publish, with its probe", value: milliseconds, unit: "ms" },
  ];
};

export const load: FigureGroup = async ({ shape, ...options }) => {
  const a = architectureOf(shape);
  const folder = await mkdtemp(join(tmpdir(), "flywheel-bench-"));
  try {
    const path = join(folder, "model.safetensors");
    await writeFile(join(folder, "config.json"), JSON.stringify(configs[shape]));
    await writeSafetensors(path, [...storedTensors(llama, initialParameters(a, 0))]);
    let bytes = 0;
    const run = async (): Promise<void> => {
      const source = await openSafetensors(path);
      const parameters = await loadParameters(llama, a, source);
      await source.close();
      bytes = [...parameters.values()].reduce((sum, { data }) => sum + data.byteLength, 0);
    };
    await run();
    const { seconds, rest } = await time({ run, cost: { flops: 0, bytes } }, options);
    return [{ name: "load, safetensors float32", value: seconds, unit: "s", ...rest, note: `${(bytes / 1e6).toFixed(0)} MB, file cached` }];
  } finally {
    await rm(folder, { recursive: true });
  }
};
