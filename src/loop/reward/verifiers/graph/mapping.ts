/**
 * How many triples of two graphs can be the same triple under one assignment of blank nodes to blank nodes. It is exact: branch and
 * bound over the assignments, with a bound on the work; where that is reached, nothing is said.
 */
import { isBlank, tripleText, type Triple } from "./rdf.ts";

const MAX_STEPS = 200_000;
const MAX_BLANKS = 400;

/** The largest number of shared triples, or null if the search was too long. */
export function sharedTriples(wanted: readonly Triple[], given: readonly Triple[]): number | null {
  const ground = (triple: Triple): boolean => !isBlank(triple.subject) && !isBlank(triple.object);
  const right = new Set(wanted.filter(ground).map(tripleText));
  const fixed = given.filter((triple) => ground(triple) && right.has(tripleText(triple))).length;
  const [open, stated] = [wanted, given].map((all) => all.filter((triple) => !ground(triple))) as [Triple[], Triple[]];
  if (Math.max(blanksOf(open).length, blanksOf(stated).length) > MAX_BLANKS) return null;
  const search = new Search(open, stated);
  const blank = search.best();
  return blank === null ? null : fixed + blank;
}

class Search {
  private readonly wanted: ReadonlySet<string>;
  private readonly given: readonly Triple[];
  private readonly order: readonly string[];
  private readonly candidates: ReadonlyMap<string, readonly string[]>;
  /** Triples by the blank node whose assignment completes them. */
  private readonly completed = new Map<string, Triple[]>();
  private readonly assigned = new Map<string, string>();
  private readonly taken = new Set<string>();
  private readonly top: number;
  private steps = 0;
  private found = 0;

  constructor(wanted: readonly Triple[], given: readonly Triple[]) {
    this.wanted = new Set(wanted.map(tripleText));
    // A triple whose form the other graph has not can never match.
    const forms = new Set(wanted.map(formOf));
    this.given = given.filter((triple) => forms.has(formOf(triple)));
    const colours = [colour(wanted), colour(given)] as const;
    this.candidates = candidatesFor(blanksOf(this.given), blanksOf(wanted), { wanted, given: this.given, colours });
    this.order = connectedOrder(this.given, this.candidates);
    const place = new Map(this.order.map((node, i) => [node, i]));
    for (const triple of this.given) {
      const last = [triple.subject, triple.object].filter(isBlank).reduce((a, b) => (place.get(a)! > place.get(b)! ? a : b));
      listAt(this.completed, last).push(triple);
    }
    this.top = Math.min(this.given.length, this.wanted.size);
  }

  best(): number | null {
    if (this.given.length === 0 || this.wanted.size === 0) return 0;
    this.assign(0, 0, this.given.length);
    return this.steps > MAX_STEPS && this.found < this.top ? null : this.found;
  }

  /** `open`: triples that are not completed yet, which bounds what can still be gained. */
  private assign(index: number, matched: number, open: number): void {
    if (matched > this.found) this.found = matched;
    const node = this.order[index];
    if (node === undefined || this.found >= this.top || matched + open <= this.found || ++this.steps > MAX_STEPS) return;
    const triples = this.completed.get(node) ?? [];
    const gains = this.candidates
      .get(node)!
      .filter((target) => !this.taken.has(target))
      .map((target) => ({ target, gain: this.gain(node, target, triples) }))
      .sort((a, b) => b.gain - a.gain);
    for (const { target, gain } of gains) {
      this.assigned.set(node, target);
      this.taken.add(target);
      this.assign(index + 1, matched + gain, open - triples.length);
      this.taken.delete(target);
      this.assigned.delete(node);
    }
    this.assign(index + 1, matched, open - triples.length);
  }

  private gain(node: string, target: string, triples: readonly Triple[]): number {
    const name = (term: string): string => (term === node ? target : isBlank(term) ? (this.assigned.get(term) ?? "unassigned") : term);
    return triples.filter(({ subject, predicate, object }) => this.wanted.has(`${name(subject)} ${predicate} ${name(object)}`)).length;
  }
}

