/** The rows of a JSONL file of examples as plain values: dialogues, pairs (also ranked or scored answers), labels and labelled steps. */
import { z } from "zod";
import { problemOf } from "../config-fields.ts";
import { parseDataLine } from "../data-file.ts";
import { ConfigError, expected } from "../errors.ts";
import type { Message, OfflineAlgorithm, ToolSpec } from "../types.ts";

const callSchema = z.looseObject({ id: z.string().optional(), name: z.string(), arguments: z.record(z.string(), z.json()) });
const messageSchema = z.looseObject({
  role: z.enum(["system", "user", "assistant", "tool"]),
  content: z.string().default(""),
  toolCalls: z.array(callSchema).optional(),
  reasoning: z.string().optional(),
  toolCallId: z.string().optional(),
  name: z.string().optional(),
});
const tools = z.array(z.looseObject({ name: z.string(), description: z.string(), parameters: z.record(z.string(), z.json()) })).optional();
/** A text is a user's message where a prompt is wanted, an assistant's where an answer is. */
const prompt = z.union([z.string().min(1), z.array(messageSchema).min(1)]);
const answer = z.union([z.string(), messageSchema, z.array(messageSchema).min(1)]);

const dialogue = z.looseObject({ messages: z.array(messageSchema).min(2), tools });
const pair = z.looseObject({ prompt, tools, chosen: answer, rejected: answer, margin: z.number().optional() });
const ranked = z.looseObject({ prompt, tools, ranked: z.array(answer).min(2) });
const scoredAnswer = z.looseObject({ text: answer, score: z.number().min(0).max(4) });
const graded = z.looseObject({ prompt, tools, answers: z.array(scoredAnswer).min(2) });
const labelled = z.looseObject({ prompt, tools, completion: answer, label: z.boolean() });
const turns = z.looseObject({ messages: z.array(messageSchema).min(2), tools, labels: z.array(z.number().min(0).max(1)).min(1) });
const steps = z.looseObject({ prompt, steps: z.array(z.string()).min(1), labels: z.array(z.number().min(0).max(1)).min(1) });

interface Prompted {
  readonly prompt: readonly Message[];
  readonly tools: readonly ToolSpec[];
}

interface DialogueRow {
  readonly messages: readonly Message[];
  readonly tools: readonly ToolSpec[];
}

type PairRow = Prompted & {
  readonly kind: "pair";
  readonly chosen: readonly Message[];
  readonly rejected: readonly Message[];
  readonly margin: number;
};

export type ExampleRow =
  | (DialogueRow & { readonly kind: "dialogue" })
  | PairRow
  | (Prompted & { readonly kind: "label"; readonly answer: readonly Message[]; readonly good: boolean })
  | (DialogueRow & { readonly kind: "turns"; readonly labels: readonly number[] })
  | (Prompted & { readonly kind: "steps"; readonly steps: readonly string[]; readonly labels: readonly number[] });

type Kind = OfflineAlgorithm["examples"];

const wanted: { readonly [K in Kind]: string } = {
  dialogues: 'a dialogue {"messages": [{role, content}, ...]}',
  pairs: 'a pair {"prompt", "chosen", "rejected"}, {"prompt", "ranked": [best, ..., worst]} or {"prompt", "answers": [{text, score}]}',
  labels: 'a labelled answer {"prompt", "completion", "label"} or a pair {"prompt", "chosen", "rejected"}',
  steps: 'labelled steps {"prompt", "steps": [...], "labels": [...]} or assistant turns {"messages": [...], "labels": [...]}',
};

/** What one line says, as one or more examples of the wanted kind. ConfigError with `where` for anything else. */
export function parseExample(text: string, kind: Kind, where: string): ExampleRow[] {
  const value = parseDataLine({ text, where });
  const has = (field: string): boolean => Object.hasOwn(value, field);
  const read = <T>(schema: z.ZodType<T>): T => {
    const parsed = schema.safeParse(value);
    if (parsed.success) return parsed.data;
    const { path, want, got } = problemOf(parsed.error, value);
    throw new ConfigError(expected(`${where} ${path}`, want, got, `a row is ${wanted[kind]}`));
  };
  switch (kind) {
    case "dialogues": {
      const row = read(dialogue);
      return [{ kind: "dialogue", messages: row.messages.map(messageFrom), tools: row.tools ?? [] }];
    }
    case "pairs":
      if (has("ranked")) return rankedPairs(read(ranked));
      if (has("answers")) return gradedPairs(read(graded), where);
      return [pairFrom(read(pair))];
    case "labels":
      if (has("chosen")) return bothLabels(pairFrom(read(pair)));
      return [labelFrom(read(labelled))];
    case "steps":
      return [has("messages") ? turnsFrom(read(turns), where) : stepsFrom(read(steps), where)];
  }
}

