/** Grammars of JSON schemas: what they accept, what they refuse, and that every walk through one satisfies its schema. */
import { Ajv } from "ajv";
import { describe, expect, test } from "vitest";
import { Automaton, type State } from "../../../../src/compute/text/grammar/automaton.ts";
import { grammarConstraints } from "../../../../src/compute/text/grammar/constraint.ts";
import { jsonSchemaGrammar } from "../../../../src/compute/text/grammar/json-schema.ts";
import { anyObject } from "../../../../src/compute/text/grammar/json.ts";
import { tokenTable } from "../../../../src/compute/text/grammar/token-table.ts";
import { integer, rng } from "../../../../src/random.ts";
import type { JsonObject } from "../../../../src/types.ts";
import { randomSchema } from "../../../fakes/schemas.ts";
import { tinyTokenizer } from "../../../fakes/tiny-tokenizer.ts";

const automatonOf = (schema: JsonObject): Automaton => new Automaton(jsonSchemaGrammar(schema, "schema"));

/** Whether the grammar takes the text from its first byte to an end. */
function accepts(automaton: Automaton, text: string | Uint8Array): boolean {
  let state: State | null = automaton.start;
  for (const byte of typeof text === "string" ? new TextEncoder().encode(text) : text) {
    state = automaton.step(state, byte);
    if (state === null) return false;
  }
  return state.complete;
}

const cases: readonly (readonly [JsonObject, readonly string[], readonly string[]])[] = [
  [{ type: "string" }, ['""', '"a b"', '"\\n\\u00e9"', '"東京 😀"'], ['"', '"a', '"\n"', '"\\x"', '"\\ud83d"', "a", ' "a"']],
  [{ type: "string", minLength: 2, maxLength: 3 }, ['"ab"', '"é😀x"'], ['"a"', '"abcd"']],
  [{ type: "integer" }, ["0", "-7", "120"], ["01", "1.0", "-", "1e3", "+1", "1234567890123456"]],
  [{ type: "integer", minimum: 0 }, ["0", "7"], ["-7", "-0"]],
  [{ type: "integer", exclusiveMinimum: 0 }, ["1", "70"], ["0", "-1"]],
  [{ type: "number" }, ["0", "-1.5", "2e10", "3.25E-4"], [".5", "1.", "1e", "NaN"]],
  [{ type: ["boolean", "null"] }, ["true", "false", "null"], ["True", "0", '"true"']],
  [{ const: { a: [1, "x"] } }, ['{"a":[1,"x"]}'], ['{"a":[1]}', '{"a":[1,"x"]} ']],
  [{ type: "string", enum: ["red", "blue", 3] }, ['"red"', '"blue"'], ["3", '"green"']],
  [{ type: "array", items: { type: "integer" }, minItems: 1, maxItems: 3 }, ["[1]", "[1, 2,3]"], ["[]", "[1,2,3,4]", "[1,]", "[1  ,2]"]],
  [{ type: "array", items: { type: "null" } }, ["[]", "[null,null,null,null]"], ["[nul]", "[null"]],
  [
    { type: "object", properties: { a: { type: "integer" }, b: { type: "string" } }, required: ["a"], additionalProperties: false },
    ['{"a":1}', '{"a": 1, "b": ""}'],
    ["{}", '{"b":""}', '{"b":"","a":1}', '{"a":1,"a":1}', '{"a":1,"c":1}'],
  ],
  [{ type: "object", properties: { a: true, b: true } }, ["{}", '{"a":[{"x":null}]}', '{"b":1}'], ['{"b":1,"a":1}', "{,}"]],
  [{ type: "object", additionalProperties: { type: "boolean" } }, ["{}", '{"x":true,"y":false}'], ['{"x":1}']],
  [{ type: "object", properties: {}, required: ["k"] }, ['{"k":1}'], ["{}"]],
  [{ anyOf: [{ type: "integer" }, { type: "array", items: { type: "string" } }] }, ["3", '["a"]'], ["true", "[3]"]],
  [
    {
      $ref: "#/$defs/tree",
      $defs: { tree: { type: "object", properties: { next: { $ref: "#/$defs/tree" } }, additionalProperties: false } },
    },
    ["{}", '{"next":{"next":{}}}'],
    ['{"next":1}'],
  ],
];