function formOf({ subject, predicate, object }: Triple): string {
  const same = isBlank(subject) && subject === object ? "!" : "";
  return `${isBlank(subject) ? "_" : subject} ${predicate} ${isBlank(object) ? "_" : object}${same}`;
}

function blanksOf(triples: readonly Triple[]): string[] {
  return [...new Set(triples.flatMap(({ subject, object }) => [subject, object].filter(isBlank)))];
}

interface Sides {
  readonly wanted: readonly Triple[];
  readonly given: readonly Triple[];
  readonly colours: readonly [ReadonlyMap<string, string>, ReadonlyMap<string, string>];
}

/** Blank nodes that share the form of at least one triple; those of the same colour first, as an isomorphism would pair them. */
function candidatesFor(from: readonly string[], to: readonly string[], { wanted, given, colours }: Sides): Map<string, readonly string[]> {
  const [wantedForms, givenForms] = [formsByNode(wanted), formsByNode(given)];
  return new Map(
    from.map((node) => {
      const forms = givenForms.get(node)!;
      const possible = to.filter((target) => [...forms].some((form) => wantedForms.get(target)!.has(form)));
      const alike = (target: string): number => (colours[0].get(target) === colours[1].get(node) ? 0 : 1);
      return [node, possible.sort((a, b) => alike(a) - alike(b))] as const;
    }),
  );
}

function formsByNode(triples: readonly Triple[]): Map<string, Set<string>> {
  const forms = new Map<string, Set<string>>();
  for (const triple of triples) {
    const form = formOf(triple);
    for (const [node, place] of [
      [triple.subject, "s"],
      [triple.object, "o"],
    ] as const) {
      if (isBlank(node)) forms.set(node, (forms.get(node) ?? new Set()).add(place + form));
    }
  }
  return forms;
}

const ROUNDS = 6;

/** Colour refinement: nodes with equal neighbourhoods, some rounds deep, have equal colours. */
function colour(triples: readonly Triple[]): Map<string, string> {
  let colours = new Map(blanksOf(triples).map((node) => [node, "_"]));
  for (let round = 0; round < ROUNDS; round++) {
    const seen = new Map<string, string[]>();
    for (const { subject, predicate, object } of triples) {
      const name = (term: string): string => colours.get(term) ?? term;
      if (isBlank(subject)) listAt(seen, subject).push(`> ${predicate} ${name(object)}`);
      if (isBlank(object)) listAt(seen, object).push(`< ${predicate} ${name(subject)}`);
    }
    colours = new Map([...seen].map(([node, all]) => [node, String(hash(`${colours.get(node)!}|${all.sort().join("|")}`))]));
  }
  return colours;
}

function listAt<T>(lists: Map<string, T[]>, key: string): T[] {
  const list = lists.get(key) ?? [];
  lists.set(key, list);
  return list;
}

/** Two FNV-1a hashes side by side; a collision only makes the search longer. */
function hash(text: string): string {
  let [a, b] = [0x811c9dc5, 0x01000193];
  for (let i = 0; i < text.length; i++) {
    a = Math.imul(a ^ text.charCodeAt(i), 0x01000193);
    b = Math.imul(b ^ text.charCodeAt(i), 0x85ebca6b);
  }
  return `${a >>> 0}.${b >>> 0}`;
}

/** Nodes with the fewest candidates first, then their neighbours, so that triples are completed early. */
function connectedOrder(triples: readonly Triple[], candidates: ReadonlyMap<string, readonly string[]>): string[] {
  const neighbours = new Map<string, string[]>();
  for (const { subject, object } of triples) {
    if (!isBlank(subject) || !isBlank(object)) continue;
    listAt(neighbours, subject).push(object);
    listAt(neighbours, object).push(subject);
  }
  const fewest = (a: string, b: string): number => candidates.get(a)!.length - candidates.get(b)!.length;
  const order: string[] = [];
  const placed = new Set<string>();
  for (const root of [...candidates.keys()].sort(fewest)) {
    const queue = [root];
    for (let node = queue.shift(); node !== undefined; node = queue.shift()) {
      if (placed.has(node)) continue;
      placed.add(node);
      order.push(node);
      queue.push(...[...(neighbours.get(node) ?? [])].sort(fewest));
    }
  }
  return order;
}
