/** Exact equality of two short texts after normalising; never a substring, never a list that contains the answer. */
import { scored } from "../../../errors.ts";
import { afterMarker, answerReward, type AnswerReward } from "../final-answer.ts";
import { normaliseAnswer } from "./text.ts";

interface ExactTextOptions {
  /** Key of the task's data that holds the right text; default "answer". */
  readonly gold?: string;
  /** If the answer contains this (case ignored), only what follows its last occurrence is compared: "the answer is". */
  readonly after?: string;
}

/** Scores 1 if the final answer equals the gold text, else 0. A task without a gold text is unscorable. */
export function exactText({ gold = "answer", after }: ExactTextOptions = {}): AnswerReward {
  return answerReward((data) => {
    const wanted = data[gold];
    if (typeof wanted !== "string" || normaliseAnswer(wanted) === "") return { unscorable: `task data "${gold}" holds no text` };
    return (answer) => {
      const right = normaliseAnswer(afterMarker(answer, after)) === normaliseAnswer(wanted);
      return right ? scored(1, `is ${wanted}`) : scored(0, `is not ${wanted}`);
    };
  });
}
