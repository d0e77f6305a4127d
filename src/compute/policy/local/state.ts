/** A training state on disk: trained weights, both moments and the counters, as safetensors, bitwise. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { RunError, expected } from "../../../errors.ts";
import type { PolicyVersion } from "../../../types.ts";
import { HostTensor } from "../../tensor/host.ts";
import { openSafetensors, writeSafetensors } from "../../models/files/safetensors.ts";
import type { Trainer } from "./trainer.ts";

export async function saveState(folder: string, { trainer, version }: { trainer: Trainer; version: PolicyVersion }): Promise<void> {
  const list = (tensors: Iterable<[string, HostTensor]>): { name: string; shape: readonly number[]; data: Float32Array }[] =>
    [...tensors].map(([name, { shape, floats }]) => ({ name, shape, data: floats }));
  await writeSafetensors(join(folder, "weights.safetensors"), list(trainer.trainable));
  const moments = [...trainer.moments].flatMap(([name, { first, second }]): [string, HostTensor][] => [[`first.${name}`, first], [`second.${name}`, second]]);
  await writeSafetensors(join(folder, "moments.safetensors"), list(moments));
  await writeFile(join(folder, "state.json"), `${JSON.stringify({ updates: trainer.updates, version })}\n`);
}

/** Reads a state back into the trainer's own arrays; returns the policy version. */
export async function loadState(folder: string, trainer: Trainer): Promise<PolicyVersion> {
  const { updates, version } = JSON.parse(await readFile(join(folder, "state.json"), "utf8")) as { updates: number; version: number };
  const weights = await openSafetensors(join(folder, "weights.safetensors"));
  const moments = await openSafetensors(join(folder, "moments.safetensors"));
  try {
    for (const [name, target] of trainer.trainable) {
      const stored = weights.tensors.get(name);
      if (stored === undefined || stored.shape.join() !== target.shape.join()) {
        throw new RunError(expected(`${folder} ${name}`, `shape [${target.shape.join(", ")}]`, stored === undefined ? "nothing" : `[${stored.shape.join(", ")}]`));
      }
      target.floats.set(await weights.read(name));
    }
    trainer.moments.clear();
    for (const [name, { shape }] of trainer.trainable) {
      if (!moments.tensors.has(`first.${name}`)) continue;
      const [first, second] = [await moments.read(`first.${name}`), await moments.read(`second.${name}`)];
      trainer.moments.set(name, { first: new HostTensor(first, shape), second: new HostTensor(second, shape) });
    }
  } finally {
    await weights.close();
    await moments.close();
  }
  trainer.updates = updates;
  trainer.clearGradients();
  return version as PolicyVersion;
}
