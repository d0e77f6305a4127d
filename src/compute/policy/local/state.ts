/**
 * A training state on disk, bitwise. The policy: `weights.safetensors` (what is trained), `moments.safetensors` and counters in
 * `state.json`. Each further adapter: `adapter-<name>.safetensors` and, if it is trained, `adapter-<name>.moments.safetensors`.
 * Format 1 (no `format` in state.json) has the policy alone. The state of a single adapter has a folder of its own, in format "adapter".
 */
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { RunError, boundary, expected } from "../../../errors.ts";
import type { PolicyVersion } from "../../../types.ts";
import { openSafetensors, writeSafetensors } from "../../models/files/safetensors.ts";
import { loraTargets } from "../../models/lora.ts";
import { scalarHeadName } from "../../models/scalar-head.ts";
import { HostTensor } from "../../tensor/host.ts";
import type { Adapters, Kept } from "./adapters.ts";
import type { Trainer } from "./trainer.ts";

type WeightSource = Awaited<ReturnType<typeof openSafetensors>>;
type Tensors = ReadonlyMap<string, HostTensor>;

const keptSchema = z.strictObject({
  trained: z.boolean(),
  updates: z.int().nonnegative(),
  /** Null for a copy of all weights. */
  lora: z.strictObject({ rank: z.int(), alpha: z.number(), targets: z.array(z.enum(loraTargets)) }).nullable(),
  scalarHead: z.boolean(),
});
const stateSchema = z.strictObject({
  format: z.literal(2).optional(),
  updates: z.int().nonnegative(),
  version: z.int().nonnegative(),
  adapters: z.record(z.string(), keptSchema).default({}),
});
type Stored = z.infer<typeof keptSchema>;
const oneSchema = z.strictObject({ format: z.literal("adapter"), adapter: keptSchema });

