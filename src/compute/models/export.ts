/** Writes a model as a Hugging Face folder that this package, transformers and others open. */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { JsonObject } from "../../types.ts";
import type { Family } from "./architecture.ts";
import { writeSafetensors, type WrittenType } from "./files/safetensors.ts";
import { storedTensors, type Parameters } from "./parameters.ts";

interface ModelToWrite {
  readonly family: Family;
  readonly parameters: Parameters;
  readonly config: JsonObject;
  readonly tokenizer: JsonObject;
  readonly tokenizerConfig: JsonObject;
  readonly generationConfig?: JsonObject;
  readonly type?: WrittenType;
}

/** config.json, tokenizer.json, tokenizer_config.json and model.safetensors in `folder`, which is made if it is not there. */
export async function writeModelFolder(folder: string, model: ModelToWrite): Promise<void> {
  await mkdir(folder, { recursive: true });
  const type = model.type ?? "F32";
  const json = async (name: string, value: JsonObject): Promise<void> =>
    writeFile(join(folder, name), `${JSON.stringify(value, null, 1)}\n`);
  await json("config.json", { ...model.config, torch_dtype: type === "F16" ? "float16" : "float32" });
  await json("tokenizer.json", model.tokenizer);
  await json("tokenizer_config.json", model.tokenizerConfig);
  if (model.generationConfig !== undefined) await json("generation_config.json", model.generationConfig);
  await writeSafetensors(join(folder, "model.safetensors"), storedTensors(model.family, model.parameters), {
    metadata: { format: "pt" },
    type,
  });
}
