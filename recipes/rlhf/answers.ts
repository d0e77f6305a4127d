/** What is trained on: scripted answers of mixed quality for the first stage, and pairs of sampled answers with noisy labels. */
import { draw, type Draw } from "../../src/env/desk/draw.ts";
import { openPolicy } from "../../src/compute/policy/open.ts";
import { rng } from "../../src/random.ts";
import { collectGroups } from "../../src/train/collect.ts";
import type { Group, Message } from "../../src/types.ts";
import { gold, helpful, requestOf, type Request } from "./task.ts";

const filler: readonly string[] = ["All is well.", "We are here.", "That is the answer.", "I need more."];

/** Facts are mostly there and mostly right; greetings, thanks, filler and repetition come and go. */
export function scriptedAnswer({ facts, asked }: Request, random: Draw): string {
  const chance = (percent: number): boolean => random.range(1, 100) <= percent;
  const sentences: string[] = [];
  if (chance(30)) sentences.push("Hello.");
  for (const [field, value] of Object.entries(facts)) {
    if (!chance(asked.includes(field) ? 75 : 20)) continue;
    const said = chance(10) ? String(random.range(11, 98)) : value;
    sentences.push(`The ${field} is ${said}.`);
    if (chance(6)) sentences.push(sentences.at(-1)!);
  }
  while (chance(25)) sentences.push(random.pick(filler));
  if (chance(30)) sentences.push("Thank you.");
  return sentences.length === 0 ? random.pick(filler) : sentences.join(" ");
}

/** Dialogues of the train split's last tasks. */
export function scriptedDialogues(count: number): { readonly messages: readonly Message[] }[] {
  const source = helpful.tasks("train");
  return Array.from({ length: count }, (_, i) => {
    const task = source.at(source.size - 1 - (i % source.size));
    const content = scriptedAnswer(requestOf(task), draw(rng(0, "scripted", i)));
    return { messages: [...task.prompt, { role: "assistant", content }] };
  });
}

export interface Annotator {
  /** Share of labels that are turned round. */
  readonly noise: number;
  /** Gold that a word more is worth to the annotator, whatever it says. */
  readonly perWord: number;
}

type Annotating = Annotator & { readonly random: Draw };

/** Which of two answers the annotator prefers; `random` decides ties and flips. */
export function prefersFirst(answers: readonly [string, string], request: Request, options: Annotating): boolean {
  const { noise, perWord, random } = options;
  const worth = (answer: string): number => gold(answer, request).score + perWord * answer.split(/\s+/).length;
  const gap = worth(answers[0]) - worth(answers[1]);
  const isBetter = Math.abs(gap) < 1e-9 ? random.range(0, 1) === 0 : gap > 0;
  return random.range(1, 1000) <= 1000 * noise ? !isBetter : isBetter;
}

export interface LabelledPair {
  readonly prompt: readonly Message[];
  readonly chosen: readonly Message[];
  readonly rejected: readonly Message[];
}

/** Two answers of the fine-tuned model to each of `count` training prompts, labelled. Equal and empty answers make no pair. */
export async function sampledPairs(
  model: string,
  options: Annotator & { readonly count: number; readonly maxTokens: number },
): Promise<LabelledPair[]> {
  await using policy = await openPolicy(model, { train: { type: "none" }, maxRows: 128 });
  const source = helpful.tasks("train");
  const tasks = Array.from({ length: options.count }, (_, i) => source.at(i));
  const limits = { maxTokens: options.maxTokens, maxTurns: 1, concurrency: 128, temperature: 1, deadlineSeconds: 600 };
  const groups = await collectGroups(helpful, tasks, { ...limits, policy, seed: 7, stage: "train", step: 0, groupSize: 2 });
  return groups.flatMap((group, i) => labelled(group, { ...options, random: draw(rng(0, "annotator", i)) }));
}

export function labelled({ task, members }: Group, options: Annotating): LabelledPair[] {
  const said = members.map(({ trajectory }) => trajectory.messages.at(-1)!.content);
  const [first = "", second = ""] = said;
  if (first === second || first === "" || second === "") return [];
  const isFirst = prefersFirst([first, second], requestOf(task), options);
  const answer = (content: string): Message[] => [{ role: "assistant", content }];
  return [{ prompt: task.prompt, chosen: answer(isFirst ? first : second), rejected: answer(isFirst ? second : first) }];
}
