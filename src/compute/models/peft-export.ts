/** A LoRA adapter as a folder that Hugging Face PEFT opens: adapter_config.json and adapter_model.safetensors. */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ModelError, expected } from "../../errors.ts";
import type { JsonObject } from "../../types.ts";
import type { HostTensor } from "../tensor/host.ts";
import type { Family } from "./architecture.ts";
import { writeSafetensors, type WrittenType } from "./files/safetensors.ts";
import type { TensorToWrite } from "./files/weight-source.ts";
import type { LoraOptions } from "./lora.ts";
import type { Parameters } from "./parameters.ts";
import { scalarHeadName } from "./scalar-head.ts";

interface AdapterToWrite {
  readonly family: Family;
  /** LoRA matrices and, for a sequence classifier with one label, the scalar head. */
  readonly adapter: Parameters;
  readonly lora: LoraOptions;
  /** What the adapter was trained on, as PEFT should look it up: a hub id or a path. */
  readonly base: string;
  readonly type?: WrittenType;
}

/**
 * Writes the adapter under PEFT's names, a head as the `score` module of AutoModelForSequenceClassification with one label. Where
 * the checkpoint fuses matrices (GPT-2's q, k and v), their adapters become one of the summed rank: A stacked, B on the block
 * diagonal, with alpha raised in proportion, so that the product is the same.
 */
export async function exportPeft(folder: string, { family, adapter, lora, base, type = "F32" }: AdapterToWrite): Promise<void> {
  const modules = groupByModule(family, adapter);
  const tensors = [...modules].flatMap(([module, parts]) => moduleTensors(module, parts, lora.rank));
  const head = adapter.get(scalarHeadName);
  if (head !== undefined) tensors.push({ name: `base_model.model.${scalarHeadName}`, shape: head.shape, data: head.floats });
  await mkdir(folder, { recursive: true });
  const config = adapterConfig(modules, { lora, base, head: head !== undefined });
  await writeFile(join(folder, "adapter_config.json"), `${JSON.stringify(config, null, 2)}\n`);
  await writeSafetensors(join(folder, "adapter_model.safetensors"), tensors, { metadata: { format: "pt" }, type });
}

interface Part {
  readonly a: HostTensor;
  readonly b: HostTensor;
  readonly index: number;
  readonly count: number;
  readonly transposed: boolean;
}

function groupByModule(family: Family, adapter: Parameters): Map<string, Part[]> {
  const modules = new Map<string, Part[]>();
  for (const [name, a] of adapter) {
    if (!name.endsWith(".loraA")) continue;
    const b = adapter.get(name.replace(/A$/, "B"));
    if (b === undefined) throw new ModelError(expected("adapter", name.replace(/A$/, "B"), "none", "the adapter is incomplete"));
    const { name: stored, part, transposed = false } = family.storedAs(name.replace(/loraA$/, "weight"));
    const module = stored.replace(/\.weight$/, "");
    const found = { a, b, index: part?.index ?? 0, count: part?.count ?? 1, transposed };
    modules.set(module, [...(modules.get(module) ?? []), found]);
  }
  return modules;
}

function moduleTensors(module: string, parts: readonly Part[], rank: number): TensorToWrite[] {
  const inside = parts[0]!.a.shape[1]!;
  const rows = parts[0]!.b.shape[0]!;
  const total = rank * parts.length;
  const a = new Float32Array(total * inside);
  const b = new Float32Array(rows * parts[0]!.count * total);
  parts.forEach((part, i) => {
    a.set(part.a.floats, i * rank * inside);
    for (let row = 0; row < rows; row++) {
      b.set(part.b.floats.subarray(row * rank, (row + 1) * rank), (part.index * rows + row) * total + i * rank);
    }
  });
  const at = `base_model.model.${module}`;
  return [
    { name: `${at}.lora_A.weight`, shape: [total, inside], data: a },
    { name: `${at}.lora_B.weight`, shape: [b.length / total, total], data: b },
  ];
}

type Trained = Pick<AdapterToWrite, "lora" | "base"> & { readonly head: boolean };

function adapterConfig(modules: ReadonlyMap<string, readonly Part[]>, { lora, base, head }: Trained): JsonObject {
  const ranks: Record<string, number> = {};
  const alphas: Record<string, number> = {};
  const targets = new Set<string>();
  let transposed = false;
  for (const [module, parts] of modules) {
    // "q_proj" is enough; GPT-2 has a c_proj in the attention and in the MLP, so there the parent is named too.
    const target = parts[0]!.transposed ? module.split(".").slice(-2).join(".") : module.split(".").at(-1)!;
    targets.add(target);
    transposed ||= parts[0]!.transposed;
    if (parts.length === 1) continue;
    ranks[target] = lora.rank * parts.length;
    alphas[target] = lora.alpha * parts.length;
  }
  return {
    peft_type: "LORA",
    task_type: head ? "SEQ_CLS" : "CAUSAL_LM",
    base_model_name_or_path: base,
    inference_mode: true,
    r: lora.rank,
    lora_alpha: lora.alpha,
    lora_dropout: 0,
    target_modules: [...targets],
    rank_pattern: ranks,
    alpha_pattern: alphas,
    fan_in_fan_out: transposed,
    bias: "none",
    modules_to_save: head ? ["score"] : null,
    use_rslora: false,
    use_dora: false,
  };
}
