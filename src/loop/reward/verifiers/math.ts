/**
 * Whether an answer is mathematically the right one. The answer is found in the text (last box, "####", "answer is"), read by an own
 * reader, and compared exactly where both are rational, else by value to many digits in a worker with limits. What cannot be read is
 * never equal to anything but the same text. docs/verifiers/math.md has the policies.
 */
import { RewardError, expected, scored } from "../../../errors.ts";
import type { Json, Verdict } from "../../../types.ts";
import { sameAnswer } from "./math/compare.ts";
import { evaluateFormulas } from "./math/engine.ts";
import { extractAnswer } from "./math/extract.ts";
import type { Judgement, NumericOptions } from "./math/numeric.ts";
import { read, readingsOf, sameText } from "./math/read.ts";
import { formulaOf, type SecondEngine } from "./math/second.ts";
import { shown, unscorable, verifierOf, type Verifier, type VerifierInput } from "./verifier.ts";
import { WorkerLimitError } from "./worker-pool.ts";

export interface MathOptions {
  /** Seconds of computation for one grading; default 2. */
  readonly seconds?: number;
  /** Relative difference of two numbers that counts as equal; default 0: 0.333 is not 1/3. */
  readonly tolerance?: number;
  /** Values that free symbols take when formulas are compared; "positive" makes sqrt(x^2) equal x. Default "real". */
  readonly symbols?: "real" | "positive";
  /** Asked where the first engine cannot decide: `sympy()`, `wolframAlpha({ key })`. */
  readonly second?: SecondEngine;
}

/** Longer is no final answer. */
const MAX_LENGTH = 4000;

/**
 * Gold: the right answer as LaTeX or plain text, a number, a solution with its box, or a list of alternatives of which one is enough.
 * Scores 1 or 0. Unscorable: a gold that cannot be read, or a limit of time or memory.
 */
export function math(options: MathOptions = {}): Verifier {
  const { seconds = 2, tolerance = 0, symbols = "real" } = options;
  if (!(seconds > 0)) throw new RewardError(expected("math verifier: seconds", "above 0", String(seconds)));
  if (!(tolerance >= 0 && tolerance < 1)) throw new RewardError(expected("math verifier: tolerance", "0 to 1", String(tolerance)));
  return verifierOf("math", (input) => grade(input, { ...options, seconds, tolerance, symbols }));
}

type Settings = MathOptions & Required<Pick<MathOptions, "seconds" | "tolerance" | "symbols">>;

async function grade({ answer, gold, signal }: VerifierInput, settings: Settings): Promise<Verdict> {
  const golds = goldTexts(gold);
  if (golds.length === 0) return unscorable("the gold is no text, no number and no list of them");
  const stated = extractAnswer(answer);
  if (stated === null || stated.text.length > MAX_LENGTH) {
    const unread = golds.map((wanted) => read(wanted)).find((each) => typeof each === "string");
    if (unread !== undefined) return unscorable(`the gold cannot be read: ${unread}`);
    return scored(0, stated === null ? "the answer is empty" : `the stated answer has more than ${MAX_LENGTH} characters`);
  }
  const reasons: string[] = [];
  for (const wanted of golds) {
    const outcome = await against(wanted, stated.text, settings, signal);
    if (outcome.type === "equal") return scored(1, `"${shown(stated.text)}" is ${shown(wanted)}${outcome.by}`);
    if (outcome.type === "unscorable") reasons.push(outcome.reason);
    else if (golds.length === 1) return scored(0, `"${shown(stated.text)}" ${outcome.reason}`);
  }
  if (reasons.length > 0) return unscorable(reasons[0]!);
  return scored(0, `"${shown(stated.text)}" is none of the ${golds.length} right answers`);
}

function goldTexts(gold: Json): string[] {
  const all = Array.isArray(gold) ? (gold as readonly Json[]) : [gold];
  const texts = all.flatMap((each) =>
    typeof each === "number" ? [String(each)] : typeof each === "string" && each.trim() !== "" ? [each] : [],
  );
  return texts.length === all.length ? texts.map(goldText) : [];
}

/** A gold may be a whole solution: then its own answer counts. */
function goldText(text: string): string {
  return /\\(?:boxed|fbox)|####/.test(text) ? (extractAnswer(text)?.text ?? text) : text.trim();
}

type Outcome = { readonly type: "equal"; readonly by: string } | { readonly type: "different" | "unscorable"; readonly reason: string };

async function against(wanted: string, stated: string, settings: Settings, signal: AbortSignal | undefined): Promise<Outcome> {
  if (wanted.length > MAX_LENGTH) return { type: "unscorable", reason: `the gold has more than ${MAX_LENGTH} characters` };
  if (sameText(wanted, stated)) return { type: "equal", by: "" };
  const gold = read(wanted);
  if (typeof gold === "string") return { type: "unscorable", reason: `the gold "${shown(wanted)}" cannot be read: ${gold}` };
  const readings = readingsOf(stated, gold);
  if (typeof readings === "string") return { type: "different", reason: `cannot be read as mathematics: ${readings}` };
  let limit = "";
  let judged: Judgement = "different";
  for (const reading of readings) {
    try {
      judged = await sameAnswer(gold, reading, numericOptions(settings, signal));
    } catch (cause) {
      signal?.throwIfAborted();
      if (!(cause instanceof WorkerLimitError)) throw cause;
      [judged, limit] = ["unknown", `: ${cause.message}`];
    }
    if (judged === "equal") return { type: "equal", by: "" };
    if (judged === "unknown") break;
  }
  if (judged === "different") return { type: "different", reason: `is not ${shown(wanted)}` };
  const second = settings.second;
  const opinion = second === undefined ? null : await second.equal(formulaOf(gold.expr), formulaOf(readings[0]!.expr), signal);
  if (opinion === true) return { type: "equal", by: ` (${second!.name})` };
  if (opinion === false) return { type: "different", reason: `is not ${shown(wanted)} (${second!.name})` };
  return { type: "unscorable", reason: `cannot decide whether "${shown(stated)}" is ${shown(wanted)}${limit}` };
}

/** Computation time is shared by everything that one grading asks of the engine. */
function numericOptions({ seconds, tolerance, symbols }: Settings, signal: AbortSignal | undefined): NumericOptions {
  let left = seconds * 1000;
  return {
    tolerance,
    symbols,
    evaluate: async (formulas, precision) => {
      if (left <= 0) throw new WorkerLimitError(`no value within ${seconds} s`);
      const { values, milliseconds } = await evaluateFormulas(formulas, { precision, seconds: left / 1000, signal });
      left -= milliseconds;
      return values;
    },
  };
}
