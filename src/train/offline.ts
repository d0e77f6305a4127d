/** Offline training on given dialogues (supervised fine-tuning): the same run folder, checkpoints and schedule, no sampling. */
import { readFileSync } from "node:fs";
import { z } from "zod";
import type { ChatRenderer } from "../compute/text/renderer.ts";
import { ConfigError, expected, messageOf } from "../errors.ts";
import { encodeDialogue, supervisedBatch, type EncodedDialogue } from "../loop/batch/dialogue.ts";
import { tasksOfStep } from "../loop/prompt/order.ts";
import type { Message, OfflineAlgorithm, TaskSource } from "../types.ts";
import type { Evaluation } from "./evaluate/evaluate.ts";
import { StepKeeper, type RunContext } from "./keep.ts";
import { updatePolicy, updateMetrics } from "./update.ts";

interface OfflineRun extends RunContext {
  readonly algorithm: OfflineAlgorithm;
  readonly rows: readonly EncodedDialogue[];
}

const callSchema = z.looseObject({ id: z.string().optional(), name: z.string(), arguments: z.record(z.string(), z.json()) });
const rowSchema = z.looseObject({
  messages: z
    .array(
      z.looseObject({
        role: z.enum(["system", "user", "assistant", "tool"]),
        content: z.string().default(""),
        toolCalls: z.array(callSchema).optional(),
        reasoning: z.string().optional(),
        toolCallId: z.string().optional(),
        name: z.string().optional(),
      }),
    )
    .min(2),
  tools: z.array(z.looseObject({ name: z.string(), description: z.string(), parameters: z.record(z.string(), z.json()) })).optional(),
});

/** Reads dialogues `{messages, tools?}` from a JSONL file and encodes them; a bad row, or one longer than the context, is named. */
export function readDialogues(path: string, renderer: ChatRenderer, contextLength: number): EncodedDialogue[] {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (cause) {
    throw new ConfigError(expected(`data ${path}`, "a readable JSONL file", messageOf(cause)), { cause });
  }
  const rows = text.split("\n").flatMap((line, i) => {
    if (line.trim() === "") return [];
    const where = `${path} line ${i + 1}`;
    const encoded = dialogueRows(line, where, renderer);
    const long = encoded.find(({ ids }) => ids.length > contextLength);
    if (long === undefined) return encoded;
    throw new ConfigError(expected(where, `at most ${contextLength} tokens (the model's context)`, String(long.ids.length)));
  });
  if (rows.length === 0) throw new ConfigError(expected(`data ${path}`, "at least one dialogue", "none"));
  return rows;
}

function dialogueRows(line: string, where: string, renderer: ChatRenderer): EncodedDialogue[] {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (cause) {
    throw new ConfigError(expected(where, "a JSON object", messageOf(cause)), { cause });
  }
  const parsed = rowSchema.safeParse(value);
  if (!parsed.success) {
    const issue = parsed.error.issues[0]!;
    throw new ConfigError(
      expected(where, 'a dialogue {"messages": [{role, content}, ...]}', `${issue.path.join(".") || "the row"}: ${issue.message}`),
    );
  }
  const messages = parsed.data.messages.map(
    ({ role, content, toolCalls, reasoning, toolCallId, name }): Message => ({
      role,
      content,
      ...(toolCalls === undefined
        ? {}
        : {
            toolCalls: toolCalls.map((call, i) => ({
              id: call.id ?? `call-${i + 1}`,
              name: call.name,
              arguments: call.arguments,
            })),
          }),
      ...(reasoning === undefined ? {} : { reasoning }),
      ...(toolCallId === undefined ? {} : { toolCallId }),
      ...(name === undefined ? {} : { name }),
    }),
  );
  return encodeDialogue(renderer, { messages, tools: parsed.data.tools ?? [] }, where);
}

/** Trains until `config.train.steps` steps of `rollout.tasksPerStep` dialogues are committed. */
export async function trainOffline(offline: OfflineRun): Promise<Evaluation | undefined> {
  const { config, algorithm, rows, policy, run, signal } = offline;
  const places: TaskSource = { size: rows.length, at: (index) => ({ id: String(index), prompt: [], data: {} }) };
  const keeper = new StepKeeper(offline);
  await keeper.start();
  for (let step = run.lastStep + 1; step <= config.train.steps; step++) {
    const started = performance.now();
    const tasks = tasksOfStep(places, { seed: config.seed, step, count: config.rollout.tasksPerStep });
    const batch = supervisedBatch(tasks.map(({ id }) => rows[Number(id)]!), algorithm.reduction);
    const update = await updatePolicy(policy.engine, batch, {
      algorithm: { loss: algorithm.loss, epochsPerBatch: 1 },
      optim: config.optim,
      updates: step - 1,
      totalUpdates: config.train.steps,
      ...(signal === undefined ? {} : { signal }),
    });
    const seconds = (performance.now() - started) / 1000;
    const metrics = { step, ...updateMetrics(update), "batch/tokens": batch.scalars["tokens"]!, "seconds/update": seconds };
    await keeper.keep({
      step,
      tasks: tasks.map(({ id }) => `dialogue ${Number(id) + 1}`),
      rollouts: [],
      trajectories: [],
      update,
      metrics,
    });
  }
  return keeper.evaluation;
}
