/** Exact equality of two short texts after normalising; never a substring, never a list that contains the answer. */
import { scored } from "../../../errors.ts";
import { afterMarker, answerReward, type AnswerReward } from "../final-answer.ts";

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
    if (typeof wanted !== "string" || normaliseText(wanted) === "") return { unscorable: `task data "${gold}" holds no text` };
    return (answer) => {
      const right = normaliseText(afterMarker(answer, after)) === normaliseText(wanted);
      return right ? scored(1, `is ${wanted}`) : scored(0, `is not ${wanted}`);
    };
  });
}

/** NFKC, lower case, one space between words; without quotes, asterisks or a colon before it, or those, a full stop or ! behind it. */
function normaliseText(text: string): string {
  const flat = text.normalize("NFKC").toLowerCase().replace(/\s+/g, " ");
  const before = /[\s"'`“”‘’*:]/u;
  const behind = /[\s"'`“”‘’*.!]/u;
  let start = 0;
  let end = flat.length;
  while (start < end && before.test(flat[start]!)) start++;
  while (end > start && behind.test(flat[end - 1]!)) end--;
  return flat.slice(start, end);
}
