/** The tokenizer of a recorded run, for showing its tokens as text. */
import { openModelFiles } from "../../compute/models/files/model-folder.ts";
import { openTokenizer } from "../../compute/text/tokenizer.ts";
import type { Decode } from "../../train/report/token-text.ts";
import type { JsonObject } from "../../types.ts";
import type { CliServices } from "./services.ts";
import { cacheOption, pathFrom } from "./ui/places.ts";

/** Reads headers only. Null if the model was moved or never pulled: records can be read without it. */
export async function decoderFor(config: JsonObject, services: Pick<CliServices, "cwd" | "environment">): Promise<Decode | null> {
  const model = config["model"];
  const spec = typeof model === "object" && model !== null && "path" in model ? model.path : undefined;
  if (typeof spec !== "string") return null;
  try {
    const files = await openModelFiles(pathFrom(services.cwd, spec), cacheOption(services.environment));
    await files.close();
    const tokenizer = openTokenizer(files.tokenizer, files.tokenizerConfig);
    return (ids) => tokenizer.decode([...ids]);
  } catch {
    return null;
  }
}
