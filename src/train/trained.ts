/** What was trained: a run folder's base model with the weights of one of its checkpoints, or a model as it is. */
import { join, resolve } from "node:path";
import { z } from "zod";
import { ModelError, RunError, expected } from "../errors.ts";
import type { Architecture } from "../compute/models/architecture.ts";
import { openSafetensors } from "../compute/models/files/safetensors.ts";
import { loraOptions, loraShapes, type LoraOptions } from "../compute/models/lora.ts";
import { parameterShapes } from "../compute/models/parameters.ts";
import { openPolicy, readModelFacts, type OpenedPolicy } from "../compute/policy/open.ts";
import { HostTensor } from "../compute/tensor/host.ts";
import { type CheckpointChoice, findCheckpoint } from "./record/checkpoint.ts";
import { listFolder, readLines } from "./record/files.ts";
import { runHash } from "./record/fingerprint.ts";
import { readJsonObject } from "./record/read-run.ts";

/** The part of a run's configuration that says what its checkpoints hold. */
const modelSchema = z.discriminatedUnion("adapter", [
  z.looseObject({ path: z.string(), adapter: z.literal("full") }),
  z.looseObject({ path: z.string(), adapter: z.literal("lora"), rank: z.int(), alpha: z.number(), targets: z.array(z.string()) }),
]);

export interface TrainedWeights {
  /** The base model, as openModelFiles takes it. */
  readonly base: string;
  /** The base model that the run's configuration names. */
  readonly trainedOn: string;
  /** The checkpoint's name and step. */
  readonly checkpoint: { readonly name: string; readonly step: number };
  /** Undefined where all weights were trained. */
  readonly lora: LoraOptions | undefined;
  /** Reads the trained tensors, checked against the base's architecture. */
  read(architecture: Architecture): Promise<Map<string, HostTensor>>;
}

export interface TrainedOptions {
  readonly checkpoint?: CheckpointChoice;
  /** The base model, where it is not (or no longer) what the run's configuration says. */
  readonly base?: string;
}

/** True for a folder that training wrote; a model folder has a config.json too, but no ledger. */
export async function isRunFolder(path: string): Promise<boolean> {
  const names = await listFolder(path).catch((): string[] => []);
  return names.includes("config.json") && names.includes("ledger.jsonl");
}

/** Opens a run's checkpoint (default: the latest). RunError if the run has none or its files are not as they were written. */
export async function openTrained(folder: string, { checkpoint: choice = "latest", base }: TrainedOptions = {}): Promise<TrainedWeights> {
  if (!(await isRunFolder(folder))) {
    const want = "a run folder (with config.json and ledger.jsonl)";
    throw new RunError(expected(`run ${folder}`, want, "none", "give the path, for example runs/<name>"));
  }
  const config = await readJsonObject(join(folder, "config.json"));
  const parsed = modelSchema.safeParse(config["model"]);
  if (!parsed.success) {
    throw new RunError(expected(`${folder}/config.json: model`, "a path and an adapter", JSON.stringify(config["model"] ?? null)));
  }
  const lastStep = (await readLines(join(folder, "ledger.jsonl"))).lines.length;
  const found = await findCheckpoint({ folder, configHash: runHash(config), lastStep }, choice);
  const lora = parsed.data.adapter === "lora" ? loraOptions(parsed.data) : undefined;
  return {
    base: base ?? parsed.data.path,
    checkpoint: { name: found.name, step: found.manifest.step },
    trainedOn: parsed.data.path,
    lora,
    read: (architecture) => {
      const shapes = lora === undefined ? parameterShapes(architecture) : loraShapes(architecture, lora);
      return readWeights(resolve(found.folder, "weights.safetensors"), shapes);
    },
  };
}

async function readWeights(path: string, shapes: ReadonlyMap<string, readonly number[]>): Promise<Map<string, HostTensor>> {
  const source = await openSafetensors(path);
  try {
    const weights = new Map<string, HostTensor>();
    const remedy = "it was trained on another base model: name that one as the base";
    for (const [name, shape] of shapes) {
      const stored = source.tensors.get(name);
      const got = stored === undefined ? "none" : `[${stored.shape.join(", ")}]`;
      if (stored?.shape.join() !== shape.join()) {
        throw new ModelError(expected(`${path} ${name}`, `shape [${shape.join(", ")}]`, got, remedy));
      }
      weights.set(name, new HostTensor(await source.read(name), shape));
    }
    const extra = [...source.tensors.keys()].find((name) => !shapes.has(name));
    if (extra !== undefined) throw new ModelError(expected(path, `the ${shapes.size} tensors of this base model`, `also ${extra}`, remedy));
    return weights;
  } finally {
    await source.close();
  }
}

/** Opens the policy that a run trained, for sampling. Errors as of `openTrained` and `openPolicy`. */
export async function openTrainedPolicy(
  folder: string,
  { cacheDir, ...options }: TrainedOptions & { readonly cacheDir?: string } = {},
): Promise<OpenedPolicy & { readonly trained: TrainedWeights }> {
  const trained = await openTrained(folder, options);
  const cache = cacheDir === undefined ? {} : { cacheDir };
  const { files, architecture } = await readModelFacts(trained.base, cache);
  await files.close();
  const weights = await trained.read(architecture);
  const { lora } = trained;
  const train = lora === undefined ? ({ type: "none" } as const) : ({ type: "lora", lora, initial: weights } as const);
  const policy = await openPolicy(trained.base, { ...cache, train });
  if (lora === undefined) for (const [name, { floats }] of weights) policy.engine.model.base.get(name)!.floats.set(floats);
  return { ...policy, trained };
}
