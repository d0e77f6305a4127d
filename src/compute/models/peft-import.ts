/** Reads a LoRA adapter from a folder that PEFT (or `exportPeft`) wrote: adapter_config.json and adapter_model.safetensors. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { ModelError, expected, messageOf } from "../../errors.ts";
import { HostTensor } from "../tensor/host.ts";
import type { Architecture, Family } from "./architecture.ts";
import { openSafetensors } from "./files/safetensors.ts";
import type { WeightSource } from "./files/weight-source.ts";
import { loraTargets, type LoraOptions } from "./lora.ts";
import { parameterShapes } from "./parameters.ts";
import { scalarHeadName } from "./scalar-head.ts";

const configSchema = z.looseObject({
  peft_type: z.literal("LORA"),
  r: z.int().positive(),
  lora_alpha: z.number().positive(),
  bias: z.literal("none").default("none"),
  use_rslora: z.literal(false).nullish(),
  use_dora: z.literal(false).nullish(),
  alpha_pattern: z.record(z.string(), z.number()).nullish(),
  modules_to_save: z.array(z.enum(["score", "classifier"])).nullish(),
  base_model_name_or_path: z.string().nullish(),
});

type LoraTarget = LoraOptions["targets"][number];

interface ReadAdapter {
  /** LoRA matrices by our names and, where the file has one, the scalar head. */
  readonly parameters: Map<string, HostTensor>;
  readonly lora: LoraOptions;
  readonly base: string | undefined;
}

interface ReadOptions {
  readonly family: Family;
  readonly architecture: Architecture;
  /** Which parts of a fused matrix carry an adapter, where that is known; the file alone cannot tell. */
  readonly targets?: readonly LoraTarget[];
}

const headFile = "base_model.model.score.weight";

/** ModelError for settings that change what the matrices mean, for missing or unknown tensors and for wrong shapes. */
export async function readPeft(folder: string, options: ReadOptions): Promise<ReadAdapter> {
  const config = await readConfig(join(folder, "adapter_config.json"));
  const source = await openSafetensors(join(folder, "adapter_model.safetensors"));
  try {
    const modules = modulesOf(source, options);
    const parameters = new Map<string, HostTensor>();
    for (const [module, parts] of modules) {
      for (const [name, tensor] of await readModule(source, { module, parts, config })) parameters.set(name, tensor);
    }
    const known = new Set([...modules.keys()].flatMap((module) => [`${module}.lora_A.weight`, `${module}.lora_B.weight`]).concat(headFile));
    const extra = [...source.tensors.keys()].find((name) => !known.has(name));
    if (extra !== undefined) throw new ModelError(expected(source.path, "adapters of linear layers and a score head", `also ${extra}`));
    if (source.tensors.has(headFile)) parameters.set(scalarHeadName, await read(source, headFile, [1, options.architecture.hidden]));
    const found = new Set([...modules.values()].flatMap((parts) => parts.map(({ target }) => target)));
    const lora = { rank: config.r, alpha: config.lora_alpha, targets: loraTargets.filter((target) => found.has(target)) };
    return { parameters: inOrder(parameters, options.architecture), lora, base: config.base_model_name_or_path ?? undefined };
  } finally {
    await source.close();
  }
}

async function readConfig(path: string): Promise<z.infer<typeof configSchema>> {
  try {
    return configSchema.parse(JSON.parse(await readFile(path, "utf8")));
  } catch (cause) {
    const got = cause instanceof z.ZodError ? z.prettifyError(cause).replaceAll("\n", " ") : messageOf(cause);
    throw new ModelError(expected(path, "the settings of a plain LoRA adapter", got), { cause });
  }
}

interface Part {
  /** "layers.0.q" */
  readonly at: string;
  readonly target: LoraTarget;
  readonly shape: readonly number[];
  readonly index: number;
  readonly count: number;
}

