/**
 * Knowledge graphs: triples that an answer states against the right ones (F1, blank nodes paired as well as can be), a graph that must
 * satisfy SHACL shapes, and SPARQL queries whose results must be those of the right query. No query reaches a network.
 */
import { RewardError, expected, messageOf, scored } from "../../../errors.ts";
import type { Json, JsonObject, Verdict } from "../../../types.ts";
import { sharedTriples } from "./graph/mapping.ts";
import { parseTurtle, withoutFence, type Triple } from "./graph/rdf.ts";
import { runGraphWork } from "./graph/worker.ts";
import { shown, unscorable, verifierOf, type Verifier, type VerifierInput } from "./verifier.ts";
import { WorkerLimitError } from "./worker-pool.ts";

export interface GraphOptions {
  /**
   * "triples" (default): gold is a Turtle text, the score is F1. "shacl": gold is { shapes, least } in Turtle, the score 1 if the graph
   * conforms and has at least `least` triples (default 1). "sparql": gold is { data, query } or { data, rows }, the answer a query.
   */
  readonly mode?: "triples" | "shacl" | "sparql";
  /** Of SHACL or SPARQL work; default 5. */
  readonly seconds?: number;
}

const MAX_QUERY = 20_000;
const MAX_ROWS = 5000;

export function graph({ mode = "triples", seconds = 5 }: GraphOptions = {}): Verifier {
  const grade = { triples, shacl, sparql }[mode] as ((input: VerifierInput, seconds: number) => Promise<Verdict>) | undefined;
  if (grade === undefined) throw new RewardError(expected("graph verifier: mode", '"triples", "shacl" or "sparql"', String(mode)));
  if (!(seconds > 0)) throw new RewardError(expected("graph verifier: seconds", "above 0", String(seconds)));
  return verifierOf("graph", async (input) => {
    try {
      return await grade(input, seconds);
    } catch (cause) {
      if (cause instanceof WorkerLimitError) return unscorable(`cannot decide: ${cause.message}`);
      throw cause;
    }
  });
}

async function triples({ answer, gold }: VerifierInput): Promise<Verdict> {
  const wanted = typeof gold === "string" ? await parseTurtle(gold) : "no text";
  if (typeof wanted === "string") return unscorable(`the gold is no Turtle: ${shown(wanted, 120)}`);
  if (wanted.length === 0) return unscorable("the gold has no triples");
  const given = await parseTurtle(answer);
  if (typeof given === "string") return scored(0, `the answer is no Turtle: ${shown(given, 120)}`);
  return f1(wanted, given);
}

function f1(wanted: readonly Triple[], given: readonly Triple[]): Verdict {
  if (given.length === 0) return scored(0, "the answer has no triples", { precision: 0, recall: 0 });
  const shared = sharedTriples(wanted, given);
  if (shared === null) return unscorable("the blank nodes of the answer have too many possible pairings");
  const [precision, recall] = [shared / given.length, shared / wanted.length];
  const score = (2 * shared) / (given.length + wanted.length);
  return scored(score, `${shared} of ${wanted.length} triples are right, ${given.length} were stated`, { precision, recall });
}

