/** Examples for the algorithms that learn from given ones: the opened policy's own answers to training questions, graded. */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openPolicy } from "../../src/compute/policy/open.ts";
import { collectGroups } from "../../src/train/collect.ts";
import { labelSteps, stepRows } from "../../src/train/process/label-steps.ts";
import type { Group, JsonObject, Message, Scored } from "../../src/types.ts";
import { environment, folder, model, rollout } from "./task.ts";

const tasksAsked = 256;

type Kind = "dialogues" | "pairs" | "labels" | "steps";
const kinds: Readonly<Record<string, Kind>> = {
  sft: "dialogues", kto: "labels", dpo: "pairs", orpo: "pairs", simpo: "pairs", "reward-model": "pairs",
  "process-reward-model": "steps",
};

/** The file for an algorithm; made once for all. */
export async function examplesFor(name: string): Promise<string> {
  const kind = kinds[name]!;
  const file = join(folder, `${kind}.jsonl`);
  if (!existsSync(file)) await writeAll();
  return file;
}

async function writeAll(): Promise<void> {
  await using policy = await openPolicy(model, {});
  await policy.engine.publish();
  const source = environment.tasks("train");
  const tasks = Array.from({ length: tasksAsked }, (_, i) => source.at(source.size - 1 - i));
  const options = { ...rollout, policy, seed: 0, step: 0, stage: "train", groupSize: 8, temperature: 1, deadlineSeconds: 300 } as const;
  const groups = await collectGroups(environment, tasks, options);
  const tools = environment.tools.map(({ spec }) => spec);
  mkdirSync(folder, { recursive: true });
  const write = (kind: Kind, rows: readonly object[]): void =>
    writeFileSync(join(folder, `${kind}.jsonl`), `${rows.map((row) => JSON.stringify({ ...row, tools })).join("\n")}\n`);
  write("dialogues", groups.flatMap(({ members }) => right(members).map(({ trajectory }) => ({ messages: trajectory.messages }))));
  write("labels", groups.flatMap((group) => group.members.flatMap((member) => labelOf(group, member))));
  write("pairs", groups.flatMap(pairsOf));
  const two = groups.flatMap(({ members }) => members.slice(0, 2));
  const labelled = await labelSteps(environment, two, { ...options, completions: 4, kind: "soft", steps: "turns" });
  write("steps", stepRows(labelled, "\n"));
}

const scoreOf = ({ verdict }: Scored): number | null => (verdict.type === "scored" ? verdict.score : null);
const right = (members: readonly Scored[]): Scored[] => members.filter((member) => scoreOf(member) === 1);

/** What came after the prompt. */
const answerOf = ({ task }: Group, { trajectory }: Scored): readonly Message[] => trajectory.messages.slice(task.prompt.length);

function labelOf(group: Group, member: Scored): JsonObject[] {
  const score = scoreOf(member);
  if (score === null) return [];
  return [{ prompt: group.task.prompt, completion: answerOf(group, member), label: score === 1 } as unknown as JsonObject];
}

/** Two pairs a task where there are right and wrong answers. */
function pairsOf(group: Group): JsonObject[] {
  const good = right(group.members);
  const bad = group.members.filter((member) => scoreOf(member) === 0);
  return good.slice(0, 2).flatMap((chosen, i) => {
    const rejected = bad[i];
    if (rejected === undefined) return [];
    return [{ prompt: group.task.prompt, chosen: answerOf(group, chosen), rejected: answerOf(group, rejected) } as unknown as JsonObject];
  });
}
