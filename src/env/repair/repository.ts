/** A small repository with one bug: its files, its history, and the tests that nobody sees. */
import { integer, rng } from "../../random.ts";
import type { Json, Split } from "../../types.ts";
import { languages, specimens, type Language } from "./functions.ts";

/** What a task holds as its data. */
export interface Repair {
  readonly language: Language;
  readonly module: string;
  readonly name: string;
  readonly about: string;
  readonly files: Readonly<Record<string, string>>;
  /** The public tests as they must be when they are run. */
  readonly publicTest: string;
  /** What grades; neither these nor the repaired source are in any commit. */
  readonly hidden: readonly string[];
  readonly repaired: string;
}

/** How many tasks there are: each function, language and bug. */
export const countOf = (split: Split): number => specimens[split].reduce((sum, { bugs }) => sum + bugs.length * languages.length, 0);

/** Task `index` of a split, in an order that the seed gives. */
export function drawRepair(split: Split, index: number, seed: number): Repair {
  const all = specimens[split].flatMap((each) => languages.flatMap((language) => each.bugs.map((bug) => ({ each, language, bug }))));
  const { each, language, bug } = all[(index + integer(rng(seed, "repair", split), all.length)) % all.length]!;
  const module = language === "python" ? "solution.py" : "solution.js";
  const publicTest = language === "python" ? "test_public.py" : "public.test.js";
  const right = each.source[language];
  const broken = right.replace(bug[0], bug[1]);
  if (broken === right) throw new Error(`repair: expected "${bug[0]}" in ${each.name} (${language}), got none`);
  const tests = each.cases.map(([args, result]) => testOf(language, { name: each.name, args, result }));
  const readme = `# ${each.name}\n\n${each.about}.\n`;
  const files = { "README.md": readme, [module]: broken, [publicTest]: publicTests(language, each.name, tests.slice(0, 2)) };
  return { language, module, name: each.name, about: each.about, files, publicTest, hidden: tests, repaired: right };
}

interface Case {
  readonly name: string;
  readonly args: readonly Json[];
  readonly result: Json;
}

/** Numbers, texts and lists are written the same in JSON and in both languages. */
function testOf(language: Language, { name, args, result }: Case): string {
  const call = `${name}(${args.map((each) => JSON.stringify(each)).join(", ")})`;
  return language === "python" ? `assert ${call} == ${JSON.stringify(result)}` : `assert.deepEqual(${call}, ${JSON.stringify(result)});`;
}

function publicTests(language: Language, name: string, tests: readonly string[]): string {
  if (language === "python") return `from solution import ${name}\n\n${tests.join("\n")}\nprint("public tests passed")\n`;
  const head = `const assert = require("node:assert/strict");\nconst { ${name} } = require("./solution.js");\n`;
  return `${head}\n${tests.join("\n")}\nconsole.log("public tests passed");\n`;
}

/** The history for `git fast-import`: readme, source, tests. Names and dates are fixed, so that commits have the same ids everywhere. */
export function historyOf({ files, module, publicTest, name }: Repair): string {
  const steps = [["README.md", "Describe it"], [module, `Add ${name}`], [publicTest, "Add public tests"]] as const;
  const data = (text: string): string => `data ${Buffer.byteLength(text)}\n${text}\n`;
  return steps
    .map(([path, message], i) => {
      const parent = i === 0 ? "" : `from :${i}\n`;
      const who = `committer Flywheel <flywheel@localhost> ${1_700_000_000 + 3600 * i} +0000\n`;
      return `commit refs/heads/main\nmark :${i + 1}\n${who}${data(message)}${parent}M 644 inline ${path}\n${data(files[path]!)}`;
    })
    .join("");
}