async function shacl({ answer, gold, signal }: VerifierInput, seconds: number): Promise<Verdict> {
  const { shapes, least = 1 } = typeof gold === "string" ? { shapes: gold } : ((gold ?? {}) as { shapes?: Json; least?: Json });
  if (typeof shapes !== "string" || typeof least !== "number")
    return unscorable('the gold is no text of shapes and no { "shapes", "least" }');
  const read = await parseTurtle(shapes);
  if (typeof read === "string") return unscorable(`the shapes are no Turtle: ${shown(read, 120)}`);
  const unsupported = read.find(({ predicate }) => /shacl#(?:sparql|js|select|rule)>$/.test(predicate));
  if (unsupported !== undefined) return unscorable(`the shapes use ${unsupported.predicate}, which is not supported`);
  if (!read.some(({ predicate }) => predicate.startsWith("<http://www.w3.org/ns/shacl#"))) return unscorable("the gold has no shapes");
  const given = await parseTurtle(answer);
  if (typeof given === "string") return scored(0, `the answer is no Turtle: ${shown(given, 120)}`);
  if (given.length < least) return scored(0, `the answer has ${given.length} triples, fewer than ${least}`);
  const { conforms, results } = (await runGraphWork({ type: "shacl", shapes, data: withoutFence(answer) }, { seconds, signal })) as {
    readonly conforms: boolean;
    readonly results: readonly (readonly [string, string, string])[];
  };
  if (conforms) return scored(1, `${given.length} triples conform to the shapes`);
  const [node, path, message] = results[0] ?? ["", "", "no message"];
  return scored(0, `does not conform: ${shown(`${node} ${path} ${message}`, 200)}`);
}

type Found =
  | { readonly type: "boolean"; readonly value: boolean }
  | { readonly type: "rows"; readonly rows: readonly Readonly<Record<string, string>>[] }
  | { readonly type: "triples"; readonly triples: readonly Triple[] }
  | { readonly type: "many" };

async function sparql({ answer, gold, signal }: VerifierInput, seconds: number): Promise<Verdict> {
  if (gold === null || typeof gold !== "object" || Array.isArray(gold)) return unscorable('the gold is no { "data", "query" }');
  const { data, query, rows, ordered = false } = gold as JsonObject;
  if (typeof data !== "string" || typeof ordered !== "boolean") return unscorable("the gold has no data in Turtle");
  const run = async (text: string): Promise<Found | string> => {
    try {
      return (await runGraphWork({ type: "sparql", data, query: text, limit: MAX_ROWS }, { seconds, signal })) as unknown as Found;
    } catch (cause) {
      signal?.throwIfAborted();
      if (cause instanceof WorkerLimitError) throw cause;
      return messageOf(cause);
    }
  };
  const wanted: Found | string = typeof query === "string" ? await run(query) : rowsOf(rows);
  if (typeof wanted === "string") return unscorable(`the gold cannot be used: ${shown(wanted, 120)}`);
  const text = withoutFence(answer).trim();
  if (text === "" || text.length > MAX_QUERY)
    return scored(0, text === "" ? "the answer is empty" : `a query of more than ${MAX_QUERY} characters`);
  const given = await run(text);
  if (typeof given === "string") return scored(0, `the query failed: ${shown(given, 120)}`);
  return sameFound(wanted, given, ordered);
}

function rowsOf(rows: Json | undefined): Found | string {
  if (!Array.isArray(rows)) return 'neither "query" nor "rows"';
  const read = (rows as readonly Json[]).every(
    (row) => row !== null && typeof row === "object" && Object.values(row).every((term) => typeof term === "string"),
  );
  return read ? { type: "rows", rows: rows as unknown as Record<string, string>[] } : '"rows" are no objects of terms';
}

function sameFound(wanted: Found, given: Found, ordered: boolean): Verdict {
  if (wanted.type === "many" || given.type === "many") {
    return wanted.type === "many"
      ? unscorable(`the right query gives more than ${MAX_ROWS} rows`)
      : scored(0, `the query gives more than ${MAX_ROWS} rows`);
  }
  if (wanted.type === "boolean" || given.type === "boolean") {
    const same = wanted.type === "boolean" && given.type === "boolean" && wanted.value === given.value;
    return scored(same ? 1 : 0, same ? "the same truth value" : "another truth value or none");
  }
  if (wanted.type === "triples" || given.type === "triples") {
    const [a, b] = [wanted, given].map((found) => (found.type === "triples" ? found.triples : [])) as [
      readonly Triple[],
      readonly Triple[],
    ];
    return a.length === 0 ? unscorable("the right query gives no triples") : f1(a, b);
  }
  const names = (rows: readonly Readonly<Record<string, string>>[]): string => [...new Set(rows.flatMap(Object.keys))].sort().join(" ");
  const byName = names(wanted.rows) === names(given.rows);
  const [a, b] = [wanted, given].map(({ rows }) => rows.map((row) => rowText(row, byName))) as [string[], string[]];
  if (!ordered) for (const list of [a, b]) list.sort();
  const same = a.length === b.length && a.every((row, i) => row === b[i]);
  return scored(same ? 1 : 0, same ? `the same ${a.length} rows` : `other rows: ${b.length} where ${a.length} are right`);
}

/** By the names of the variables where both queries use the same ones, else by their order; a blank node is only that it is one. */
function rowText(row: Readonly<Record<string, string>>, byName: boolean): string {
  const cells = Object.entries(row).map(([name, term]) => [byName ? name : "", term.startsWith("_:") ? "_:" : term] as const);
  return JSON.stringify(byName ? cells.sort(([a], [b]) => (a < b ? -1 : 1)) : cells);
}
