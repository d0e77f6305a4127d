/** What stands in brackets: groups, tuples, intervals, sets, absolute values, matrices. */
import { apply, type Expr } from "./expression.ts";
import type { Reader } from "./reader.ts";
import { MathSyntaxError } from "./tokens.ts";

export function closed(reader: Reader, close: string): Expr {
  const inner = reader.list();
  if (!reader.takeCommand(close)) throw new MathSyntaxError(`${reader.found()} in place of \\${close}`);
  return inner;
}

export function tupleOf(expr: Expr): Expr {
  return { kind: "tuple", items: expr.kind === "list" ? expr.items : [expr] };
}

export function bracket(reader: Reader, open: string): Expr {
  const bars = reader.bars;
  if (open === "|") {
    reader.bars = 1;
    const inner = reader.sum();
    reader.expectMark("|");
    reader.bars = bars;
    return apply("Abs", inner);
  }
  if (open !== "(" && open !== "[" && open !== "{") throw new MathSyntaxError(`"${open}"`);
  reader.bars = 0;
  const inner = reader.list();
  reader.bars = bars;
  if (open === "{") {
    reader.expectMark("}");
    return inner.kind === "list" ? { kind: "set", items: inner.items } : inner;
  }
  const close = reader.next().text;
  if (close !== ")" && close !== "]") throw new MathSyntaxError(`"${close}" in place of a closing bracket`);
  if (inner.kind !== "list") {
    if ((open === "(") !== (close === ")")) throw new MathSyntaxError(`"${open}" closed by "${close}"`);
    return inner;
  }
  const [low, high] = inner.items;
  if (open === "(" && close === ")") return { kind: "tuple", items: inner.items };
  if (inner.items.length === 2) return { kind: "interval", low: low!, high: high!, openLow: open === "(", openHigh: close === ")" };
  if (open === "[" && close === "]") return { kind: "tuple", items: inner.items };
  throw new MathSyntaxError(`an interval of ${inner.items.length} ends`);
}

/** A set of members, or what is said of x in {x | ...}. */
export function braces(reader: Reader): Expr {
  if (reader.takeCommand("}")) return { kind: "set", items: [] };
  const start = reader.at;
  const variable = reader.peek()?.type === "symbol";
  if (variable) {
    reader.next();
    if (reader.takeCommand("in")) reader.next();
    if (!reader.takeMark("|") && !reader.takeMark(":")) reader.at = start;
  }
  const builder = reader.at > start;
  const inner = closed(reader, "}");
  return builder ? inner : { kind: "set", items: inner.kind === "list" ? inner.items : [inner] };
}

export function matrix(reader: Reader, environment: string): Expr {
  if (!/^[pbBvV]?(?:small)?matrix\*?$|^array$/.test(environment)) throw new MathSyntaxError(`\\begin{${environment.slice(0, 20)}}`);
  if (environment === "array" && reader.takeMark("{")) while (!reader.takeMark("}")) reader.next();
  const rows: Expr[][] = [[]];
  while (!reader.takeCommand(`end:${environment}`)) {
    if (reader.takeCommand("cr")) rows.push([]);
    else if (!reader.takeMark("&")) rows.at(-1)!.push(reader.sum());
  }
  const filled = rows.filter((row) => row.length > 0);
  if (filled.length === 0 || filled.some((row) => row.length !== filled[0]!.length)) throw new MathSyntaxError("rows of different lengths");
  return { kind: "matrix", rows: filled };
}