/** The file's modules with the linear layers that each stands for; every layer must have the same. */
function modulesOf(source: WeightSource, { family, architecture, targets = loraTargets }: ReadOptions): Map<string, Part[]> {
  const modules = new Map<string, Part[]>();
  const missing: string[] = [];
  const seen = new Set<string>();
  for (const [name, shape] of parameterShapes(architecture)) {
    const [, at, target] = /^(layers\.\d+\.(\w+))\.weight$/.exec(name) ?? [];
    if (at === undefined || !targets.includes(target as LoraTarget)) continue;
    const { name: stored, part } = family.storedAs(name);
    const module = `base_model.model.${stored.replace(/\.weight$/, "")}`;
    if (!source.tensors.has(`${module}.lora_A.weight`)) {
      missing.push(`${target!} ${module}`);
      continue;
    }
    seen.add(target!);
    const found = { at, target: target as LoraTarget, shape, index: part?.index ?? 0, count: part?.count ?? 1 };
    modules.set(module, [...(modules.get(module) ?? []), found]);
  }
  const gap = missing.find((text) => seen.has(text.split(" ")[0]!));
  if (gap !== undefined) throw new ModelError(expected(source.path, "the same adapters in every layer", `none for ${gap.split(" ")[1]!}`));
  if (modules.size === 0) throw new ModelError(expected(source.path, "adapters of this architecture's linear layers", "none"));
  return modules;
}

async function read(source: WeightSource, name: string, shape: readonly number[]): Promise<HostTensor> {
  const stored = source.tensors.get(name)?.shape;
  if (stored?.join() !== shape.join()) {
    const got = stored === undefined ? "none" : `[${stored.join(", ")}]`;
    throw new ModelError(expected(`${source.path} ${name}`, `shape [${shape.join(", ")}]`, got));
  }
  return new HostTensor(await source.read(name), shape);
}

/**
 * The matrices of one module. In a fused one (GPT-2's q, k and v) either all parts share A and take their rows of B, or A is
 * stacked and B block diagonal, as `exportPeft` writes it.
 */
async function readModule(
  source: WeightSource,
  { module, parts, config }: { module: string; parts: readonly Part[]; config: z.infer<typeof configSchema> },
): Promise<[string, HostTensor][]> {
  const rank = config.r;
  const [rows, inside] = parts[0]!.shape as [number, number];
  const stacked = source.tensors.get(`${module}.lora_A.weight`)!.shape[0] !== rank;
  const total = stacked ? rank * parts.length : rank;
  const a = await read(source, `${module}.lora_A.weight`, [total, inside]);
  const b = await read(source, `${module}.lora_B.weight`, [rows * parts[0]!.count, total]);
  const alpha = Object.entries(config.alpha_pattern ?? {}).find(([key]) => module.endsWith(`.${key}`))?.[1] ?? config.lora_alpha;
  const scale = config.lora_alpha / rank;
  if (Math.abs(alpha / total - scale) > 1e-9)
    throw new ModelError(expected(`${source.path} ${module}`, `alpha / rank ${scale} as elsewhere`, String(alpha / total)));
  return parts.flatMap((part, i): [string, HostTensor][] => {
    const column = stacked ? i * rank : 0;
    const own = new Float32Array(rows * rank);
    for (let row = 0; row < rows; row++) {
      const line = b.floats.subarray((part.index * rows + row) * total, (part.index * rows + row + 1) * total);
      own.set(line.subarray(column, column + rank), row * rank);
      if (stacked && line.some((value, j) => value !== 0 && (j < column || j >= column + rank)))
        throw new ModelError(expected(`${source.path} ${module}.lora_B.weight`, "blocks on the diagonal", "values beside them"));
    }
    const first = a.floats.slice(column * inside, (column + rank) * inside);
    return [
      [`${part.at}.loraA`, new HostTensor(first, [rank, inside])],
      [`${part.at}.loraB`, new HostTensor(own, [rows, rank])],
    ];
  });
}

/** In the order of a fresh adapter's parameters, the head last. */
function inOrder(parameters: ReadonlyMap<string, HostTensor>, architecture: Architecture): Map<string, HostTensor> {
  const ordered = new Map<string, HostTensor>();
  for (const name of [...parameterShapes(architecture).keys()]) {
    for (const part of ["A", "B"]) {
      const own = name.replace(/\.weight$/, `.lora${part}`);
      const tensor = parameters.get(own);
      if (tensor !== undefined) ordered.set(own, tensor);
    }
  }
  const head = parameters.get(scalarHeadName);
  if (head !== undefined) ordered.set(scalarHeadName, head);
  return ordered;
}