function messageFrom({ role, content, toolCalls, reasoning, toolCallId, name }: z.output<typeof messageSchema>): Message {
  const calls = toolCalls?.map((call, i) => ({ id: call.id ?? `call-${i + 1}`, name: call.name, arguments: call.arguments }));
  return {
    role,
    content,
    ...(calls === undefined ? {} : { toolCalls: calls }),
    ...(reasoning === undefined ? {} : { reasoning }),
    ...(toolCallId === undefined ? {} : { toolCallId }),
    ...(name === undefined ? {} : { name }),
  };
}

type Given = z.output<typeof answer>;

function messagesFrom(given: Given, role: "user" | "assistant"): Message[] {
  if (typeof given === "string") return [{ role, content: given }];
  return (Array.isArray(given) ? given : [given]).map(messageFrom);
}

const opening = (row: { readonly prompt: z.output<typeof prompt>; readonly tools?: readonly ToolSpec[] | undefined }): Prompted => ({
  prompt: messagesFrom(row.prompt, "user"),
  tools: row.tools ?? [],
});

function pairFrom(row: z.output<typeof pair>): PairRow {
  const { chosen, rejected, margin = 0 } = row;
  const [better, worse] = [messagesFrom(chosen, "assistant"), messagesFrom(rejected, "assistant")];
  return { kind: "pair", ...opening(row), chosen: better, rejected: worse, margin };
}

/** Every answer against every later one. */
function rankedPairs(row: z.output<typeof ranked>): ExampleRow[] {
  const answers = row.ranked.map((given) => messagesFrom(given, "assistant"));
  return answers.flatMap((chosen, i) =>
    answers.slice(i + 1).map((rejected): ExampleRow => ({ kind: "pair", ...opening(row), chosen, rejected, margin: 0 })),
  );
}

/** Every two answers of unequal score, with the difference as their margin. */
function gradedPairs(row: z.output<typeof graded>, where: string): ExampleRow[] {
  const answers = row.answers.map(({ text, score }) => ({ messages: messagesFrom(text, "assistant"), score }));
  const pairs = answers.flatMap((one) =>
    answers
      .filter(({ score }) => score < one.score)
      .map((other): ExampleRow => {
        return { kind: "pair", ...opening(row), chosen: one.messages, rejected: other.messages, margin: one.score - other.score };
      }),
  );
  if (pairs.length === 0) throw new ConfigError(expected(where, "answers of at least two scores", `${row.answers[0]!.score} for all`));
  return pairs;
}

function labelFrom(row: z.output<typeof labelled>): ExampleRow {
  return { kind: "label", ...opening(row), answer: messagesFrom(row.completion, "assistant"), good: row.label };
}

function bothLabels({ chosen, rejected, ...row }: PairRow): ExampleRow[] {
  const one = (given: readonly Message[], good: boolean): ExampleRow => ({ ...row, kind: "label", answer: given, good });
  return [one(chosen, true), one(rejected, false)];
}

function turnsFrom(row: z.output<typeof turns>, where: string): ExampleRow {
  const count = row.messages.filter(({ role }) => role === "assistant").length;
  if (row.labels.length !== count)
    throw new ConfigError(expected(where, `${count} labels, one for each assistant message`, String(row.labels.length)));
  return { kind: "turns", messages: row.messages.map(messageFrom), tools: row.tools ?? [], labels: row.labels };
}

function stepsFrom(row: z.output<typeof steps>, where: string): ExampleRow {
  if (row.labels.length !== row.steps.length)
    throw new ConfigError(expected(where, `${row.steps.length} labels, one for each step`, String(row.labels.length)));
  return { kind: "steps", ...opening(row), steps: row.steps, labels: row.labels };
}
