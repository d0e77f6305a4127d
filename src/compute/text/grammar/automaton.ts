/**
 * A grammar as an automaton over bytes, made as far as it is walked. A state is a set of stacks of what is still to come; equal
 * stacks are one object, so equal states are one object, and every step is computed once.
 */
import type { Part } from "./grammar.ts";

interface Stack {
  readonly part: Part;
  readonly rest: Stack | null;
  readonly id: number;
  /** Least bytes to the end. */
  readonly distance: number;
}

export interface State {
  /** The text may end here. */
  readonly complete: boolean;
  /** Least bytes to an end. */
  readonly distance: number;
  /** Stacks with a set of bytes on top. */
  readonly stacks: readonly Stack[];
  /** Known steps: null where the byte is not allowed. */
  readonly next: (State | null | undefined)[];
}

/** States that are kept; beyond them the tables begin anew. */
const maxStates = 20_000;

export class Automaton {
  readonly start: State;
  readonly #least: ReadonlyMap<Part, number>;
  readonly #stacks = new Map<string, Stack>();
  readonly #states = new Map<string, State>();

  constructor(root: Part) {
    this.#least = leastBytes(root);
    this.start = this.#state([this.#push(root, null)], false);
  }

  /** Null where `byte` cannot follow. */
  step(state: State, byte: number): State | null {
    const known = state.next[byte];
    if (known !== undefined) return known;
    if (this.#states.size > maxStates) {
      this.#states.clear();
      this.#stacks.clear();
    }
    const after: (Stack | null)[] = [];
    for (const { part, rest } of state.stacks) if (part.kind === "bytes" && part.set[byte] === 1) after.push(rest);
    const found =
      after.length === 0
        ? null
        : this.#state(
            after.filter((stack) => stack !== null),
            after.includes(null),
          );
    state.next[byte] = found;
    return found;
  }

  #push(part: Part, rest: Stack | null): Stack {
    const key = `${part.id},${rest?.id ?? -1}`;
    let stack = this.#stacks.get(key);
    if (stack === undefined) {
      stack = { part, rest, id: stackIds++, distance: this.#least.get(part)! + (rest?.distance ?? 0) };
      this.#stacks.set(key, stack);
    }
    return stack;
  }

  /** Opens what is on top of the stacks until each has bytes there; an empty stack makes the state complete. */
  #state(open: readonly Stack[], ended: boolean): State {
    let complete = ended;
    const seen = new Set<Stack>();
    const tops = new Set<Stack>();
    const visit = (stack: Stack | null): void => {
      if (stack === null) complete = true;
      if (stack === null || seen.has(stack) || stack.distance === Infinity) return;
      seen.add(stack);
      const { part, rest } = stack;
      if (part.kind === "bytes") tops.add(stack);
      else if (part.kind === "reference") visit(this.#push(part.resolve(), rest));
      else if (part.kind === "choice") for (const option of part.options) visit(this.#push(option, rest));
      else visit(part.parts.reduceRight<Stack | null>((below, one) => this.#push(one, below), rest));
    };
    open.forEach(visit);
    const stacks = [...tops].sort((a, b) => a.id - b.id);
    const key = `${complete}:${stacks.map(({ id }) => id).join()}`;
    let state = this.#states.get(key);
    if (state === undefined) {
      const distance = complete ? 0 : Math.min(...stacks.map((stack) => stack.distance));
      state = { complete, distance, stacks, next: [] };
      this.#states.set(key, state);
    }
    return state;
  }
}

/** Never the same for two stacks, also after the tables were cleared. */
let stackIds = 0;

/** The fewest bytes that each part of a grammar can be; Infinity for one that never ends. */
function leastBytes(root: Part): Map<Part, number> {
  const order: Part[] = [];
  const found = new Map<Part, number>();
  const children = (part: Part): readonly Part[] =>
    part.kind === "sequence" ? part.parts : part.kind === "choice" ? part.options : part.kind === "reference" ? [part.resolve()] : [];
  const pending: { readonly part: Part; readonly left: boolean }[] = [{ part: root, left: false }];
  while (pending.length > 0) {
    const { part, left } = pending.pop()!;
    if (left) order.push(part);
    if (left || found.has(part)) continue;
    found.set(part, Infinity);
    pending.push({ part, left: true }, ...children(part).map((child) => ({ part: child, left: false })));
  }
  for (let changed = true; changed;) {
    changed = false;
    for (const part of order) {
      const values = children(part).map((child) => found.get(child)!);
      const least = part.kind === "bytes" ? 1 : part.kind === "choice" ? Math.min(...values) : values.reduce((a, b) => a + b, 0);
      if (least < found.get(part)!) {
        found.set(part, least);
        changed = true;
      }
    }
  }
  return found;
}
