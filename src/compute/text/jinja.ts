/**
 * Chat templates as Python renders them. The engine is @huggingface/jinja; where it differs from Python in what chat templates use
 * (`strip` with characters, what counts as white space, how numbers and booleans print, `tojson`), the parsed template is rewritten
 * to call the functions below.
 */
import * as engine from "@huggingface/jinja";
import { dumpJson, dumpNumber } from "../../json.ts";
import type { Json } from "../../types.ts";

/** What is used of the engine; its own declarations do not resolve under NodeNext. */
interface Engine {
  readonly Template: new (source: string) => { readonly parsed: object };
  readonly Environment: new () => { set(name: string, value: unknown): unknown };
  readonly Interpreter: new (environment: object) => { run(program: object): { readonly value: unknown } };
}
const { Template, Environment, Interpreter } = engine as unknown as Engine;

/** A compiled template: variables in, text out. Throws what the template raises. */
export type Render = (variables: Readonly<Record<string, unknown>>) => string;

/** Compiles `source`; throws a plain error where it is not a template. */
export function compileJinja(source: string): Render {
  const program = new Template(source).parsed;
  rewrite(program);
  return (variables) => {
    const environment = new Environment();
    for (const [name, value] of Object.entries({ ...CONSTANTS, ...FUNCTIONS, ...variables })) environment.set(name, value);
    return String(new Interpreter(environment).run(program).value);
  };
}

const CONSTANTS = { false: false, true: true, none: null, False: false, True: true, None: null };

/** Templates that print today's date print this one, so that a run does not depend on the day. */
const FIXED_DATE: Readonly<Record<string, string>> = { d: "26", b: "Jul", B: "July", Y: "2024", m: "07", H: "00", M: "00", S: "00" };

const FUNCTIONS = {
  raise_exception: (message: unknown): never => {
    throw new Error(String(message));
  },
  range: (first: number, second?: number, step = 1): number[] => {
    const [start, stop] = second === undefined ? [0, first] : [first, second];
    return Array.from({ length: Math.max(0, Math.ceil((stop - start) / step)) }, (_, i) => start + i * step);
  },
  strftime_now: (format: string) => format.replace(/%([dbBYmHMS])/g, (_, field: string) => FIXED_DATE[field] ?? ""),
  python_strip: (text: unknown, characters?: unknown) => strip(text, characters, "both"),
  python_lstrip: (text: unknown, characters?: unknown) => strip(text, characters, "left"),
  python_rstrip: (text: unknown, characters?: unknown) => strip(text, characters, "right"),
  python_trim: (value: unknown, characters?: unknown) => strip(value === undefined ? "" : printed(value), characters, "both"),
  python_tojson: (value: unknown, indent?: unknown) => dumpJson(plain(value), typeof indent === "number" ? indent : undefined),
  python_string: printed,
};

/** What `str.strip()` of Python removes; JavaScript's `trim` knows another set. */
const PYTHON_SPACE =
  "\t\n\v\f\r\u001c\u001d\u001e\u001f \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a" +
  "\u2028\u2029\u202f\u205f\u3000";

function strip(text: unknown, characters: unknown, side: "both" | "left" | "right"): string {
  if (typeof text !== "string") throw new Error(`strip: expected a string, got ${text === null ? "none" : typeof text}`);
  const removed = new Set(typeof characters === "string" ? characters : PYTHON_SPACE);
  const points = Array.from(text);
  let start = 0;
  let end = points.length;
  if (side !== "right") while (start < end && removed.has(points[start]!)) start++;
  if (side !== "left") while (end > start && removed.has(points[end - 1]!)) end--;
  return points.slice(start, end).join("");
}

function printed(value: unknown): string {
  if (typeof value === "string") return value;
  if (typeof value === "number") return dumpNumber(value);
  if (typeof value === "boolean") return value ? "True" : "False";
  // The engine hands over none as undefined.
  return value === undefined || value === null ? "None" : dumpJson(plain(value));
}

/** The engine hands scalars over as they are, lists and mappings with their items still wrapped as `{value}`. */
function plain(value: unknown): Json {
  if (value === undefined || value === null) return null;
  if (Array.isArray(value)) return value.map((item) => plain(unwrap(item)));
  if (value instanceof Map) return Object.fromEntries([...value].map(([key, item]) => [String(key), plain(unwrap(item))]));
  if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") return value;
  throw new Error(`tojson: expected a JSON value, got ${typeof value}`);
}

function unwrap(item: unknown): unknown {
  return (item as { readonly value: unknown }).value;
}

/** Nodes of a parsed template, loosely: only what `rewrite` reads. */
interface Node {
  type: string;
  value?: unknown;
  callee?: Node;
  args?: Node[];
  object?: Node;
  property?: Node;
  computed?: boolean;
  operand?: Node;
  filter?: Node;
  key?: Node;
  iterable?: Node;
  lhs?: Node;
}

const STRIPS: ReadonlySet<unknown> = new Set(["strip", "lstrip", "rstrip"]);
const FILTERS: ReadonlyMap<unknown, string> = new Map([
  ["trim", "python_trim"],
  ["tojson", "python_tojson"],
  ["string", "python_string"],
]);

function rewrite(node: unknown): void {
  if (Array.isArray(node)) return node.forEach(rewrite);
  if (node instanceof Map) return [...node].forEach(rewrite);
  if (node === null || typeof node !== "object") return;
  Object.values(node).forEach(rewrite);
  const { type, callee, operand, filter } = node as Node;
  if (type === "CallExpression" && callee?.type === "MemberExpression" && callee.computed !== true && STRIPS.has(callee.property?.value)) {
    Object.assign(node, call(`python_${String(callee.property?.value)}`, [callee.object!, ...((node as Node).args ?? [])]));
  }
  if (type === "For") orEmpty(node as Node);
  if (type === "FilterExpression" && operand !== undefined && filter !== undefined) {
    const name = FILTERS.get(filter.type === "CallExpression" ? filter.callee?.value : filter.value);
    const values = filter.type === "CallExpression" ? positional(filter.args ?? []) : [];
    if (name !== undefined && values !== undefined) Object.assign(node, call(name, [operand, ...values]));
  }
}

/** `for x in y` over an undefined y runs no time in Python; the engine would throw. */
function orEmpty(loop: Node): void {
  const empty = { type: "ArrayLiteral", value: [] };
  const or = (left: Node): Node => ({ type: "BinaryExpression", operator: { value: "or" }, left, right: empty }) as Node;
  const { iterable } = loop;
  if (iterable?.type === "SelectExpression") iterable.lhs = or(iterable.lhs!);
  else if (iterable !== undefined) loop.iterable = or(iterable);
}

function call(name: string, args: readonly Node[]): Node {
  return { type: "CallExpression", callee: { type: "Identifier", value: name }, args: [...args] };
}

/** `indent=4` as a positional argument; undefined for any other keyword, whose filter is then left to the engine. */
function positional(args: readonly Node[]): readonly Node[] | undefined {
  const values: Node[] = [];
  for (const argument of args) {
    if (argument.type !== "KeywordArgumentExpression") values.push(argument);
    else if (argument.key?.value === "indent") values.push(argument.value as Node);
    else return undefined;
  }
  return values;
}
