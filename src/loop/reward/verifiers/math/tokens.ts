/** Cleaned text to tokens. */
import { braced } from "./latex.ts";

export type Token =
  | { readonly type: "number"; readonly text: string; readonly spaced: boolean }
  | { readonly type: "symbol"; readonly text: string; readonly spaced: boolean }
  | { readonly type: "command"; readonly text: string; readonly spaced: boolean }
  | { readonly type: "text"; readonly text: string; readonly spaced: boolean }
  | { readonly type: "mark"; readonly text: string; readonly spaced: boolean };

export class MathSyntaxError extends Error {}

/** Words that mean the command of the same or another name where they stand without a backslash. */
const WORDS: Readonly<Record<string, string>> = {
  sin: "sin",
  cos: "cos",
  tan: "tan",
  cot: "cot",
  sec: "sec",
  csc: "csc",
  arcsin: "arcsin",
  arccos: "arccos",
  arctan: "arctan",
  asin: "arcsin",
  acos: "arccos",
  atan: "arctan",
  sinh: "sinh",
  cosh: "cosh",
  tanh: "tanh",
  ln: "ln",
  log: "log",
  exp: "exp",
  sqrt: "sqrt",
  cbrt: "cbrt",
  abs: "abs",
  floor: "floor",
  ceil: "ceil",
  gcd: "gcd",
  lcm: "lcm",
  max: "max",
  min: "min",
  det: "det",
  pi: "pi",
  inf: "infty",
  infinity: "infty",
  oo: "infty",
  alpha: "alpha",
  beta: "beta",
  gamma: "gamma",
  delta: "delta",
  theta: "theta",
  lambda: "lambda",
  mu: "mu",
  rho: "rho",
  sigma: "sigma",
  tau: "tau",
  phi: "phi",
  omega: "omega",
  epsilon: "epsilon",
  union: "cup",
  cup: "cup",
  and: "and",
  or: "or",
  binom: "binom",
  choose: "choose",
  pm: "pm",
};
const SPELLED: Readonly<Record<string, string>> = { arcsin: "arcsin", arccos: "arccos", arctan: "arctan" };
/** Letters that together are a product of symbols and not a word: at most three. */
const MAX_PRODUCT = 3;
const MARKS = "+-*/^_=<>()[]{},;:|!%'&";
const MAX_TOKENS = 3000;

export function tokenize(source: string): Token[] {
  const tokens: Token[] = [];
  let at = 0;
  let spaced = false;
  const push = (type: Token["type"], text: string, length: number): void => {
    tokens.push({ type, text, spaced });
    at += length;
    spaced = false;
    if (tokens.length > MAX_TOKENS) throw new MathSyntaxError(`more than ${MAX_TOKENS} tokens`);
  };
  while (at < source.length) {
    const character = source[at]!;
    if (/\s/.test(character)) {
      spaced = true;
      at++;
    } else if (/[\d.]/.test(character)) {
      const number = numberAt(source, at);
      push("number", number, number.length);
    } else if (character === "\\") commandAt(source, at, tokens.at(-1), push);
    else if (/[A-Za-z]/.test(character)) word(source, at, { push, unit: spaced && tokens.at(-1)?.type === "number" });
    else if (MARKS.includes(character)) push("mark", character, 1);
    else throw new MathSyntaxError(`the character ${JSON.stringify(character)}`);
  }
  return tokens;
}

type Push = (type: Token["type"], text: string, length: number) => void;

const NUMBER = /(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,4}(?![\w.]))?/y;

function numberAt(source: string, at: number): string {
  NUMBER.lastIndex = at;
  const found = NUMBER.exec(source)?.[0];
  if (found === undefined) throw new MathSyntaxError(`the character "."`);
  return found;
}

function commandAt(source: string, at: number, previous: Token | undefined, push: Push): void {
  const name = /^[A-Za-z]+/.exec(source.slice(at + 1, at + 41))?.[0];
  if (name === undefined) {
    const mark = source[at + 1] ?? "";
    if (mark === "{" || mark === "}") push("command", mark, 2);
    else throw new MathSyntaxError(`\\${mark}`);
    return;
  }
  const after = at + 1 + name.length;
  if (name === "text" || name === "mathbb" || name === "begin" || name === "end") {
    const open = source.indexOf("{", after);
    const inner = open < 0 ? null : braced(source, open);
    if (inner === null || source.slice(after, open).trim() !== "") throw new MathSyntaxError(`\\${name} without braces`);
    if (name === "text") textOf(inner.inside, inner.end - at, { push, afterNumber: previous?.type === "number" });
    else push("command", `${name}:${inner.inside.trim()}`, inner.end - at);
    return;
  }
  push("command", Object.hasOwn(SPELLED, name) ? SPELLED[name]! : name, name.length + 1);
}

/** A word of the notation stays one; one letter is a symbol, if not the unit of a number; anything else is text. */
function textOf(inside: string, length: number, { push, afterNumber }: { readonly push: Push; readonly afterNumber: boolean }): void {
  const text = inside.trim();
  if (text === "and" || text === "or") return push("command", text, length);
  if (text === "") return push("text", "", length);
  if (Object.hasOwn(WORDS, text)) return push("command", WORDS[text]!, length);
  push(/^\(?[A-Za-z]\)?$/.test(text) && !afterNumber ? "symbol" : "text", text.replace(/[()]/g, ""), length);
}

/** Units of two letters and more, where they follow a number after a space: 5 cm. */
const UNIT = /^(?:[kcmn]m|[km]g|[km]?Hz|k[WNJV]|m[LlsAV]|kPa|ft|yd|mi|in|lb|lbs|oz|min|sec|hr|hrs|mph|kph|day|Pa|mol|eV|cal|deg|rad)$/;

/** 13 m/s, 8 g/cm^3. */
const RATE = /^(?:[kcm]?m|[km]?g|L|mi|ft|rad|J|W|N)\/(?:s|h|hr|min|[cm]?m|k?g|mol|K|L)(?:\^\{?\d\}?)?(?![A-Za-z])/;

function word(source: string, at: number, { push, unit }: { readonly push: Push; readonly unit: boolean }): void {
  const run = /^[A-Za-z]+/.exec(source.slice(at, at + 60))![0];
  const rate = unit ? RATE.exec(source.slice(at, at + 20))?.[0] : undefined;
  if (rate !== undefined) return push("text", rate, rate.length);
  if (unit && UNIT.test(run)) return push("text", run, run.length);
  const known = longestWord(run);
  if (known !== null) return push("command", WORDS[known]!, known.length);
  if (run.length <= MAX_PRODUCT) return push("symbol", run[0]!, 1);
  for (let cut = 1; cut <= MAX_PRODUCT; cut++) if (longestWord(run.slice(cut)) === run.slice(cut)) return push("symbol", run[0]!, 1);
  push("text", run, run.length);
}

/** A known word that is the whole run, or with which it begins and after which at most three letters follow ("sinx", "lnab"). */
function longestWord(run: string): string | null {
  for (let size = run.length; size >= 2; size--) {
    const head = run.slice(0, size);
    if (!Object.hasOwn(WORDS, head) || (size < run.length && ["and", "or", "oo", "inf"].includes(head))) continue;
    if (run.length - size <= (size >= 3 ? 1 : 0) || size === run.length) return head;
  }
  return null;
}
