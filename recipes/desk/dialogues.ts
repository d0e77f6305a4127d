/**
 * Supervised dialogues of the desk environment, played through the environment itself so that every tool result is a real one. They
 * are the warm-up before reinforcement learning and are right only in a stated share, to leave something to learn.
 */
import { draw } from "../../src/env/desk/draw.ts";
import { desk, questionOf } from "../../src/env/desk.ts";
import { playScripted } from "../../src/loop/rollout/scripted.ts";
import { permutation, rng } from "../../src/random.ts";
import type { Env, Message, ToolSpec } from "../../src/types.ts";
import { drawBehaviour, scriptOf, type Behaviour } from "./behaviours.ts";

export interface Dialogue {
  readonly messages: readonly Message[];
  readonly tools: readonly ToolSpec[];
  readonly taskId: string;
  readonly behaviour: Behaviour;
  /** The reward of the dialogue, 0 or 1. */
  readonly score: number;
}

export interface DialogueOptions {
  /** Share of dialogues without a mistake, 0 to 1. A model that learned them well scores about this. */
  readonly right?: number;
  /** Whose train split is used; a desk of another seed gives other questions about the same names. */
  readonly env?: Env;
}

/** `count` dialogues, a function of the seed; every train task is used once before one is used again. */
export async function dialogues(seed: number, count: number, { right = 0.55, env = desk() }: DialogueOptions = {}): Promise<Dialogue[]> {
  const source = env.tasks("train");
  const order = permutation(rng(seed, "dialogue order"), source.size);
  const tools = env.tools.map((tool) => tool.spec);
  const made: Dialogue[] = [];
  for (let i = 0; i < count; i++) {
    const task = source.at(order[i % order.length]!);
    const random = draw(rng(seed, "dialogue", i));
    const question = questionOf(task);
    const behaviour = drawBehaviour(random, question.kind, right);
    const { messages, verdict } = await playScripted(env, task, scriptOf(question, behaviour, random));
    made.push({ messages, tools, taskId: task.id, behaviour, score: verdict.type === "scored" ? verdict.score : 0 });
  }
  return made;
}
