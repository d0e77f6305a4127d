/**
 * Symbolic dimensions: polynomials with integer coefficients over named sizes ("B", "T"), so that one compiled program
 * serves all shapes and every output's shape is known before the program runs.
 */
import { expected } from "../../errors.ts";

export type Dim = number | SymbolicDim;
export type Shape = readonly Dim[];
type Bindings = ReadonlyMap<string, number>;

/** A sum of products of names; `terms` maps "B*T" (names sorted) to its coefficient, "" to the constant. */
export class SymbolicDim {
  readonly terms: ReadonlyMap<string, number>;
  readonly key: string;
  constructor(terms: ReadonlyMap<string, number>) {
    this.terms = terms;
    this.key = [...terms]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([names, k]) => (names === "" ? String(k) : k === 1 ? names : `${k}*${names}`))
      .join("+");
  }
  toString(): string {
    return this.key;
  }
}

/** A named size, bound when the program is run. */
export function dim(name: string): Dim {
  return new SymbolicDim(new Map([[name, 1]]));
}

function termsOf(d: Dim): ReadonlyMap<string, number> {
  return typeof d === "number" ? new Map([["", d]]) : d.terms;
}

function make(terms: Map<string, number>): Dim {
  for (const [names, k] of terms) if (k === 0) terms.delete(names);
  if (terms.size === 0) return 0;
  if (terms.size === 1 && terms.has("")) return terms.get("")!;
  return new SymbolicDim(terms);
}

export function addDim(a: Dim, b: Dim): Dim {
  const sum = new Map(termsOf(a));
  for (const [names, k] of termsOf(b)) sum.set(names, (sum.get(names) ?? 0) + k);
  return make(sum);
}

export function subDim(a: Dim, b: Dim): Dim {
  return addDim(a, mulDim(b, -1));
}

export function mulDim(a: Dim, b: Dim): Dim {
  const product = new Map<string, number>();
  for (const [x, j] of termsOf(a)) {
    for (const [y, k] of termsOf(b)) {
      const names = [...x.split("*"), ...y.split("*")]
        .filter((name) => name !== "")
        .sort()
        .join("*");
      product.set(names, (product.get(names) ?? 0) + j * k);
    }
  }
  return make(product);
}

export function productOf(shape: Shape): Dim {
  return shape.reduce(mulDim, 1);
}

export function sameDim(a: Dim, b: Dim): boolean {
  return String(a) === String(b);
}

export function sameShape(a: Shape, b: Shape): boolean {
  return a.length === b.length && a.every((d, i) => sameDim(d, b[i]!));
}

export function shapeText(shape: Shape): string {
  return `[${shape.map(String).join(", ")}]`;
}

/** The number that a dimension stands for; throws if a name is not bound. */
export function evaluate(d: Dim, bindings: Bindings): number {
  if (typeof d === "number") return d;
  let sum = 0;
  for (const [names, k] of d.terms) {
    let product = k;
    for (const name of names === "" ? [] : names.split("*")) {
      const value = bindings.get(name);
      if (value === undefined) throw new RangeError(`dimension ${name} is not bound by any input`);
      product *= value;
    }
    sum += product;
  }
  return sum;
}

const isName = (d: SymbolicDim): boolean => d.terms.size === 1 && d.terms.get(d.key) === 1 && !d.key.includes("*");
const isKnown = (d: SymbolicDim, bindings: Bindings): boolean =>
  [...d.terms.keys()].every((names) => names === "" || names.split("*").every((name) => bindings.has(name)));

/** Whether a shape has a dimension that is more than a name or a number. */
export function isCompound(shape: Shape): boolean {
  return shape.some((d) => typeof d !== "number" && !isName(d));
}

/**
 * Binds the names of `shape` to `actual`, or throws, naming `where`. Only plain names bind; other polynomials are checked
 * if all their names are bound already.
 */
export function bindShape(shape: Shape, actual: readonly number[], bindings: Map<string, number>, where: string): void {
  const mismatch = (): never => {
    const known = [...bindings].map(([name, value]) => `${name}=${value}`).join(" ");
    throw new RangeError(expected(where, `shape ${shapeText(shape)}`, `[${actual.join(", ")}] (bound: ${known})`));
  };
  if (shape.length !== actual.length) mismatch();
  shape.forEach((d, i) => {
    const size = actual[i]!;
    const wanted = typeof d === "number" || isKnown(d, bindings) ? evaluate(d, bindings) : undefined;
    if (wanted !== undefined && wanted !== size) mismatch();
    if (typeof d !== "number" && isName(d)) bindings.set(d.key, size);
  });
}

/** The shape that a and b broadcast to (NumPy's rule); symbolic sizes must be equal or meet a 1. */
export function broadcastShapes(a: Shape, b: Shape, where: string): Shape {
  const rank = Math.max(a.length, b.length);
  return Array.from({ length: rank }, (_, i) => {
    const x = a[i - rank + a.length] ?? 1;
    const y = b[i - rank + b.length] ?? 1;
    if (x === 1) return y;
    if (y === 1 || sameDim(x, y)) return x;
    throw new RangeError(expected(where, "shapes that broadcast", `${shapeText(a)} and ${shapeText(b)}`));
  });
}
