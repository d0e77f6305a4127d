/** Fields of the closed configuration: each refuses what it is not, naming what was expected, what was found and what it is for. */
import { z } from "zod";
import type { JsonObject } from "./types.ts";

interface Range {
  readonly above?: number;
  readonly min?: number;
  readonly below?: number;
  readonly max?: number;
}

/** A field with a default; `unwrap()` is the field without it. */
type Field<T> = z.ZodDefault<z.ZodType<T, T>>;

/** A finite number inside `range`. */
export function real(range: Range, fallback: number, about: string): Field<number> {
  return number(`a number ${rangeText(range)}`, (value) => Number.isFinite(value) && inRange(value, range), about).default(fallback);
}

/** An integer inside `range`. */
export function whole(range: Range, fallback: number, about: string): Field<number> {
  return number(`an integer ${rangeText(range)}`, (value) => Number.isSafeInteger(value) && inRange(value, range), about).default(fallback);
}

/** One of the given words; `"none"` is a word here, never a falsehood. */
export function oneOf<const T extends string>(words: readonly T[], fallback: T, about: string): Field<T> {
  const want = words.map((word) => `"${word}"`).join(" or ");
  return field((value): value is T => words.some((word) => word === value), want, about).default(fallback as z.core.util.NoUndefined<T>);
}

/** `true` or `false`; the strings "true" and "false" are refused. */
export function flag(fallback: boolean, about: string): Field<boolean> {
  return field((value) => typeof value === "boolean", "true or false", about).default(fallback);
}

/** A text that is given, with no default. */
export function text(pattern: RegExp, want: string, about: string): z.ZodType<string> {
  return field((value): value is string => typeof value === "string" && pattern.test(value), want, about);
}

export function listOf<const T extends string>(words: readonly T[], fallback: readonly T[], about: string): Field<readonly T[]> {
  const want = `a list of ${words.map((word) => `"${word}"`).join(", ")}, each at most once`;
  const ok = (value: unknown): value is readonly T[] =>
    Array.isArray(value) &&
    value.length > 0 &&
    new Set(value).size === value.length &&
    value.every((item) => words.some((word) => word === item));
  return field(ok, want, about).default(fallback);
}

/** An object with a name and JSON options that somebody else reads. */
export function namedOptions(about: string): z.ZodType<JsonObject & { readonly name: string }> {
  const ok = (value: unknown): value is JsonObject & { readonly name: string } => {
    const parsed = z.record(z.string(), z.json()).safeParse(value);
    return parsed.success && typeof parsed.data.name === "string" && parsed.data.name !== "";
  };
  return field(ok, 'an object with a "name" and JSON options', about);
}

/** A value as a person would write it, short. */
export function show(value: unknown): string {
  if (value === undefined) return "nothing";
  const shown = typeof value === "number" ? String(value) : (JSON.stringify(value) ?? typeof value);
  return shown.length > 60 ? `${shown.slice(0, 57)}...` : shown;
}

function number(want: string, ok: (value: number) => boolean, about: string): z.ZodType<number, number> {
  return field((value): value is number => typeof value === "number" && ok(value), want, about);
}

function field<T>(ok: (value: unknown) => value is T, want: string, about: string): z.ZodType<T, T> {
  return z.custom<T>(ok, { error: (issue) => `expected ${want}, got ${show(issue.input)}; ${about}` });
}

function inRange(value: number, { above = -Infinity, min = -Infinity, below = Infinity, max = Infinity }: Range): boolean {
  return value > above && value >= min && value < below && value <= max;
}

function rangeText({ above, min, below, max }: Range): string {
  const low = above !== undefined ? `above ${above}` : min !== undefined ? `of at least ${min}` : "";
  const high = below !== undefined ? `below ${below}` : max !== undefined ? `at most ${max}` : "";
  return [low, high].filter((part) => part !== "").join(" and ");
}

/** The candidate that a mistyped word is closest to, if it is close. */
export function nearest(key: string, candidates: readonly string[]): string | null {
  const scored = candidates.map((name) => ({ name, distance: editDistance(key.toLowerCase(), name.toLowerCase()) }));
  const best = scored.reduce((a, b) => (b.distance < a.distance ? b : a), { name: "", distance: Infinity });
  return best.distance <= Math.max(1, Math.floor(key.length / 3)) ? best.name : null;
}

/** Levenshtein distance. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next[j] = Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

/** ` (did you mean x?)` after a mistyped word, or nothing. */
export function suggestion(word: unknown, candidates: readonly string[]): string {
  const found = typeof word === "string" ? nearest(word, candidates) : null;
  return found === null ? "" : ` (did you mean ${found}?)`;
}

const TYPES: Readonly<Record<string, string>> = {
  string: "a text",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: "a list",
  object: "an object",
  record: "an object",
};

/** The first thing that is wrong with a value, in the words of every other message: where in it, what was expected, what is there. */
export function problemOf(
  { issues }: z.ZodError,
  value: unknown,
  known: readonly string[] = [],
): { readonly path: string; readonly want: string; readonly got: string } {
  const issue = issues[0]!;
  const found = issue.path.reduce<unknown>((at, key) => (typeof at === "object" && at !== null ? Reflect.get(at, key) : undefined), value);
  const path = issue.path.map((key) => (typeof key === "number" ? key + 1 : key)).join(" ");
  const problem = (want: string, words: readonly string[] = []) => ({ path, want, got: `${show(found)}${suggestion(found, words)}` });
  switch (issue.code) {
    case "unrecognized_keys":
      return { path, want: "a known key", got: `${issue.keys[0]!}${suggestion(issue.keys[0], known)}` };
    case "invalid_value":
      return problem(issue.values.map(String).join(" or "), issue.values.map(String));
    case "invalid_type":
      return problem(TYPES[issue.expected] ?? issue.expected);
    case "invalid_union":
      return problem("a text or messages");
    case "too_small": {
      const { origin, minimum, inclusive } = issue;
      const amount = inclusive === false ? `more than ${minimum}` : `at least ${minimum}`;
      return problem(origin === "string" ? "a text that is not empty" : origin === "array" ? `a list of ${amount}` : amount);
    }
    case "too_big":
      return problem(`${issue.inclusive === false ? "less than" : "at most"} ${issue.maximum}`);
    case "custom":
    case "invalid_element":
    case "invalid_format":
    case "invalid_key":
    case "not_multiple_of":
      return problem(issue.message);
  }
}
