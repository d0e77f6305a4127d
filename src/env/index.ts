/** The environments that a configuration can name. */
import { ConfigError, expected } from "../errors.ts";
import type { Env, JsonObject } from "../types.ts";
import { desk } from "./desk.ts";

type EnvFactory = (options: JsonObject) => Env;

const environments: Readonly<Record<string, EnvFactory>> = {
  desk: (options) => {
    refuseUnknown("desk", options, ["seed"]);
    const seed = options["seed"] ?? 0;
    if (typeof seed !== "number" || !Number.isInteger(seed) || seed < 0) throw new ConfigError(expected("env.seed", "an integer of 0 or more", JSON.stringify(seed)));
    return desk({ seed });
  },
};

/** Makes the environment that a configuration names. */
export function openEnv({ name, ...options }: JsonObject & { readonly name: string }): Env {
  const factory = Object.hasOwn(environments, name) ? environments[name] : undefined;
  if (factory === undefined) throw new ConfigError(expected("env.name", `one of ${Object.keys(environments).join(", ")}`, name));
  return factory(options as JsonObject);
}

function refuseUnknown(name: string, options: JsonObject, known: readonly string[]): void {
  const unknown = Object.keys(options).find((key) => !known.includes(key));
  if (unknown !== undefined) throw new ConfigError(expected(`env (${name})`, `options ${known.join(", ")}`, unknown));
}
