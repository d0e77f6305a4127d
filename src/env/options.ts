/** Options of an environment, as a configuration has them: read by a closed schema, refused by name. */
import type { z } from "zod";
import { ConfigError, expected } from "../errors.ts";
import type { JsonObject } from "../types.ts";

/** The options with their defaults. Throws a ConfigError that names the key. */
export function readOptions<Shape extends z.ZodRawShape>(
  name: string,
  schema: z.ZodObject<Shape, z.core.$strict>,
  options: JsonObject,
): z.output<z.ZodObject<Shape, z.core.$strict>> {
  const parsed = schema.safeParse(options, { reportInput: true });
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0]!;
  if (issue.code === "unrecognized_keys") {
    throw new ConfigError(expected(`env (${name})`, `options ${Object.keys(schema.shape).join(", ")}`, issue.keys.join(", ")));
  }
  throw new ConfigError(`${["env", ...issue.path].join(".")}: ${issue.message}`);
}
