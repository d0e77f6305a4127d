/** Parts of an OpenAPI document with their references filled in, as the JSON Schema that tools are described with. */
import { expected, ToolError } from "../../../errors.ts";
import type { Json, JsonObject } from "../../../types.ts";

/** Keywords that say nothing to a model or are none of JSON Schema. */
const DROPPED = ["example", "examples", "xml", "externalDocs", "discriminator", "nullable", "deprecated", "readOnly", "writeOnly"];

export const isObject = (value: Json | undefined): value is JsonObject =>
  value !== null && typeof value === "object" && !Array.isArray(value);

/** The object that is meant: itself, or what its `$ref` points to inside the document. */
export function resolved(document: JsonObject, value: Json | undefined, where: string): JsonObject {
  let at = value;
  for (let steps = 0; isObject(at) && typeof at["$ref"] === "string"; steps++) {
    const reference = at["$ref"];
    if (!reference.startsWith("#/") || steps > 20) {
      throw new ToolError(expected(`${where}: $ref`, "a reference inside the document", reference, "bundle the document into one file"));
    }
    const keys = reference.slice(2).split("/");
    const plain = keys.map((key) => decodeURIComponent(key).replaceAll("~1", "/").replaceAll("~0", "~"));
    at = plain.reduce<Json | undefined>((inner, key) => (isObject(inner) && Object.hasOwn(inner, key) ? inner[key] : undefined), document);
  }
  if (isObject(at)) return at;
  throw new ToolError(expected(where, "an object", JSON.stringify(value) ?? "nothing"));
}

/**
 * A schema of OpenAPI 3.0 or 3.1 as JSON Schema 2020-12 without references. Where a schema holds itself, the inner one accepts anything:
 * the service checks it.
 */
export function schemaOf(document: JsonObject, value: Json | undefined, where: string): JsonObject {
  const walk = (given: Json | undefined, above: ReadonlySet<JsonObject>): JsonObject => {
    if (given === true || given === undefined) return {};
    const schema = resolved(document, given, where);
    if (above.has(schema)) return {};
    const inside = new Set([...above, schema]);
    const walkAny = (inner: Json): Json =>
      Array.isArray(inner) ? inner.map((item: Json) => walkAny(item)) : isObject(inner) ? walk(inner, inside) : inner;
    const made: Record<string, Json> = {};
    for (const [key, inner] of Object.entries(schema)) {
      if (DROPPED.includes(key) || key.startsWith("x-")) continue;
      if (["properties", "$defs", "patternProperties"].includes(key) && isObject(inner))
        made[key] = Object.fromEntries(Object.entries(inner).map(([name, one]) => [name, walk(one, inside)]));
      else made[key] = ["enum", "const", "default", "required"].includes(key) ? inner : walkAny(inner);
    }
    // In 3.0 an exclusive limit is a flag beside the limit.
    for (const [flag, limit] of [["exclusiveMinimum", "minimum"], ["exclusiveMaximum", "maximum"]] as const) {
      const { [flag]: exclusive, [limit]: bound } = made;
      if (typeof exclusive !== "boolean") continue;
      delete made[flag];
      if (!exclusive || bound === undefined) continue;
      delete made[limit];
      made[flag] = bound;
    }
    return schema["nullable"] === true ? { anyOf: [made, { type: "null" }] } : made;
  };
  return walk(value, new Set());
}
