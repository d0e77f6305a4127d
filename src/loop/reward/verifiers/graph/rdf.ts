/** RDF texts to sets of triples, with limits. */
import { messageOf } from "../../../../errors.ts";

/** Terms as N-Triples writes them; blank nodes begin with "_:". */
export interface Triple {
  readonly subject: string;
  readonly predicate: string;
  readonly object: string;
}

const MAX_CHARACTERS = 500_000;
const MAX_TRIPLES = 20_000;

/** The triples of a Turtle or N-Triples text, each once; a text in one code fence is taken out of it. Or why it cannot be read. */
export async function parseTurtle(text: string): Promise<readonly Triple[] | string> {
  if (text.length > MAX_CHARACTERS) return `more than ${MAX_CHARACTERS} characters`;
  const { Parser } = await import("n3");
  const triples = new Map<string, Triple>();
  try {
    for (const quad of new Parser({ format: "text/turtle" }).parse(withoutFence(text))) {
      const triple = { subject: termText(quad.subject), predicate: termText(quad.predicate), object: termText(quad.object) };
      triples.set(tripleText(triple), triple);
      if (triples.size > MAX_TRIPLES) return `more than ${MAX_TRIPLES} triples`;
    }
  } catch (cause) {
    return messageOf(cause);
  }
  return [...triples.values()];
}

export function withoutFence(text: string): string {
  return /^\s*```[a-z]{0,20}[^\S\n]*\n([\s\S]*?)\n?\s*```\s*$/i.exec(text)?.[1] ?? text;
}

interface Term {
  readonly termType: string;
  readonly value: string;
  readonly language?: string;
  readonly datatype?: { readonly value: string };
}

const STRING = "http://www.w3.org/2001/XMLSchema#string";

/** One text a term; language tags in lower case. Literals are compared as they are written: "01" and "1" are two integers. */
function termText(term: Term): string {
  if (term.termType === "NamedNode") return `<${term.value}>`;
  if (term.termType === "BlankNode") return `_:${term.value}`;
  if (term.termType !== "Literal") throw new Error(`a ${term.termType} in a triple`);
  const value = JSON.stringify(term.value);
  if (term.language !== undefined && term.language !== "") return `${value}@${term.language.toLowerCase()}`;
  const datatype = term.datatype?.value ?? STRING;
  return datatype === STRING ? value : `${value}^^<${datatype}>`;
}

export function tripleText({ subject, predicate, object }: Triple): string {
  return `${subject} ${predicate} ${object}`;
}

export function isBlank(term: string): boolean {
  return term.startsWith("_:");
}
