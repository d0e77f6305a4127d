/** JSON against a JSON Schema, by Ajv: the gold is the schema, or a value that the answer must equal, or both. */
import { RewardError, expected, messageOf, scored } from "../../../errors.ts";
import { parseJsonPrefix, parseJsonStrict } from "../../../json.ts";
import type { Json, JsonObject, Verdict } from "../../../types.ts";
import { shown, unscorable, verifierOf, type Verifier } from "./verifier.ts";

export interface JsonSchemaOptions {
  /** The schema of every task. Without it the gold is the schema; with it the gold, if not null, is the value that must be equalled. */
  readonly schema?: JsonObject;
  /** "whole" (default): the answer is the JSON text, alone or in one code fence. "last": the last JSON object or array in it counts. */
  readonly find?: "whole" | "last";
}

const MAX_LENGTH = 1_000_000;
/** Schemas with patterns are refused: a regular expression over a model's text can run for ever. */
const PATTERNS = ["pattern", "patternProperties"];
/** Keywords whose members have names of the user's, and those whose value is data. */
const NAMED = ["properties", "$defs", "definitions", "dependentSchemas"];
const DATA = ["const", "enum", "default", "examples"];
/** Formats that are checked; a schema with another is refused. */
const FORMATS: Readonly<Record<string, (text: string) => boolean>> = {
  date: isDate,
  time: (text) => /^\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[-+]\d\d:\d\d)$/i.test(text),
  "date-time": (text) => isDate(text.slice(0, 10)) && /^[Tt ]$/.test(text[10] ?? "") && FORMATS["time"]!(text.slice(11)),
  email: (text) => text.length <= 254 && /^[^\s@]{1,64}@[^\s@.]+(?:\.[^\s@.]+)+$/.test(text),
  uri: (text) => /^[a-z][a-z0-9+.-]*:/i.test(text) && URL.canParse(text),
  uuid: (text) => /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i.test(text),
  ipv4: (text) => /^(?:\d{1,3}\.){3}\d{1,3}$/.test(text) && text.split(".").every((part) => Number(part) <= 255),
};

function isDate(text: string): boolean {
  const time = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN;
  return Number.isFinite(time) && new Date(time).toISOString().startsWith(text);
}

/** Scores 1 if the answer is JSON and satisfies the schema (and equals the gold value), else 0 with Ajv's first complaint. */
export function jsonSchema({ schema, find = "whole" }: JsonSchemaOptions = {}): Verifier {
  if (find !== "whole" && find !== "last") throw new RewardError(expected("json-schema verifier: find", '"whole" or "last"', String(find)));
  const compiled = new Map<string, Validator>();
  return verifierOf("json-schema", async ({ answer, gold }) => {
    const wanted = schema ?? gold;
    if (!isObject(wanted)) return unscorable("the gold is no JSON schema");
    const key = JSON.stringify(wanted);
    let validate = compiled.get(key);
    if (validate === undefined) {
      const made = await compile(wanted);
      if (typeof made === "string") return unscorable(`the schema cannot be used: ${made}`);
      validate = made;
      if (compiled.size >= 64) compiled.clear();
      compiled.set(key, made);
    }
    const value = read(answer, find);
    if (typeof value === "string") return scored(0, value);
    return verdictOf(value.value, validate, schema !== undefined && gold !== null ? gold : undefined);
  });
}

type Validator = (value: unknown) => string | null;

function verdictOf(value: Json, validate: Validator, equalTo: Json | undefined): Verdict {
  const complaint = validate(value);
  if (complaint !== null) return scored(0, shown(complaint, 200), { schema: 0 });
  if (equalTo === undefined) return scored(1, "satisfies the schema", { schema: 1 });
  const same = sameJson(value, equalTo);
  return scored(same ? 1 : 0, same ? "satisfies the schema and is the right value" : "satisfies the schema and is another value", {
    schema: 1,
    value: same ? 1 : 0,
  });
}

async function compile(schema: JsonObject): Promise<Validator | string> {
  const found = keysOf(schema).find((key) => PATTERNS.includes(key));
  if (found !== undefined) return `"${found}" is not supported, because a regular expression has no limit of time`;
  const { Ajv } = await import("ajv");
  try {
    const ajv = new Ajv({ strict: true, allowUnionTypes: true, allErrors: false, ownProperties: true, formats: FORMATS });
    const { $schema: _, ...rest } = schema;
    const validate = ajv.compile(rest);
    if ("$async" in schema) return "it is asynchronous";
    return (value) => (validate(value) === true ? null : ajv.errorsText(validate.errors, { dataVar: "the answer" }));
  } catch (cause) {
    return messageOf(cause);
  }
}

function keysOf(value: Json): string[] {
  if (value === null || typeof value !== "object") return [];
  if (Array.isArray(value)) return (value as readonly Json[]).flatMap(keysOf);
  return Object.entries(value as JsonObject).flatMap(([key, inner]) => {
    if (DATA.includes(key)) return [key];
    return [key, ...(NAMED.includes(key) && isObject(inner) ? Object.values(inner).flatMap(keysOf) : keysOf(inner))];
  });
}

function read(answer: string, find: "whole" | "last"): { readonly value: Json } | string {
  if (answer.length > MAX_LENGTH) return `the answer has more than ${MAX_LENGTH} characters`;
  const fence = /^\s*```(?:json)?\s*\n([\s\S]*?)\n?\s*```\s*$/.exec(answer);
  if (find === "whole") {
    try {
      return { value: parseJsonStrict(fence?.[1] ?? answer) };
    } catch (cause) {
      return `the answer is no JSON: ${shown(messageOf(cause), 120)}`;
    }
  }
  return lastJson(answer) ?? "there is no JSON object or array in the answer";
}

const MAX_STARTS = 2000;

/** The last top-level object or array; strings and inner values are skipped with the value that holds them. */
function lastJson(text: string): { readonly value: Json } | null {
  let last: { readonly value: Json } | null = null;
  let tries = 0;
  for (let at = 0; at < text.length && tries < MAX_STARTS; at++) {
    if (text[at] !== "{" && text[at] !== "[") continue;
    tries++;
    try {
      const { value, end } = parseJsonPrefix(text, at);
      last = { value };
      at = end - 1;
    } catch {
      // Not JSON from here; the next bracket may begin some.
    }
  }
  return last;
}

function isObject(value: Json): value is JsonObject {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

/** Equal as JSON: the order of keys does not count, the order of items does. */
export function sameJson(a: Json, b: Json): boolean {
  if (a === b) return true;
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object" || Array.isArray(a) !== Array.isArray(b)) return false;
  const [left, right] = [Object.entries(a), Object.entries(b)];
  return left.length === right.length && left.every(([key, value]) => Object.hasOwn(b, key) && sameJson(value, (b as JsonObject)[key]!));
}
