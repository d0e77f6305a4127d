/** The environments that a configuration can name. */
import { ConfigError, expected } from "../errors.ts";
import type { Env, JsonObject } from "../types.ts";
import { desk } from "./desk.ts";
import { sums, type SumsOptions } from "./sums.ts";

type EnvFactory = (options: JsonObject) => Env;

const environments: Readonly<Record<string, EnvFactory>> = {
  desk: (options) => {
    refuseUnknown("desk", options, ["seed"]);
    return desk({ seed: wholeOf(options, "seed", 0) });
  },
  sums: (options) => {
    refuseUnknown("sums", options, ["seed", "digits", "operators"]);
    const chosen = options["operators"] === undefined ? {} : { operators: options["operators"] as NonNullable<SumsOptions["operators"]> };
    return sums({ seed: wholeOf(options, "seed", 0), digits: wholeOf(options, "digits", 2), ...chosen });
  },
};

/** Makes the environment that a configuration names. */
export function openEnv({ name, ...options }: JsonObject & { readonly name: string }): Env {
  const factory = Object.hasOwn(environments, name) ? environments[name] : undefined;
  if (factory === undefined) throw new ConfigError(expected("env.name", `one of ${Object.keys(environments).join(", ")}`, name));
  return factory(options);
}

function wholeOf(options: JsonObject, key: string, fallback: number): number {
  const value = options[key] ?? fallback;
  if (typeof value === "number" && Number.isInteger(value) && value >= 0) return value;
  throw new ConfigError(expected(`env.${key}`, "an integer of 0 or more", JSON.stringify(value)));
}

function refuseUnknown(name: string, options: JsonObject, known: readonly string[]): void {
  const unknown = Object.keys(options).find((key) => !known.includes(key));
  if (unknown !== undefined) throw new ConfigError(expected(`env (${name})`, `options ${known.join(", ")}`, unknown));
}
