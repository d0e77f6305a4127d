/**
 * Single answers to the rows of a dataset: JSONL, CSV, TSV, Parquet, or a folder as the Hugging Face hub has it. Columns go into the
 * prompt and the gold by templates, and a verifier that is named grades.
 */
import { z } from "zod";
import { real, text } from "../config-fields.ts";
import { EnvError, expected } from "../errors.ts";
import { openDataset, type OpenDatasetOptions } from "../loop/prompt/dataset/open.ts";
import { openVerifier } from "../loop/reward/verifiers/registry.ts";
import { verifierReward } from "../loop/reward/verifiers/verifier.ts";
import { defineEnv } from "../loop/rollout/tool-env.ts";
import type { Env, Json, JsonObject, Message, Task } from "../types.ts";
import { readOptions } from "./options.ts";

const given = (want: string, about: string): z.ZodType<string> => text(/\S/, want, about);
const column = given("the name of a column", "which column");
const words = given("a text with columns in braces", "what is made of a row");

const schema = z.strictObject({
  path: given("a file or a folder", "where the rows are"),
  prompt: words.exactOptional(),
  messages: column.exactOptional(),
  system: words.exactOptional(),
  gold: words.exactOptional(),
  goldAfter: given("a text", "what stands before the gold").exactOptional(),
  solution: words.exactOptional(),
  id: column.exactOptional(),
  keep: z.array(column).exactOptional(),
  test: given("a file, or a split of the folder", "the test split").exactOptional(),
  testShare: real({ min: 0, below: 1 }, 0, "share of the rows that is kept for the test split"),
  train: given("a split of the folder", "the train split").exactOptional(),
  subset: given("a configuration of the card, or a folder", "which part").exactOptional(),
  verifier: given("the name of a verifier", "what grades"),
  verifierOptions: z.record(z.string(), z.json()).default({}),
});

export type DatasetEnvOptions = OpenDatasetOptions & {
  readonly path: string;
  /** Name of a verifier, and its options: docs/verifiers.md. */
  readonly verifier: string;
  readonly verifierOptions?: JsonObject;
};

/** Verifiers for which a gold is a right answer as it stands. */
const ownSolution = ["math", "molecule", "quantity", "text"];

/** Opens a dataset as an environment. Throws a ConfigError that names the option, or file, row and column. */
export async function datasetEnv(options: JsonObject | DatasetEnvOptions): Promise<Env> {
  const { path, verifier: name, verifierOptions, ...rest } = readOptions("dataset", schema, options as JsonObject);
  const verifier = await openVerifier(name, verifierOptions);
  const { train, test, files } = await openDataset(path, rest);
  const solved = rest.solution !== undefined || ownSolution.includes(name);
  return defineEnv({
    name: "dataset",
    tasks: (split) => {
      if (split === "train") return train;
      if (test !== null) return test;
      const remedy = "give test or testShare, or set train.evalEvery to 0";
      throw new EnvError(expected(`dataset ${path}`, "a test split", "train alone", remedy));
    },
    reward: verifierReward(verifier, { gold: ({ data }) => data["gold"]! }),
    ...(solved ? { reference: (task: Task): readonly Message[] => [{ role: "assistant", content: solutionOf(task) }] } : {}),
    maxTurns: 1,
    inputs: files,
  });
}

function solutionOf({ data }: Task): string {
  const { gold, solution = gold } = data;
  const right = Array.isArray(solution) ? (solution as readonly Json[])[0] : solution;
  return typeof right === "string" ? right : JSON.stringify(right);
}
