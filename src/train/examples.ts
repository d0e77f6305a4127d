/** JSONL files of examples -> encoded rows -> batches of an offline algorithm. */
import { readFileSync } from "node:fs";
import { encodeAnswer, encodeDialogue, type EncodedDialogue } from "../compute/text/dialogue.ts";
import { encodeSteps } from "../compute/text/steps.ts";
import type { ChatRenderer } from "../compute/text/renderer.ts";
import { ConfigError, expected, messageOf } from "../errors.ts";
import { supervisedBatch } from "../loop/batch/dialogue.ts";
import {
  labelBatch,
  pairBatch,
  scoredPairBatch,
  stepBatch,
  type EncodedLabel,
  type EncodedPair,
  type EncodedSteps,
} from "../loop/batch/preference.ts";
import type { Batch, Message, OfflineAlgorithm } from "../types.ts";
import { parseExample, type ExampleRow } from "./example-schema.ts";

export type Example =
  | ({ readonly kind: "dialogue" } & EncodedDialogue)
  | ({ readonly kind: "pair" } & EncodedPair)
  | ({ readonly kind: "label" } & EncodedLabel)
  | ({ readonly kind: "steps" } & EncodedSteps);

/** What of an algorithm says how its examples are read and put together. */
type ExampleUse = Pick<OfflineAlgorithm, "examples" | "trains" | "reduction" | "settings">;

interface ReadOptions {
  readonly renderer: ChatRenderer;
  readonly contextLength: number;
}

/** Reads and encodes a file; a bad row, one without a token to train, and one longer than the context is named by its line. */
export function readExamples(path: string, use: ExampleUse, { renderer, contextLength }: ReadOptions): Example[] {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (cause) {
    throw new ConfigError(expected(`data ${path}`, "a readable JSONL file", messageOf(cause)), { cause });
  }
  const examples: Example[] = [];
  for (const [i, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    const where = `${path} line ${i + 1}`;
    for (const row of parseExample(line, use.examples, where)) {
      const encoded = encodeExample(row, { renderer, use, where });
      const longest = Math.max(...encoded.flatMap(idsOf).map(({ length }) => length));
      if (longest > contextLength)
        throw new ConfigError(expected(where, `at most ${contextLength} tokens (the model's context)`, String(longest)));
      examples.push(...encoded);
    }
  }
  if (examples.length === 0) throw new ConfigError(expected(`data ${path}`, "at least one example", "none"));
  return examples;
}

interface EncodeOptions {
  readonly renderer: ChatRenderer;
  readonly use: ExampleUse;
  readonly where: string;
}

function encodeExample(row: ExampleRow, { renderer, use, where }: EncodeOptions): Example[] {
  switch (row.kind) {
    case "dialogue":
      return encodeDialogue(renderer, row, where).map((encoded) => ({ kind: "dialogue", ...encoded }));
    case "pair": {
      const encode = (answer: readonly Message[], side: string): EncodedDialogue[] =>
        encodeAnswer(renderer, { prompt: row.prompt, tools: row.tools, answer }, `${where} ${side}`);
      const [chosen, rejected] = [encode(row.chosen, "chosen"), encode(row.rejected, "rejected")];
      return [{ kind: "pair", chosen, rejected, margin: row.margin }];
    }
    case "label":
      return [{ kind: "label", rows: encodeAnswer(renderer, row, where), good: row.good }];
    case "steps": {
      const { separator, labels } = use.settings;
      const hard = labels === "hard";
      const solution = encodeSteps(renderer, { ...row, separator: typeof separator === "string" ? separator : "\n" }, where);
      return [{ kind: "steps", ...solution, labels: Float32Array.from(row.labels, (label) => (hard ? Number(label > 0) : label)) }];
    }
  }
}

function idsOf(example: Example): Int32Array[] {
  switch (example.kind) {
    case "dialogue":
    case "steps":
      return [example.ids];
    case "pair":
      return [...example.chosen, ...example.rejected].map(({ ids }) => ids);
    case "label":
      return example.rows.map(({ ids }) => ids);
  }
}

/** The batch of some examples, one unit each and in their order. */
export function batchOf(examples: readonly Example[], { examples: kind, trains, reduction }: ExampleUse): Batch {
  const all = <K extends Example["kind"]>(wanted: K): Extract<Example, { kind: K }>[] =>
    examples.filter((example): example is Extract<Example, { kind: K }> => example.kind === wanted);
  switch (kind) {
    case "dialogues":
      return supervisedBatch(all("dialogue"), reduction);
    case "pairs":
      return trains === "reward" ? scoredPairBatch(all("pair")) : pairBatch(all("pair"));
    case "labels":
      return labelBatch(all("label"));
    case "steps":
      return stepBatch(all("steps"), reduction);
  }
}
