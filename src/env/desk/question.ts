/** What a question of the desk is: its text, the calls that it needs, its answer. Types only. */
import type { Split } from "../../types.ts";
import type { Draw } from "./draw.ts";
import type { DeskRecord, Records } from "./records.ts";

/** What a question needs: a sum, a record, a record and then a sum, or no tool at all. */
export type QuestionKind = "calculator" | "lookup" | "chain" | "none";

/** One call that the question needs, and the result it gives. */
export interface NeededCall {
  readonly tool: "calculator" | "lookup";
  readonly arguments: Readonly<Record<string, string>>;
  readonly result: string;
}

export interface Question {
  readonly kind: QuestionKind;
  readonly text: string;
  readonly needs: readonly NeededCall[];
  readonly answer: string;
  readonly answerType: "number" | "text";
  /** The last assistant message of a right solution. */
  readonly final: string;
  readonly records: readonly DeskRecord[];
}

/** What a question is made from. */
export interface Setting extends Records {
  readonly split: Split;
}

export type Made = Pick<Question, "text" | "needs" | "answer" | "answerType"> & { readonly final?: string };

export type Maker = (random: Draw, setting: Setting) => Made;