test.each(cases)("%j", (schema, good, bad) => {
  const automaton = automatonOf(schema);
  expect(good.filter((text) => !accepts(automaton, text))).toEqual([]);
  expect(bad.filter((text) => accepts(automaton, text))).toEqual([]);
});

test("bytes that are no UTF-8 are never part of a string", () => {
  const automaton = automatonOf({ type: "string" });
  for (const bytes of [[0x80], [0xc0, 0xaf], [0xe0, 0x80, 0x80], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xff], [0xc3]]) {
    expect(accepts(automaton, Uint8Array.from([0x22, ...bytes, 0x22]))).toBe(false);
  }
});

test.each([
  [{ type: "string", pattern: "^a" }, /schema\.pattern/],
  [{ type: "string", format: "email" }, /schema\.format/],
  [{ type: "object", properties: { a: { type: "integer", minimum: 3 } } }, /schema\.properties\.a\.minimum/],
  [{ type: "array", items: { allOf: [] } }, /schema\.items/],
  [{ type: "array", uniqueItems: true }, /uniqueItems/],
  [{ oneOf: [{ type: "null" }] }, /oneOf|type/],
  [{ type: "text" }, /schema\.type/],
  [{ $ref: "https://example.org/x" }, /\$ref/],
  [{ $ref: "#/$defs/none" }, /place that is there/],
  [{ type: "string", enum: [1, 2] }, /a value of type string/],
  [{ type: "array", minItems: 4, maxItems: 2 }, /minItems/],
  [{ type: "string", maxLength: 100_000 }, /maxLength/],
] as const)("%j is refused by its place", (schema, message) => {
  expect(() => automatonOf(schema as unknown as JsonObject)).toThrow(message);
});

describe("random walks over tokens", () => {
  const tokenizer = tinyTokenizer();
  const table = tokenTable(tokenizer, []);
  const end = tokenizer.eosIds[0]!;

  /** Draws uniformly among what is allowed; what an untrained model would say, or worse. */
  function walk(automaton: Automaton, budget: number, seed: number): { text: string; tokens: number; cut: boolean } {
    const constraint = grammarConstraints(automaton, table, [end])();
    const ids: number[] = [];
    for (let left = budget; left > 0; left--) {
      const mask = new Uint8Array(table.size);
      constraint.allow(mask, left);
      const allowed = [...mask.keys()].filter((id) => mask[id] === 1);
      const id = allowed[integer(rng(seed, "walk"), allowed.length, left)]!;
      constraint.accept(id);
      ids.push(id);
      if (id === end) return { text: tokenizer.decode(ids.slice(0, -1)), tokens: ids.length, cut: constraint.cut };
    }
    throw new Error(`not at an end after ${budget} tokens: ${tokenizer.decode(ids)}`);
  }

  test("every text of 200 random schemas parses, satisfies the schema and ends within the token limit", () => {
    const ajv = new Ajv({ strict: false });
    let cut = 0;
    for (let seed = 0; seed < 200; seed++) {
      const schema = randomSchema(seed);
      const automaton = automatonOf(schema);
      const valid = ajv.compile(schema);
      for (const budget of [automaton.start.distance + 1, automaton.start.distance + 40, 400]) {
        const found = walk(automaton, budget, seed);
        cut += Number(found.cut);
        expect(valid(JSON.parse(found.text)), `${JSON.stringify(schema)}: ${found.text}`).toBe(true);
      }
    }
    expect(cut).toBeGreaterThan(200);
  });

  test("a limit below the shortest text is refused with the number that it takes", () => {
    const schema = { type: "object", properties: { answer: { type: "integer" } }, required: ["answer"], additionalProperties: false };
    const constraint = grammarConstraints(automatonOf(schema), table, [end])(); // {"answer":0} is 12 bytes, and the end of turn
    expect(() => constraint.allow(new Uint8Array(table.size), 12)).toThrow("max_tokens: expected at least 13 tokens");
  });

  test("any object, whatever is in it, parses", () => {
    const automaton = new Automaton(anyObject);
    for (let seed = 0; seed < 40; seed++) expect(typeof JSON.parse(walk(automaton, 60, seed).text)).toBe("object");
  });
});
