/** SHACL validation and SPARQL queries, which have no limits of their own, in workers that have. */
import type { Json } from "../../../../types.ts";
import { WorkerPool } from "../worker-pool.ts";

const SOURCE = `
let parts;
const start = async () => {
  const [n3, oxigraph, shacl] = await Promise.all(["n3", "oxigraph", "rdf-validate-shacl"].map(load));
  const { Parser, Store, DataFactory } = n3.default ?? n3;
  const { Store: Oxigraph } = oxigraph.default ?? oxigraph;
  parts = { Parser, Store, DataFactory, Oxigraph, Validator: shacl.default };
};
const termText = (term) => {
  if (term.termType === "NamedNode") return "<" + term.value + ">";
  if (term.termType === "BlankNode") return "_:" + term.value;
  if (term.termType !== "Literal") return "? " + String(term);
  if (term.language) return JSON.stringify(term.value) + "@" + term.language.toLowerCase();
  const type = term.datatype.value;
  return type === "http://www.w3.org/2001/XMLSchema#string" ? JSON.stringify(term.value) : JSON.stringify(term.value) + "^^<" + type + ">";
};
const queryTriples = (results) =>
  results.map((quad) => ({ subject: termText(quad.subject), predicate: termText(quad.predicate), object: termText(quad.object) }));
const handle = async (request) => {
  if (request.type === "shacl") {
    const parse = (text) => new parts.Store(new parts.Parser({ format: "text/turtle" }).parse(text));
    const report = await new parts.Validator(parse(request.shapes)).validate(parse(request.data));
    const told = (result) => result.message.map((each) => each.value).join("; ");
    const results = report.results.slice(0, 10).map((result) => [result.focusNode?.value ?? "", result.path?.value ?? "", told(result)]);
    return { conforms: report.conforms, results };
  }
  const store = new parts.Oxigraph();
  store.load(request.data, { format: "text/turtle" });
  const found = store.query(request.query, {});
  if (typeof found === "boolean") return { type: "boolean", value: found };
  if (!Array.isArray(found)) throw new Error("the query gives no rows, triples or truth value");
  if (found.length > request.limit) return { type: "many" };
  if (found.length > 0 && !(found[0] instanceof Map)) return { type: "triples", triples: queryTriples(found) };
  return { type: "rows", rows: found.map((row) => Object.fromEntries([...row].map(([name, term]) => [name, termText(term)]))) };
};`;

let shared: WorkerPool | null = null;

/** One request to a warm worker; rejects as `WorkerPool.run` does. */
export async function runGraphWork(
  request: Json,
  limits: { readonly seconds: number; readonly signal: AbortSignal | undefined },
): Promise<Json> {
  shared ??= new WorkerPool({ source: SOURCE, modules: ["n3", "oxigraph", "rdf-validate-shacl"] });
  return (await shared.run(request, limits)).value;
}
