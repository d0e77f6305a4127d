/** JSONL files of examples -> encoded rows -> batches of an offline algorithm. */
import { isDeepStrictEqual } from "node:util";
import { setImmediate } from "node:timers/promises";
import { dataLines, readDataFile } from "../data-file.ts";
import { encodeAnswer, encodeDialogue, hopelessBytes, type EncodedDialogue } from "../compute/text/dialogue.ts";
import { encodeSteps } from "../compute/text/steps.ts";
import type { ChatRenderer } from "../compute/text/renderer.ts";
import { ConfigError, expected } from "../errors.ts";
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
  /** Bytes that were read, of how many; called a few times a second. */
  readonly onRead?: (done: number, total: number) => void;
  readonly signal?: AbortSignal;
}

/** Milliseconds of reading between two looks at the signal. */
const stretch = 100;

/**
 * Reads and encodes a file; a bad row, one without a token to train, and one longer than the context is named by its line. Other work
 * (a Ctrl-C) gets its turn in between.
 */
export async function readExamples(path: string, use: ExampleUse, options: ReadOptions): Promise<Example[]> {
  const { renderer, contextLength, onRead, signal } = options;
  const bytes = readDataFile(path, "data");
  const examples: Example[] = [];
  let began = performance.now();
  for (const { text, where, end } of dataLines(bytes, path)) {
    if (performance.now() - began > stretch) {
      onRead?.(end, bytes.length);
      await setImmediate();
      signal?.throwIfAborted();
      began = performance.now();
    }
    if (text.trim() === "") continue;
    for (const row of parseExample(text, use.examples, where)) {
      refuseHopeless(row, { renderer, contextLength, where });
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

function refuseHopeless(row: ExampleRow, { renderer, contextLength, where }: ReadOptions & { readonly where: string }): void {
  for (const messages of conversationsOf(row)) {
    const bytes = hopelessBytes(renderer, messages, contextLength);
    if (bytes === null) continue;
    const want = `at most ${contextLength} tokens (the model's context)`;
    throw new ConfigError(expected(where, want, `${bytes} bytes of text, which are more`, "shorten the row or leave it out"));
  }
}

/** What is encoded as one piece. */
function conversationsOf(row: ExampleRow): (readonly Message[])[] {
  switch (row.kind) {
    case "dialogue":
    case "turns":
      return [row.messages];
    case "pair":
      return [row.chosen, row.rejected].map((answer) => [...row.prompt, ...answer]);
    case "label":
      return [[...row.prompt, ...row.answer]];
    case "steps":
      return [[...row.prompt, ...row.steps.map((content): Message => ({ role: "assistant", content }))]];
  }
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
      if (isDeepStrictEqual(chosen, rejected))
        throw new ConfigError(expected(`${where} "chosen" and "rejected"`, "two different answers", "the same twice", "leave it out"));
      return [{ kind: "pair", chosen, rejected, margin: row.margin }];
    }
    case "label":
      return [{ kind: "label", rows: encodeAnswer(renderer, row, where), good: row.good }];
    case "steps": {
      const { separator } = use.settings;
      const solution = encodeSteps(renderer, { ...row, separator: typeof separator === "string" ? separator : "\n" }, where);
      return [{ kind: "steps", ...solution, labels: labelsOf(row.labels, use) }];
    }
    case "turns":
      return labelledTurns(encodeDialogue(renderer, row, where), labelsOf(row.labels, use), where);
  }
}

function labelsOf(labels: readonly number[], { settings }: ExampleUse): Float32Array {
  return Float32Array.from(labels, (label) => (settings["labels"] === "hard" ? Number(label > 0) : label));
}

/** Each label at the end of its turn: where a run of the turn's own tokens stops. */
function labelledTurns(rows: readonly EncodedDialogue[], labels: Float32Array, where: string): Example[] {
  const ends = rows.map(({ trained }) => trained.filter((at, t) => trained[t + 1] !== at + 1).map((at) => at + 1));
  const count = ends.reduce((sum, { length }) => sum + length, 0);
  if (count !== labels.length)
    throw new ConfigError(expected(where, `${labels.length} assistant turns with tokens between them`, String(count)));
  let next = 0;
  return rows.map(({ ids }, r) => ({ kind: "steps", ids, after: ends[r]!, labels: labels.slice(next, (next += ends[r]!.length)) }));
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
