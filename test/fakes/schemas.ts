/** Random JSON schemas within what constrained decoding supports. */
import { integer, rng } from "../../src/random.ts";
import type { Json, JsonObject } from "../../src/types.ts";

/** The same schema for the same seed; at most three levels deep. */
export function randomSchema(seed: number): JsonObject {
  let drawn = 0;
  const key = rng(seed, "schema");
  const below = (bound: number): number => integer(key, bound, drawn++);
  const names = ["name", "größe", "a b", 'quo"te', "x"];
  const scalar = (): Json => ([true, null, below(100), -1.5, "text", "東京", ""] as const)[below(7)]!;
  const make = (depth: number): JsonObject => {
    switch (below(depth === 0 ? 6 : 9)) {
      case 0:
        return { type: "string", ...(below(2) === 0 ? {} : { minLength: below(3), maxLength: 3 + below(4) }) };
      case 1:
        return { type: "integer", ...([{}, { minimum: 0 }, { exclusiveMinimum: 0 }, { minimum: 1 }] as const)[below(4)]! };
      case 2:
        return { type: "number", ...(below(2) === 0 ? {} : { minimum: 0 }) };
      case 3:
        return { type: (["boolean", "null"] as const)[below(2)]! };
      case 4:
        return { enum: [...new Set(Array.from({ length: 1 + below(4) }, scalar))], title: "one of some" };
      case 5:
        return { const: below(2) === 0 ? scalar() : { a: [scalar()] } };
      case 6: {
        const least = below(3);
        return { type: "array", items: make(depth - 1), minItems: least, ...(below(2) === 0 ? {} : { maxItems: least + below(4) }) };
      }
      case 7:
        return { anyOf: Array.from({ length: 1 + below(3) }, () => make(depth - 1)) };
      default: {
        const keys = names.slice(0, below(names.length + 1));
        const properties = Object.fromEntries(keys.map((name) => [name, make(depth - 1)]));
        return { type: "object", properties, required: keys.filter(() => below(2) === 0), additionalProperties: below(2) === 0 };
      }
    }
  };
  return make(3);
}
