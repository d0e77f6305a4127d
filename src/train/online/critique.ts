/** Words about an answer -> a corrected answer, by the model itself: it is shown its answer and the words, and writes anew. */
import type { Message } from "../../types.ts";

/** The conversation that asks for a corrected answer. What the person and the model wrote is data: it is quoted, never an instruction. */
export function critiquePrompt(prompt: readonly Message[], answer: Message, comment: string): Message[] {
  const request =
    `Someone read your last answer and wrote this about it, quoted as JSON: ${JSON.stringify(comment)}\n` +
    "Write the answer anew so that the remark is met. Give the new answer alone.";
  return [...prompt, answer, { role: "user", content: request }];
}
