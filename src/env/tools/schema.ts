/** Checks arguments against a JSON Schema that somebody else wrote, and tells the model in one line what is wrong with them. */
import type { ErrorObject } from "ajv";
import { expected, messageOf, ToolError } from "../../errors.ts";
import type { Json, JsonObject, Tool } from "../../types.ts";

const MAX_FAULTS = 3;
/** Not checked here: a regular expression over a model's text has no limit of time. Whoever wrote the schema checks them. */
const UNCHECKED = ["pattern", "patternProperties", "format"];
/** With these, `properties` may not be all that there is. */
const COMPOSED = ["allOf", "anyOf", "oneOf", "$ref", "if", "patternProperties", "additionalProperties", "unevaluatedProperties"];

/**
 * The check of a tool's arguments: draft 7 where `$schema` says so, else draft 2020-12. An argument that a plain object schema does not
 * name is refused, also where the schema is silent about it. Throws `ToolError` for a schema that does not compile.
 */
export async function schemaCheck(tool: string, schema: JsonObject): Promise<Tool["validate"]> {
  const { $schema, ...given } = schema;
  if (given["type"] !== "object") {
    throw new ToolError(expected(`tool ${tool}: schema of its arguments`, '"type": "object"', JSON.stringify(given["type"] ?? "none")));
  }
  const old = typeof $schema === "string" && /draft-0[67]/.test($schema);
  const Ajv = old ? (await import("ajv")).Ajv : (await import("ajv/dist/2020.js")).Ajv2020;
  const ajv = new Ajv({ strict: false, allErrors: true, ownProperties: true, validateFormats: false, logger: false });
  const whole = COMPOSED.some((key) => key in given) ? given : { properties: {}, ...given, additionalProperties: false };
  try {
    const validate = ajv.compile(checkable(whole) as JsonObject);
    const known = Object.keys((whole as { properties?: object }).properties ?? {});
    return (args) => {
      if (validate(args) === true) return { ok: true, args };
      const faults = [...new Set((validate.errors ?? []).map((error) => faultOf(error, known)))];
      const more = faults.length > MAX_FAULTS ? `; and ${faults.length - MAX_FAULTS} more` : "";
      return { ok: false, reason: faults.slice(0, MAX_FAULTS).join("; ") + more };
    };
  } catch (cause) {
    throw new ToolError(`tool ${tool}: the schema of its arguments cannot be used: ${messageOf(cause)}`, { cause });
  }
}

/** The schema without what is not checked. Under `properties` and the like the keys are names and not keywords. */
function checkable(value: Json, named = false): Json {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return (value as readonly Json[]).map((inner) => checkable(inner));
  const entries = Object.entries(value as JsonObject).filter(([key]) => named || !UNCHECKED.includes(key));
  return Object.fromEntries(entries.map(([key, inner]) => [key, isData(key, named) ? inner : checkable(inner, holdsNames(key, named))]));
}

const isData = (key: string, named: boolean): boolean => !named && ["const", "enum", "default", "examples", "required"].includes(key);
const holdsNames = (key: string, named: boolean): boolean => !named && ["properties", "$defs", "definitions"].includes(key);

function faultOf({ instancePath, keyword, params, message = "is wrong" }: ErrorObject, known: readonly string[]): string {
  const where = instancePath.slice(1).replaceAll("/", ".");
  const detail = params as Readonly<Record<string, unknown>>;
  const within = (name: unknown): string => JSON.stringify(where === "" ? name : `${where}.${String(name)}`);
  switch (keyword) {
    case "additionalProperties":
      return `unknown argument ${within(detail["additionalProperty"])}${where === "" ? ` (allowed: ${known.join(", ") || "none"})` : ""}`;
    case "required":
      return `${within(detail["missingProperty"])} is missing`;
    case "enum":
      return `"${where}" must be one of ${(detail["allowedValues"] as unknown[]).map((value) => JSON.stringify(value)).join(", ")}`;
    case "const":
      return `"${where}" must be ${JSON.stringify(detail["allowedValue"])}`;
    default:
      return where === "" ? `the arguments ${message}` : `"${where}" ${message}`;
  }
}
