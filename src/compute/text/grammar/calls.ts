/** Turns with tool calls as grammars, in the dialects that carry calls as JSON between marks. */
import { ConfigError, expected } from "../../../errors.ts";
import type { Dialect } from "../dialects/dialect.ts";
import { choice, empty, literal, optional, reference, sequence, until, without, type Part } from "./grammar.ts";
import { colon, comma } from "./json.ts";

export interface CallableTool {
  readonly name: string;
  /** The grammar of its arguments. */
  readonly args: Part;
}

export interface CallRules {
  readonly tools: readonly CallableTool[];
  /** How many calls a turn may have: none, at most one, any number; a turn with `required` begins with a call. */
  readonly calls: "none" | "one" | "any";
  readonly required: boolean;
  /** What a turn without a call is, where that is not free text. */
  readonly answer?: Part;
}

/** How a dialect writes a call. */
interface CallForm {
  readonly open: string;
  readonly close: string;
  readonly key: string;
  /** Between two calls. */
  readonly between: Part;
  /** The opening mark is one that free text never has, so that text and calls can be told apart while sampling. */
  readonly marked: boolean;
}

const line = optional(literal("\n"));
const forms: Readonly<Record<string, CallForm>> = {
  hermes: { open: "<tool_call>", close: "</tool_call>", key: "arguments", between: line, marked: true },
  "llama3-json": { open: "", close: "", key: "parameters", between: literal("; "), marked: false },
};

/** Marks of the dialect that may be control tokens of the vocabulary. */
export const callMarks = (dialect: Dialect): readonly string[] => {
  const form = forms[dialect.name];
  return form === undefined ? [] : [form.open, form.close].filter((mark) => mark !== "");
};

/** The grammar of one turn. ConfigError where the dialect cannot be held to the rules while it is sampled. */
export function turnGrammar(dialect: Dialect, { tools, calls, required, answer }: CallRules): Part {
  const form = forms[dialect.name];
  const refuse = (): ConfigError =>
    new ConfigError(
      expected("tool_choice", "auto, with parallel calls and without strict tools", `other rules on the ${dialect.name} dialect`),
    );
  if (form === undefined || (!required && answer === undefined && !form.marked)) throw refuse();
  const one = choice(...tools.map((tool) => call(tool, form)));
  const [open, close] = [literal(form.open), literal(form.close)];
  const body = sequence(line, one, line, close);
  const more: Part =
    calls === "one"
      ? empty
      : choice(
          empty,
          sequence(
            form.between,
            open,
            body,
            reference(() => more),
          ),
        );
  const called = sequence(open, body, more);
  if (required) return called;
  if (answer !== undefined) return calls === "none" ? answer : choice(answer, called);
  // Free text, and a call wherever the text opens one.
  const text = without(form.open);
  return calls === "none" ? text : choice(text, sequence(until(form.open), body, more));
}

function call({ name, args }: CallableTool, { key }: CallForm): Part {
  return sequence(literal('{"name"'), colon, literal(JSON.stringify(name)), comma, literal(`"${key}"`), colon, args, literal("}"));
}
