/** Verifiers by name with JSON options, for the command line and configurations. */
import { z } from "zod";
import { problemOf, suggestion } from "../../../config-fields.ts";
import { ConfigError, expected } from "../../../errors.ts";
import type { Json, JsonObject } from "../../../types.ts";
import { secondEngine } from "./math/choose.ts";
import type { Verifier } from "./verifier.ts";

interface Entry {
  readonly about: string;
  readonly options: z.ZodObject;
  readonly open: (options: JsonObject) => Promise<Verifier>;
}

/** One entry; the verifier's file is read when it is first asked for. */
function entry<Shape extends z.ZodRawShape>(
  about: string,
  shape: Shape,
  open: (options: z.output<z.ZodObject<Shape>>) => Promise<Verifier>,
): Entry {
  return { about, options: z.strictObject(shape), open: (options) => open(options as z.output<z.ZodObject<Shape>>) };
}

const seconds = z.number().positive().exactOptional();
const after = z.string().min(1).exactOptional();
const whole = z.int().positive().exactOptional();
const real = z.number().exactOptional();

const entries: Readonly<Record<string, Entry>> = {
  citations: entry(
    "quotations and numbered citations are in the given sources",
    { minWords: whole, least: whole, credit: z.enum(["fraction", "all"]).exactOptional() },
    async (options) => (await import("./citations.ts")).citations(options),
  ),
  code: entry(
    "programs by unit tests, in the sandbox",
    {
      language: z.enum(["python", "javascript", "typescript"]),
      module: z.string().exactOptional(),
      modules: z.array(z.string()).exactOptional(),
      framework: z.enum(["plain", "pytest", "node:test"]).exactOptional(),
      grade: z.enum(["all", "fraction"]).exactOptional(),
    },
    async (options) => (await import("./code.ts")).codeVerifier(options),
  ),
  graph: entry(
    "RDF triples (F1), SHACL conformance, SPARQL answers",
    { mode: z.enum(["triples", "shacl", "sparql"]).exactOptional(), seconds },
    async (options) => (await import("./graph.ts")).graph(options),
  ),
  judge: entry(
    "a language model's opinion by a rubric; the key is read from JUDGE_API_KEY",
    {
      rubric: z.string().min(1),
      baseUrl: z.string(),
      model: z.string(),
      mode: z.enum(["pointwise", "pairwise"]).exactOptional(),
      scale: whole,
      opinions: whole,
      limit: whole,
      seconds,
    },
    async ({ baseUrl, model, ...options }) => {
      const [{ judge }, { chatCompletions }] = await Promise.all([import("./judge.ts"), import("./chat-completions.ts")]);
      const key = process.env["JUDGE_API_KEY"];
      return judge({ ...options, complete: chatCompletions({ baseUrl, model, ...(key === undefined ? {} : { key }) }) });
    },
  ),
  "json-schema": entry(
    "JSON that satisfies a schema",
    { schema: (z.record(z.string(), z.json()) as z.ZodType<JsonObject>).exactOptional(), find: z.enum(["whole", "last"]).exactOptional() },
    async (options) => (await import("./json-schema.ts")).jsonSchema(options),
  ),
  lean: entry(
    "Lean 4 proofs, with a toolchain of this machine",
    { lean: z.string().exactOptional(), libraries: z.array(z.string()).exactOptional(), axioms: z.array(z.string()).exactOptional() },
    async (options) => (await import("./lean.ts")).leanVerifier(options),
  ),
  length: entry(
    "penalty for too short or too long",
    { unit: z.enum(["characters", "words"]).exactOptional(), least: real, most: real, slack: real },
    async (options) => (await import("./length.ts")).length(options),
  ),
  math: entry(
    "mathematical equivalence",
    {
      seconds,
      tolerance: real,
      symbols: z.enum(["real", "positive"]).exactOptional(),
      second: z.enum(["sympy", "wolfram-alpha"]).exactOptional(),
      python: z.string().exactOptional(),
    },
    async ({ second, python, ...options }) => {
      const engine = second === undefined ? {} : { second: secondEngine(second, python) };
      return (await import("./math.ts")).math({ ...options, ...engine });
    },
  ),
  molecule: entry(
    "molecules as SMILES: identity, validity, property targets",
    {
      mode: z.enum(["identity", "valid", "targets"]).exactOptional(),
      identity: z.enum(["stereo", "connectivity", "tautomer"]).exactOptional(),
      credit: z.enum(["fraction", "all"]).exactOptional(),
      after,
      python: z.string().exactOptional(),
      seconds,
    },
    async (options) => (await import("./molecule.ts")).molecule(options),
  ),
  quantity: entry(
    "numbers with units",
    { tolerance: real, unit: z.enum(["required", "optional"]).exactOptional(), after },
    async (options) => (await import("./quantity.ts")).quantity(options),
  ),
  repetition: entry("penalty for repeated passages", { words: whole, free: real }, async (options) =>
    (await import("./repetition.ts")).repetition(options),
  ),
  text: entry(
    "exact or normalised text, any of several",
    { match: z.enum(["exact", "normalised"]).exactOptional(), after },
    async (options) => (await import("./text.ts")).text(options),
  ),
  "tool-call": entry(
    "tool calls by structure",
    { order: z.enum(["strict", "any"]).exactOptional(), credit: z.enum(["all", "fraction"]).exactOptional() },
    async (options) => (await import("./tool-call.ts")).toolCall(options),
  ),
};

interface VerifierListing {
  readonly name: string;
  readonly about: string;
  readonly options: readonly string[];
}

export function listVerifiers(): readonly VerifierListing[] {
  return Object.entries(entries).map(([name, { about, options }]) => ({ name, about, options: Object.keys(options.shape) }));
}

/** Throws a ConfigError for a name or an option that does not exist, or a value that is none. */
export async function openVerifier(name: string, options: Json = {}): Promise<Verifier> {
  const found = Object.hasOwn(entries, name) ? entries[name] : undefined;
  const names = Object.keys(entries);
  if (found === undefined) throw new ConfigError(expected("verifier", `one of ${names.join(", ")}`, `${name}${suggestion(name, names)}`));
  const parsed = found.options.safeParse(options);
  if (!parsed.success) {
    const known = Object.keys(found.options.shape);
    const { path, want, got } = problemOf(parsed.error, options, known);
    throw new ConfigError(expected(`verifier ${name} ${path}`.trim(), want, got, `options are ${known.join(", ")}`));
  }
  return found.open(parsed.data as JsonObject);
}
