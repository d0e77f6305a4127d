/**
 * "The review": two agents that share one policy. A worker answers a sum, a checker who sees question and answer says whether it is
 * right, and the worker may answer once more. What the last answer is worth is both agents' reward.
 */
import { z } from "zod";
import { listOf, whole } from "../config-fields.ts";
import { scored } from "../errors.ts";
import { number } from "../loop/reward/verifiers/number.ts";
import { defineEnv } from "../loop/rollout/tool-env.ts";
import type { Env, JsonObject, Message, Split, Task, Turn } from "../types.ts";
import { readOptions } from "./options.ts";
import { sums } from "./sums.ts";

const agents = ["worker", "checker"] as const;
const CHECKER = "You check sums. Say right, or say wrong.";

const schema = z.strictObject({
  seed: whole({ min: 0, max: 2 ** 32 - 1 }, 0, "which sums"),
  digits: whole({ min: 1, max: 4 }, 2, "digits of the operands"),
  tries: whole({ min: 1, max: 8 }, 2, "answers that the worker may give"),
  trained: listOf(agents, agents, "whose turns are trained; the worker's always are").refine((names) => names.includes("worker"), {
    error: 'expected a list with "worker", who begins',
  }),
});

export type ReviewOptions = z.input<typeof schema>;

/** The review environment. Reward of all turns that are trained: 1 if the worker's last answer is right, else 0. */
export function review(options: ReviewOptions = {}, sizes?: { readonly [S in Split]: number }): Env {
  const { seed, digits, tries, trained } = readOptions("review", schema, options as JsonObject);
  const source = sums({ seed, digits: [digits, digits], ...(sizes === undefined ? {} : { sizes }) });
  const checks = trained.includes("checker");
  return defineEnv({
    name: "review",
    agent: "worker",
    tasks: (split) => {
      const tasks = source.tasks(split);
      return { size: tasks.size, at: (index) => ({ ...tasks.at(index), id: `review-${split}-${index}` }) };
    },
    respond: (answer, { task, state }) => {
      const question = task.prompt[0]!.content;
      const spoken = Number(state.get("spoken") ?? 0) + 1;
      state.set("spoken", spoken);
      if (spoken % 2 === 1) {
        // The worker has answered; nothing is left to check after the last try.
        if (spoken >= 2 * tries - 1) return { messages: [], done: true };
        const shown: Message = { role: "user", content: `${question}\nAnswer: ${answer}` };
        state.set("worker", answer);
        const prompt: Message[] = [{ role: "system", content: CHECKER }, shown];
        return { messages: [], done: false, next: { agent: "checker", prompt, trained: checks } };
      }
      if (!saysWrong(answer)) return { messages: [], done: true };
      const again: Message = { role: "user", content: `${question}\nNot ${String(state.get("worker"))}: a checker says that is wrong.` };
      return { messages: [], done: false, next: { agent: "worker", prompt: [...task.prompt.slice(0, -1), again] } };
    },
    reward: ({ task, turns }) => {
      const last = workers(turns).at(-1);
      const right = last !== undefined && turns.at(-1)?.parse === "answer" && isRight(task, last.message.content);
      return scored(right ? 1 : 0, `the worker's last answer is ${right ? "right" : "wrong"}`);
    },
    reference: ({ data }) => [JSON.stringify(data["answer"]), "right"].map((content): Message => ({ role: "assistant", content })),
    maxTurns: 2 * tries,
    measures: ({ task, turns }) => {
      const answers = workers(turns).map(({ message }) => isRight(task, message.content));
      const saved = answers.length > 1 && answers[0] === false && answers.at(-1) === true;
      return { answers: answers.length, firstRight: answers[0] === true ? 1 : 0, saved: saved ? 1 : 0 };
    },
  });
}

const byNumber = number();
function isRight(task: Task, content: string): boolean {
  const verdict = byNumber({ task, messages: [{ role: "assistant", content }], turns: [] });
  return verdict.type === "scored" && verdict.score === 1;
}

const saysWrong = (text: string): boolean => text.toLowerCase().includes("wrong");
const workers = (turns: readonly Turn[]): Turn[] => turns.filter(({ agent }) => agent === "worker");
