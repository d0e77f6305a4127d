/** A training state on disk: trained weights, both moments and the counters, as safetensors, bitwise. */
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { RunError, boundary, expected } from "../../../errors.ts";
import type { PolicyVersion } from "../../../types.ts";
import { HostTensor } from "../../tensor/host.ts";
import { openSafetensors, writeSafetensors } from "../../models/files/safetensors.ts";
import type { Trainer } from "./trainer.ts";

/** Hash of named tensors; equal hashes mean equal bits. */
export function hashOf(tensors: ReadonlyMap<string, HostTensor>): string {
  const hash = createHash("sha256");
  for (const [name, { data }] of tensors) hash.update(name).update(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  return hash.digest("hex");
}

export async function saveState(folder: string, { trainer, version }: { trainer: Trainer; version: PolicyVersion }): Promise<void> {
  const list = (tensors: Iterable<[string, HostTensor]>): { name: string; shape: readonly number[]; data: Float32Array }[] =>
    [...tensors].map(([name, { shape, floats }]) => ({ name, shape, data: floats }));
  await writeSafetensors(join(folder, "weights.safetensors"), list(trainer.trainable));
  const moments = [...trainer.moments].flatMap(([name, { first, second }]): [string, HostTensor][] => [
    [`first.${name}`, first],
    [`second.${name}`, second],
  ]);
  await writeSafetensors(join(folder, "moments.safetensors"), list(moments));
  await writeFile(join(folder, "state.json"), `${JSON.stringify({ updates: trainer.updates, version })}\n`);
}

interface LoadOptions {
  readonly trainer: Trainer;
  /** Called when all is checked, before the first array is written. */
  readonly beforeWrite: () => void;
}

/** Reads a state back into the trainer's own arrays; returns the policy version. A state that does not fit changes nothing. */
export async function loadState(folder: string, options: LoadOptions): Promise<PolicyVersion> {
  return boundary(RunError, `state ${folder}`, async () => {
    const { updates, version } = JSON.parse(await readFile(join(folder, "state.json"), "utf8")) as { updates: number; version: number };
    const weights = await openSafetensors(join(folder, "weights.safetensors"));
    try {
      const moments = await openSafetensors(join(folder, "moments.safetensors"));
      try {
        await restore(folder, { ...options, weights, moments });
      } finally {
        await moments.close();
      }
    } finally {
      await weights.close();
    }
    options.trainer.updates = updates;
    return version as PolicyVersion;
  });
}

type Source = Awaited<ReturnType<typeof openSafetensors>>;

async function restore(
  folder: string,
  { trainer, beforeWrite, weights, moments }: LoadOptions & { weights: Source; moments: Source },
): Promise<void> {
  const check = (source: Source, name: string, shape: readonly number[]): void => {
    const stored = source.tensors.get(name)?.shape;
    if (stored?.join() === shape.join()) return;
    throw new RunError(
      expected(`${folder} ${name}`, `shape [${shape.join(", ")}]`, stored === undefined ? "nothing" : `[${stored.join(", ")}]`),
    );
  };
  const hasMoments = (name: string): boolean => moments.tensors.has(`first.${name}`);
  for (const [name, { shape }] of trainer.trainable) {
    check(weights, name, shape);
    if (hasMoments(name)) for (const kind of ["first", "second"]) check(moments, `${kind}.${name}`, shape);
  }
  beforeWrite();
  trainer.clearGradients();
  trainer.moments.clear();
  for (const [name, { shape, floats }] of trainer.trainable) {
    floats.set(await weights.read(name));
    if (!hasMoments(name)) continue;
    const [first, second] = [await moments.read(`first.${name}`), await moments.read(`second.${name}`)];
    trainer.moments.set(name, { first: new HostTensor(first, shape), second: new HostTensor(second, shape) });
  }
}
