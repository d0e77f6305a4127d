/** Opens a policy from a model on disk: weights, tokenizer, chat template and tool-call dialect, checked to fit together. */
import { resolve } from "node:path";
import { ConfigError, expected } from "../../errors.ts";
import type { Architecture, Family } from "../models/architecture.ts";
import { openModelFiles, type ModelFiles, type OpenModelOptions } from "../models/files/model-folder.ts";
import { loadParameters, placeParameters, readArchitecture } from "../models/parameters.ts";
import { openChatTemplate } from "../text/chat-template.ts";
import { openRenderer, type ChatRenderer } from "../text/renderer.ts";
import { openTokenizer } from "../text/tokenizer.ts";
import { LocalEngine, type LocalEngineOptions } from "./local/engine.ts";

export interface OpenPolicyOptions
  extends OpenModelOptions, Partial<Omit<LocalEngineOptions, "name" | "architecture" | "parameters" | "decode">> {}

export interface OpenedPolicy extends AsyncDisposable {
  readonly engine: LocalEngine;
  readonly renderer: ChatRenderer;
  readonly family: Family;
  readonly files: Pick<ModelFiles, "name" | "config" | "tokenizer" | "tokenizerConfig" | "generationConfig">;
}

/** What a model is, without its weights. */
interface ModelFacts {
  readonly files: ModelFiles;
  readonly family: Family;
  readonly architecture: Architecture;
}

/** Reads a model's configuration and the header of its weights, which must fit; the files stay open. */
export async function readModelFacts(spec: string, options: OpenModelOptions = {}): Promise<ModelFacts> {
  const files = await openModelFiles(spec, options);
  try {
    const { family, architecture } = readArchitecture(files);
    placeParameters(family, architecture, files.weights);
    return { files, family, architecture };
  } catch (error) {
    await files.close();
    throw error;
  }
}

/** A chat renderer for a model's tokenizer and template; refuses what does not fit together. */
export function rendererOf(files: Pick<ModelFiles, "name" | "tokenizer" | "tokenizerConfig">): ChatRenderer {
  const template = openChatTemplate(files.tokenizerConfig, files.name);
  return openRenderer({ tokenizer: openTokenizer(files.tokenizer, files.tokenizerConfig), template });
}

/** Opens a model folder, file or pulled hub id for sampling and, as `train` says, for training. */
export async function openPolicy(
  spec: string,
  { train = { type: "none" }, cacheDir, revision, ...options }: OpenPolicyOptions = {},
): Promise<OpenedPolicy> {
  const { files, family, architecture } = await readModelFacts(spec, {
    ...(cacheDir === undefined ? {} : { cacheDir }),
    ...(revision === undefined ? {} : { revision }),
  });
  try {
    const renderer = rendererOf(files);
    const { tokenizer } = renderer;
    if (tokenizer.size > architecture.vocabulary) {
      throw new ConfigError(
        expected(
          `model ${files.name}`,
          `a tokenizer of at most ${architecture.vocabulary} ids`,
          `${tokenizer.size}`,
          "tokenizer and weights are of different models",
        ),
      );
    }
    const parameters = await loadParameters(family, architecture, files.weights);
    const decode = (ids: readonly number[]): string => tokenizer.decode([...ids]);
    const source = files.name === spec ? spec : resolve(spec);
    const engine = LocalEngine.open({ source, ...options, name: files.name, architecture, parameters, train, decode });
    const { name, config, tokenizer: tokenizerJson, tokenizerConfig, generationConfig } = files;
    return {
      engine,
      renderer,
      family,
      files: { name, config, tokenizer: tokenizerJson, tokenizerConfig, generationConfig },
      [Symbol.asyncDispose]: () => engine.close(),
    };
  } finally {
    await files.close();
  }
}
