/** An environment by the name of the package's, by JSON, or from a file that exports one or makes one. */
import { pathToFileURL } from "node:url";
import { openEnv } from "../../../env/index.ts";
import { ConfigError, EnvError, boundary, expected } from "../../../errors.ts";
import type { Env, JsonObject } from "../../../types.ts";
import { pathFrom } from "../ui/places.ts";

/** A name, or JSON with options: `{"name": "sums", "digits": [2, 2]}`. */
export function envOf(text: string): JsonObject & { readonly name: string } {
  if (!text.trimStart().startsWith("{")) return { name: text };
  try {
    const value = JSON.parse(text) as JsonObject;
    if (typeof value["name"] === "string") return { ...value, name: value["name"] };
  } catch {
    // said below
  }
  throw new ConfigError(expected("--env", 'a name, or JSON with a "name"', text.slice(0, 60)));
}

/** A .js, .mjs or .ts file (where Node reads it) exports an environment, or a function without arguments that makes one. */
export async function openNamed(text: string, cwd: string): Promise<Env> {
  if (!/\.[cm]?[jt]s$/.test(text)) return openEnv(envOf(text));
  const module = await boundary(EnvError, `environment ${text}`, () => import(pathToFileURL(pathFrom(cwd, text)).href) as Promise<object>);
  for (const value of Object.values(module)) {
    const made: unknown = typeof value === "function" ? await (value as () => unknown)() : value;
    if (isEnv(made)) return made;
  }
  const exported = Object.keys(module).join(", ") || "none";
  throw new EnvError(expected(`environment ${text}`, "an export that is an environment, or makes one", exported));
}

function isEnv(value: unknown): value is Env {
  return typeof value === "object" && value !== null && "tasks" in value && "start" in value && "reward" in value;
}
