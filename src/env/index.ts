/** The environments that a configuration can name. */
import { suggestion } from "../config-fields.ts";
import { ConfigError, expected } from "../errors.ts";
import type { Env, Json, JsonObject } from "../types.ts";
import { desk, type DeskOptions } from "./desk.ts";
import { lock } from "./lock.ts";
import { miniwob, type MiniwobOptions } from "./miniwob.ts";
import { sums, type SumsOptions } from "./sums.ts";

type EnvFactory = (options: JsonObject) => Env | Promise<Env>;

const environments: Readonly<Record<string, EnvFactory>> = {
  "boat-race": async (options) => (await import("./boat-race.ts")).boatRace(options),
  booking: async (options) => (await import("./booking.ts")).booking(options),
  dataset: async (options) => (await import("./dataset.ts")).datasetEnv(options),
  desk: (options) => {
    refuseUnknown("desk", options, ["seed", "kinds"]);
    const kinds = listOf(options, "kinds", "a list of kinds of questions");
    const chosen = kinds === undefined ? {} : { kinds: kinds as NonNullable<DeskOptions["kinds"]> };
    return desk({ seed: wholeOf(options, "seed", 0), ...chosen });
  },
  house: async (options) => (await import("./house.ts")).house(options),
  lock: (options) => {
    refuseUnknown("lock", options, ["seed", "steps", "choices", "tries", "hint"]);
    return lock(options);
  },
  miniwob: (options) => {
    refuseUnknown("miniwob", options, ["seed", "root", "families", "maxTurns", "timeLimit", "pages", "program"]);
    for (const key of ["root", "program"]) {
      const value = options[key];
      if (value !== undefined && typeof value !== "string") throw new ConfigError(expected(`env.${key}`, "a path", JSON.stringify(value)));
    }
    const families = listOf(options, "families", "a list of names");
    if (families?.some((name) => typeof name !== "string")) {
      throw new ConfigError(expected("env.families", "a list of names", JSON.stringify(families)));
    }
    const [maxTurns, timeLimit] = [wholeOf(options, "maxTurns", 12), wholeOf(options, "timeLimit", 300)];
    const [pages, seed] = [wholeOf(options, "pages", 8), wholeOf(options, "seed", 0)];
    return miniwob({ ...(options as MiniwobOptions), maxTurns, timeLimit, pages, seed });
  },
  repair: async (options) => (await import("./repair.ts")).repair(options),
  review: async (options) => (await import("./review.ts")).review(options),
  sums: (options) => {
    refuseUnknown("sums", options, ["seed", "digits", "operators", "calculator"]);
    const { calculator = false } = options;
    const digits = listOf(options, "digits", "two numbers from 1 to 4");
    const operators = listOf(options, "operators", 'a list of "+", "-", "*"');
    if (typeof calculator !== "boolean") throw new ConfigError(expected("env.calculator", "true or false", JSON.stringify(calculator)));
    return sums({
      seed: wholeOf(options, "seed", 0),
      calculator,
      ...(digits === undefined ? {} : { digits: digits as unknown as NonNullable<SumsOptions["digits"]> }),
      ...(operators === undefined ? {} : { operators: operators as NonNullable<SumsOptions["operators"]> }),
    });
  },
};

export const environmentNames: readonly string[] = Object.keys(environments);

/** Makes the environment that a configuration names. Throws a ConfigError for a name or an option that is none. */
export async function openEnv({ name, ...options }: JsonObject & { readonly name: string }): Promise<Env> {
  const factory = Object.hasOwn(environments, name) ? environments[name] : undefined;
  const got = `${name}${suggestion(name, environmentNames)}`;
  if (factory === undefined) throw new ConfigError(expected("env.name", `one of ${environmentNames.join(", ")}`, got));
  return factory(options);
}

function listOf(options: JsonObject, key: string, want: string): readonly Json[] | undefined {
  const value = options[key];
  if (value === undefined || Array.isArray(value)) return value as readonly Json[] | undefined;
  throw new ConfigError(expected(`env.${key}`, want, JSON.stringify(value)));
}

function wholeOf(options: JsonObject, key: string, fallback: number): number {
  const value = options[key] ?? fallback;
  if (typeof value === "number" && Number.isInteger(value) && value >= 0) return value;
  throw new ConfigError(expected(`env.${key}`, "an integer of 0 or more", JSON.stringify(value)));
}

function refuseUnknown(name: string, options: JsonObject, known: readonly string[]): void {
  const unknown = Object.keys(options).find((key) => !known.includes(key));
  if (unknown === undefined) return;
  throw new ConfigError(expected(`env (${name})`, `options ${known.join(", ")}`, `${unknown}${suggestion(unknown, known)}`));
}
