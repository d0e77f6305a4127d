/** What `response_format`, `tool_choice`, `parallel_tool_calls` and strict tools ask of a turn, as a constraint on its tokens. */
import { Automaton } from "../../compute/text/grammar/automaton.ts";
import { callMarks, turnGrammar, type CallableTool, type CallRules } from "../../compute/text/grammar/calls.ts";
import { grammarConstraints, type GrammarConstraint } from "../../compute/text/grammar/constraint.ts";
import { literal, optional, sequence, until, type Part } from "../../compute/text/grammar/grammar.ts";
import { jsonSchemaGrammar } from "../../compute/text/grammar/json-schema.ts";
import { anyObject } from "../../compute/text/grammar/json.ts";
import { tokenTable, type TokenTable } from "../../compute/text/grammar/token-table.ts";
import type { ChatRenderer } from "../../compute/text/renderer.ts";
import type { ChatRequest } from "./requests.ts";

type MakeConstraint = () => GrammarConstraint;

/** Constraints of one model, kept for requests that ask the same again. */
export class TurnConstraints {
  readonly #renderer: ChatRenderer;
  readonly #known = new Map<string, MakeConstraint>();
  readonly #tables = new Map<boolean, TokenTable>();

  constructor(renderer: ChatRenderer) {
    this.#renderer = renderer;
  }

  /** Undefined where a turn is free. ApiError or ConfigError for what the model's dialect or the grammar cannot do. */
  of(request: ChatRequest): MakeConstraint | undefined {
    const { tools, strict, toolChoice, parallel, format } = request;
    const free = toolChoice.type === "auto" && parallel && strict.size === 0;
    if (format.type === "text" && (tools.length === 0 || free)) return undefined;
    const key = JSON.stringify([tools, [...strict], toolChoice, parallel, format]);
    let made = this.#known.get(key);
    if (made === undefined) {
      made = grammarConstraints(new Automaton(this.#turn(request)), this.#table(tools.length > 0), this.#renderer.stopIds);
      if (this.#known.size >= maxKnown) this.#known.delete(this.#known.keys().next().value!);
      this.#known.set(key, made);
    }
    return made;
  }

  /** The dialect's marks may be written where there are tools alone. */
  #table(marks: boolean): TokenTable {
    let table = this.#tables.get(marks);
    if (table === undefined) {
      table = tokenTable(this.#renderer.tokenizer, marks ? callMarks(this.#renderer.dialect) : []);
      this.#tables.set(marks, table);
    }
    return table;
  }

  /** A turn that begins inside a reasoning block is free until it closes it. */
  #turn(request: ChatRequest): Part {
    const grammar = this.#grammar(request);
    return this.#renderer.opensThinking ? sequence(until("</think>"), optional(literal("\n\n")), grammar) : grammar;
  }

  #grammar({ tools, strict, toolChoice, parallel, format }: ChatRequest): Part {
    const answer = formatGrammar(format);
    if (tools.length === 0 && answer !== undefined) return answer;
    const { dialect } = this.#renderer;
    const named = toolChoice.type === "named" ? tools.filter(({ name }) => name === toolChoice.name) : tools;
    const callable = named.map(({ name, parameters }, i): CallableTool => {
      return { name, args: strict.has(name) ? jsonSchemaGrammar(parameters, `tools.${i}.function.parameters`) : anyObject };
    });
    const rules: CallRules = {
      tools: callable,
      calls: toolChoice.type === "none" ? "none" : parallel && toolChoice.type !== "named" ? "any" : "one",
      required: toolChoice.type === "required" || toolChoice.type === "named",
      ...(answer === undefined ? {} : { answer }),
    };
    return turnGrammar(dialect, rules);
  }
}

/** Grammars that are kept. */
const maxKnown = 32;

function formatGrammar(format: ChatRequest["format"]): Part | undefined {
  switch (format.type) {
    case "text":
      return undefined;
    case "json":
      return anyObject;
    case "schema":
      return jsonSchemaGrammar(format.schema, "response_format.json_schema.schema");
  }
}
