/** Small functions in two languages, the ways in which they are broken, and what they return. */
import type { Json } from "../../types.ts";

export const languages = ["python", "javascript"] as const;
export type Language = (typeof languages)[number];

interface Specimen {
  readonly name: string;
  /** What is told of it. */
  readonly about: string;
  readonly source: { readonly [L in Language]: string };
  /** Each: what stands in the right source of both languages, and what stands in its place. */
  readonly bugs: readonly (readonly [string, string])[];
  /** Arguments and result; the first two are the public tests. */
  readonly cases: readonly (readonly [args: readonly Json[], result: Json])[];
}

const python = (...lines: readonly string[]): string => `${lines.join("\n")}\n`;
const javascript = (name: string, ...lines: readonly string[]): string => `${lines.join("\n")}\n\nmodule.exports = { ${name} };\n`;

const clamp: Specimen = {
  name: "clamp",
  about: "clamp(value, low, high) is value, but not below low and not above high",
  source: {
    python: python("def clamp(value, low, high):", "    return max(low, min(value, high))"),
    javascript: javascript(
      "clamp", "const { max, min } = Math;", "function clamp(value, low, high) {", "  return max(low, min(value, high));", "}",
    ),
  },
  bugs: [["min(value, high)", "min(value, low)"], ["max(low, min", "min(low, min"]],
  cases: [[[5, 0, 9], 5], [[2, 1, 4], 2], [[-3, 0, 9], 0], [[12, 0, 9], 9], [[0, 0, 0], 0], [[7, 7, 8], 7]],
};
const total: Specimen = {
  name: "total",
  about: "total(prices, free) is the sum of the prices, without the first `free` of them",
  source: {
    python: python(
      "def total(prices, free):", "    result = 0", "    for i in range(free, len(prices)):", "        result += prices[i]",
      "    return result",
    ),
    javascript: javascript(
      "total", "function total(prices, free) {", "  let result = 0;", "  for (let i = free; i < prices.length; i++) {",
      "    result += prices[i];", "  }", "  return result;", "}",
    ),
  },
  bugs: [["result += prices", "result = prices"], ["result = 0", "result = 1"]],
  cases: [[[[3], 0], 3], [[[2, 5], 1], 5], [[[1, 2, 3], 0], 6], [[[], 0], 0], [[[4, 4, 4, 4], 2], 8], [[[9], 1], 0]],
};
const parts: Specimen = {
  name: "parts",
  about: "parts(total, size) is how many boxes of `size` are needed for `total` things",
  source: {
    python: python(
      "def parts(total, size):", "    full = total // size", "    rest = total - full * size", "    return full + (1 if rest > 0 else 0)",
    ),
    javascript: javascript(
      "parts", "function parts(total, size) {", "  const full = Math.floor(total / size);", "  const rest = total - full * size;",
      "  return full + (rest > 0 ? 1 : 0);", "}",
    ),
  },
  bugs: [["rest > 0", "rest > 1"], ["total - full * size", "total - full"]],
  cases: [[[3, 1], 3], [[5, 3], 2], [[10, 5], 2], [[11, 5], 3], [[0, 4], 0], [[12, 4], 3], [[1, 9], 1]],
};
const initials: Specimen = {
  name: "initials",
  about: 'initials(names) is the first letter of each name, joined by dots: ["Ada", "Byron"] is "A.B"',
  source: {
    python: python(
      "def initials(names):", "    letters = []", "    for name in names:", "        letters.append(name[0])",
      '    return ".".join(letters)',
    ),
    javascript: javascript(
      "initials", "function initials(names) {", "  const letters = [];", "  for (const name of names) {", "    letters.push(name[0]);",
      "  }", '  return letters.join(".");', "}",
    ),
  },
  bugs: [["name[0]", "name[1]"]],
  cases: [[[["Aa"]], "A"], [[["Oo", "Pp"]], "O.P"], [[["Ada", "Byron"]], "A.B"], [[[]], ""], [[["x", "y", "z"]], "x.y.z"]],
};
const highest: Specimen = {
  name: "highest",
  about: "highest(values) is the place of the largest value, and of several the first",
  source: {
    python: python(
      "def highest(values):", "    best = 0", "    for i in range(1, len(values)):", "        if values[i] > values[best]:",
      "            best = i", "    return best",
    ),
    javascript: javascript(
      "highest", "function highest(values) {", "  let best = 0;", "  for (let i = 1; i < values.length; i++) {",
      "    if (values[i] > values[best]) best = i;", "  }", "  return best;", "}",
    ),
  },
  bugs: [["values[i] > values[best]", "values[i] >= values[best]"], ["values[i] > values[best]", "values[i] < values[best]"]],
  cases: [[[[4]], 0], [[[7]], 0], [[[1, 5, 2]], 1], [[[3, 3]], 0], [[[0, -1, 6]], 2], [[[2, 9, 9, 1]], 1]],
};

/** Functions of the test split are in no task of the train split. */
export const specimens = { train: [clamp, total, parts], test: [initials, highest] } as const satisfies Record<string, readonly Specimen[]>;
