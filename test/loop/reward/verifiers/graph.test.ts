import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { graph } from "../../../../src/loop/reward/verifiers/graph.ts";
import { sharedTriples } from "../../../../src/loop/reward/verifiers/graph/mapping.ts";
import { parseTurtle, type Triple } from "../../../../src/loop/reward/verifiers/graph/rdf.ts";
import type { Json } from "../../../../src/types.ts";

interface Pair {
  readonly gold: string;
  readonly answer: string;
  readonly isomorphic: boolean;
  readonly shared: number;
  readonly triples: readonly [number, number];
}
const golden = JSON.parse(readFileSync("test/golden/graphs.json", "utf8")) as {
  readonly pairs: readonly Pair[];
  readonly different: readonly Pair[];
  readonly shapes: string;
  readonly shacl: readonly { readonly answer: string; readonly conforms: boolean }[];
  readonly data: string;
  readonly queries: readonly { readonly query: string; readonly rows: readonly Readonly<Record<string, string>>[] }[];
};
const triples = async (text: string) => (await parseTurtle(text)) as readonly Triple[];
const verify = async (mode: "triples" | "shacl" | "sparql", answer: string, gold: Json) => {
  const verdict = await graph({ mode, seconds: 20 }).verify({ answer, gold });
  return verdict.type === "scored" ? verdict.score : `${verdict.type}: ${verdict.reason}`;
};

test("shared triples and isomorphism are RDFLib's, blank nodes included", async () => {
  for (const { gold, answer, isomorphic, shared, triples: sizes } of golden.pairs) {
    const [wanted, given] = [await triples(gold), await triples(answer)];
    expect([gold, answer, wanted.length, given.length]).toEqual([gold, answer, ...sizes]);
    const found = sharedTriples(wanted, given);
    expect([gold, answer, found]).toEqual([gold, answer, shared]);
    expect([gold, answer, found === sizes[0] && found === sizes[1]]).toEqual([gold, answer, isomorphic]);
    const f1 = (2 * shared) / (sizes[0] + sizes[1]);
    expect(await verify("triples", answer, gold)).toBeCloseTo(f1, 12);
  }
  expect(golden.pairs.length).toBeGreaterThanOrEqual(78);
});

test("the stated differences to RDFLib: literals as they are written, language tags in any case", async () => {
  const cases = golden.different.map(({ gold, answer, isomorphic }) => ({ gold: gold.split("\n")[1], isomorphic, answer, whole: gold }));
  expect(cases.map(({ gold, isomorphic }) => [gold, isomorphic])).toEqual([
    [':a :p "x"^^xsd:string .', false],
    [':a :p "x"@en .', false],
    [':a :p "01"^^xsd:integer .', true],
    [':a :p "1.0"^^xsd:decimal .', false],
  ]);
  expect(await Promise.all(cases.map(({ answer, whole }) => verify("triples", answer, whole)))).toEqual([1, 1, 0, 0]);
});

test("SHACL conformance is pySHACL's", async () => {
  for (const { answer, conforms } of golden.shacl) {
    expect([answer, await verify("shacl", answer, golden.shapes)]).toEqual([answer, conforms ? 1 : 0]);
  }
  expect(await verify("shacl", "", golden.shapes)).toBe(0);
  expect(await verify("shacl", golden.shacl[0]!.answer, { shapes: golden.shapes, least: 4 })).toBe(0);
  const js = `${golden.shapes}\n<http://example.org/S> <http://www.w3.org/ns/shacl#sparql> [] .`;
  expect(await verify("shacl", golden.shacl[0]!.answer, js)).toMatch(
    /^unscorable: the shapes use <.*shacl#sparql>, which is not supported/,
  );
});

test("SPARQL rows are RDFLib's, whatever the variables are called", async () => {
  const { data } = golden;
  for (const { query, rows } of golden.queries) {
    const terms = rows.map((row) => Object.fromEntries(Object.entries(row).map(([name, term]) => [name, /^_:/.test(term) ? "_:x" : term])));
    expect([query, await verify("sparql", query, { data, rows: terms })]).toEqual([query, 1]);
    expect([query, await verify("sparql", query, { data, query })]).toEqual([query, 1]);
  }
  const [first, second] = golden.queries as [(typeof golden.queries)[0], (typeof golden.queries)[0]];
  expect(await verify("sparql", first.query.replaceAll("?p", "?person"), { data, query: first.query })).toBe(1);
  expect(await verify("sparql", second.query, { data, query: first.query })).toBe(0);
  const swapped = "PREFIX : <http://example.org/> SELECT ?q ?p WHERE { ?q :knows ?p }";
  expect(await verify("sparql", swapped, { data, query: golden.queries[2]!.query })).toBe(0);
  expect(await verify("sparql", "SELECT nonsense", { data, query: first.query })).toBe(0);
  expect(await verify("sparql", "SELECT * { SERVICE <http://127.0.0.1:9/> { ?a ?b ?c } }", { data, query: first.query })).toBe(0);
  expect(await verify("sparql", first.query, { data, query: "SELECT nonsense" })).toMatch(/^unscorable: the gold cannot be used/);
});

test("a query without end costs its own grading only", async () => {
  const data = Array.from({ length: 400 }, (_, i) => `<http://e/${i}> <http://e/p> <http://e/${(i * 7) % 400}> .`).join("\n");
  const query = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l . ?m ?n2 ?o }";
  const gold = { data, rows: [{ n: "0" }] };
  const verdict = await graph({ mode: "sparql", seconds: 1 }).verify({ answer: query, gold });
  expect(verdict).toEqual({ type: "unscorable", reason: "cannot decide: no result within 1.0 s" });
  expect(await verify("sparql", "ASK { ?a ?b ?c }", { data, query: "ASK { <http://e/1> ?b ?c }" })).toBe(1);
});

test("blank nodes in great number are mapped, or said to be too many", async () => {
  const chain = (name: string, count: number) =>
    Array.from(
      { length: count },
      (_, i) => `_:${name}${i} <http://e/n> _:${name}${(i + 1) % count} . _:${name}${i} <http://e/v> ${i} .`,
    ).join("\n");
  expect(await verify("triples", chain("a", 150), chain("b", 150))).toBe(1);
  const clique = (name: string, count: number) =>
    Array.from({ length: count }, (_, i) =>
      Array.from({ length: count }, (_, j) => (i < j ? `_:${name}${i} <http://e/n> _:${name}${j} .` : "")).join("\n"),
    ).join("\n");
  const began = performance.now();
  expect(await verify("triples", `${clique("a", 14)} _:z <http://e/n> _:z .`, `${clique("b", 14)} _:y <http://e/m> _:y .`)).toBeTypeOf(
    "number",
  );
  expect(await verify("triples", chain("a", 500), chain("b", 500))).toMatch(/^unscorable: the blank nodes/);
  expect(performance.now() - began).toBeLessThan(20_000);
});

test("texts that are no graph, and golds that are none", async () => {
  expect(await verify("triples", "not turtle", "<http://e/a> <http://e/b> <http://e/c> .")).toBe(0);
  expect(await verify("triples", "", "<http://e/a> <http://e/b> <http://e/c> .")).toBe(0);
  expect(
    await verify("triples", "```turtle\n<http://e/a> <http://e/b> <http://e/c> .\n```", "<http://e/a> <http://e/b> <http://e/c> ."),
  ).toBe(1);
  expect(await verify("triples", "<http://e/a> <http://e/b> <http://e/c> .", "")).toBe("unscorable: the gold has no triples");
  expect(await verify("triples", "<http://e/a> <http://e/b> <http://e/c> .", 5)).toMatch(/^unscorable/);
});