/** Hash of named tensors; equal hashes mean equal bits. */
export function hashOf(tensors: Tensors): string {
  const hash = createHash("sha256");
  for (const [name, { data }] of tensors) hash.update(name).update(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  return hash.digest("hex");
}

interface SaveOptions {
  readonly adapters: Adapters;
  readonly version: PolicyVersion;
}

export async function saveState(folder: string, { adapters, version }: SaveOptions): Promise<void> {
  const { policy } = adapters;
  await writeTensors(join(folder, "weights.safetensors"), policy.trainable);
  await writeTensors(join(folder, "moments.safetensors"), momentsOf(policy));
  const kept: Record<string, Stored> = {};
  for (const adapter of adapters.kept()) {
    const { name, stored } = described(adapter);
    kept[name] = stored;
    await writeTensors(join(folder, `adapter-${name}.safetensors`), adapter.parameters);
    if (adapter.trainer !== undefined)
      await writeTensors(join(folder, `adapter-${name}.moments.safetensors`), momentsOf(adapter.trainer));
  }
  await writeFile(join(folder, "state.json"), `${JSON.stringify({ format: 2, updates: policy.updates, version, adapters: kept })}\n`);
}

/** One LoRA adapter and, if it is trained, its moments and update count, bitwise. */
export async function saveAdapterState(folder: string, kept: Kept): Promise<void> {
  const { stored } = described(kept);
  await writeTensors(join(folder, "weights.safetensors"), kept.parameters);
  if (kept.trainer !== undefined) await writeTensors(join(folder, "moments.safetensors"), momentsOf(kept.trainer));
  await writeFile(join(folder, "state.json"), `${JSON.stringify({ format: "adapter", adapter: stored })}\n`);
}

/** Reads one adapter's state into the arrays of an adapter of the same kind. A state that does not fit changes nothing. */
export async function loadAdapterState(folder: string, kept: Kept, beforeWrite: () => void): Promise<void> {
  await boundary(RunError, `state ${folder}`, async () => {
    const { adapter: stored } = await readJson(join(folder, "state.json"), oneSchema);
    const { name, stored: own } = described(kept);
    if (kindOf(stored) !== kindOf(own)) throw new RunError(expected(`state ${folder} adapter ${name}`, kindOf(own), kindOf(stored)));
    const opened: WeightSource[] = [];
    try {
      const files = { weights: "weights.safetensors", moments: "moments.safetensors" };
      const plan = await planned(name, { folder, files, shapes: shapesOf(kept.parameters), trained: own.trained, opened });
      beforeWrite();
      await readWeights(plan, kept.parameters);
      if (kept.trainer !== undefined) await readMoments(plan, kept.trainer, stored.updates);
    } finally {
      for (const source of opened) await source.close();
    }
  });
}

function described({ name, parameters, lora, trainer }: Kept): { name: string; stored: Stored } {
  const shape = lora === undefined ? null : { ...lora, targets: [...lora.targets] };
  const scalarHead = parameters.has(scalarHeadName);
  return { name, stored: { trained: trainer !== undefined, updates: trainer?.updates ?? 0, lora: shape, scalarHead } };
}

function writeTensors(path: string, tensors: Tensors): Promise<void> {
  return writeSafetensors(path, [...tensors].map(([name, { shape, floats }]) => ({ name, shape, data: floats })));
}

function momentsOf({ moments }: Trainer): Map<string, HostTensor> {
  const both = [...moments].flatMap(([name, { first, second }]): [string, HostTensor][] => [
    [`first.${name}`, first],
    [`second.${name}`, second],
  ]);
  return new Map(both);
}

interface LoadOptions {
  readonly adapters: Adapters;
  /** Called when all is checked, before the first array is written. */
  readonly beforeWrite: () => void;
}

/** Reads a state back into the engine's own arrays; returns the policy version. A state that does not fit changes nothing. */
export async function loadState(folder: string, { adapters, beforeWrite }: LoadOptions): Promise<PolicyVersion> {
  return boundary(RunError, `state ${folder}`, async () => {
    const { updates, version, adapters: stored } = await readJson(join(folder, "state.json"), stateSchema);
    const opened: WeightSource[] = [];
    const plan = (name: string, shapes: Shapes, trained: boolean): Promise<Plan> =>
      planned(name, { folder, files: filesOf(name), shapes, trained, opened });
    try {
      const policy = await plan("policy", shapesOf(adapters.policy.trainable), true);
      checkAgainst(folder, adapters, stored);
      const others: Plan[] = [];
      for (const [name, one] of Object.entries(stored)) others.push(await plan(name, adapters.shapesOf(one), one.trained));
      beforeWrite();
      await readWeights(policy, adapters.policy.trainable);
      await readMoments(policy, adapters.policy, updates);
      for (const other of others) {
        const { lora, trained, updates: made } = stored[other.name]!;
        const { parameters, trainer } = adapters.restored(other.name, { lora, trained, shapes: other.shapes });
        await readWeights(other, parameters);
        if (trainer !== undefined) await readMoments(other, trainer, made);
      }
      if (stored["reference"] === undefined) adapters.unblendReference();
    } finally {
      for (const source of opened) await source.close();
    }
    return version as PolicyVersion;
  });
}

const filesOf = (name: string): StateFiles =>
  name === "policy"
    ? { weights: "weights.safetensors", moments: "moments.safetensors" }
    : { weights: `adapter-${name}.safetensors`, moments: `adapter-${name}.moments.safetensors` };

async function readJson<T>(path: string, schema: z.ZodType<T>): Promise<T> {
  const parsed = schema.safeParse(JSON.parse(await readFile(path, "utf8")));
  if (parsed.success) return parsed.data;
  const remedy = "it was written by another version of this package";
  throw new RunError(expected(path, "the counters of a training state", z.prettifyError(parsed.error).replaceAll("\n", " "), remedy));
}

type Shapes = ReadonlyMap<string, readonly number[]>;

/** What will be read of one adapter; its shapes are checked. */
interface Plan {
  readonly name: string;
  readonly shapes: Shapes;
  readonly weights: WeightSource;
  readonly moments: WeightSource | undefined;
}

const shapesOf = (tensors: Tensors): Shapes => new Map([...tensors].map(([name, { shape }]) => [name, shape]));

interface StateFiles {
  readonly weights: string;
  readonly moments: string;
}

interface PlanOptions {
  readonly folder: string;
  readonly files: StateFiles;
  readonly shapes: Shapes;
  readonly trained: boolean;
  /** To be closed by the caller. */
  readonly opened: WeightSource[];
}

async function planned(name: string, { folder, files, shapes, trained, opened }: PlanOptions): Promise<Plan> {
  const open = async (file: string): Promise<WeightSource> => {
    const source = await openSafetensors(join(folder, file));
    opened.push(source);
    return source;
  };
  const weights = await open(files.weights);
  const moments = trained ? await open(files.moments) : undefined;
  const check = (source: WeightSource, tensor: string, shape: readonly number[]): void => {
    const stored = source.tensors.get(tensor)?.shape;
    if (stored?.join() === shape.join()) return;
    const got = stored === undefined ? "nothing" : `[${stored.join(", ")}]`;
    throw new RunError(expected(`${folder} ${tensor}`, `shape [${shape.join(", ")}]`, got));
  };
  for (const [tensor, shape] of shapes) {
    check(weights, tensor, shape);
    if (moments?.tensors.has(`first.${tensor}`) !== true) continue;
    for (const kind of ["first", "second"]) check(moments, `${kind}.${tensor}`, shape);
  }
  return { name, shapes, weights, moments };
}

const kindOf = ({ lora, trained, scalarHead }: Omit<Stored, "updates">): string => {
  const shape = lora === null ? "a copy of all weights" : `rank ${lora.rank}, alpha ${lora.alpha} on ${lora.targets.join(" ")}`;
  return `${shape}, ${scalarHead ? "with" : "without"} head, ${trained ? "trained" : "frozen"}`;
};

/** The state must have every trained adapter of the engine, of the same kind; what the engine lacks is made from the state. */
function checkAgainst(folder: string, adapters: Adapters, stored: Readonly<Record<string, Stored>>): void {
  const where = `state ${folder}`;
  for (const { name, stored: own } of adapters.kept().map(described)) {
    const one = stored[name];
    if (one === undefined && own.trained)
      throw new RunError(expected(where, `adapter ${name}`, "none", "load the state before the adapter is added"));
    if (one !== undefined && kindOf(one) !== kindOf(own))
      throw new RunError(expected(`${where} adapter ${name}`, kindOf(own), kindOf(one)));
  }
  const copy = Object.keys(stored).find((name) => (stored[name]!.lora === null) !== adapters.baseIsTrained);
  if (copy !== undefined) {
    const want = adapters.baseIsTrained ? "a copy of all weights" : "a LoRA adapter";
    throw new RunError(expected(`${where} adapter ${copy}`, want, kindOf(stored[copy]!)));
  }
  if (stored["reference"] !== undefined || adapters.canUnblendReference) return;
  const remedy = "open the engine anew and load it then";
  throw new RunError(expected(where, "the reference, which was blended since the engine was opened", "none", remedy));
}

async function readWeights({ shapes, weights }: Plan, into: Tensors): Promise<void> {
  for (const name of shapes.keys()) into.get(name)!.floats.set(await weights.read(name));
}

async function readMoments({ shapes, moments }: Plan, trainer: Trainer, updates: number): Promise<void> {
  trainer.reset();
  for (const [name, shape] of shapes) {
    if (moments?.tensors.has(`first.${name}`) !== true) continue;
    const [first, second] = [await moments.read(`first.${name}`), await moments.read(`second.${name}`)];
    trainer.moments.set(name, { first: new HostTensor(first, shape), second: new HostTensor(second, shape) });
  }
  trainer.updates = updates;
}
