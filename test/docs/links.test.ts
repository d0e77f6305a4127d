import { existsSync, readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";

const pages = [
  ...["README.md", "CONTRIBUTING.md", "AGENTS.md", "CHANGELOG.md"],
  ...readdirSync("docs", { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".md")).map((name) => join("docs", name)),
];

/** As GitHub makes it: lower case, letters, digits, dashes. */
const anchorOf = (heading: string): string => heading.toLowerCase().replace(/[^\p{L}\p{N} -]/gu, "").replaceAll(" ", "-");

test.each(pages)("links of %s lead somewhere", (page) => {
  const text = readFileSync(page, "utf8");
  const broken = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map((match) => match[1]!).filter((link) => {
    if (/^https?:/.test(link)) return false;
    const [path, anchor] = link.split("#");
    const target = path === "" ? page : join(dirname(page), path!);
    if (!existsSync(target)) return true;
    if (anchor === undefined) return false;
    const headings = readFileSync(target, "utf8").split("\n").filter((line) => line.startsWith("#"));
    return !headings.some((line) => anchorOf(line.replace(/^#+ /, "")) === anchor);
  });
  expect(broken).toEqual([]);
});

test("the index names every page", () => {
  const index = readFileSync("docs/README.md", "utf8");
  const inside = pages.filter((page) => page.startsWith("docs/") && page !== join("docs", "README.md"));
  const missing = inside.map((page) => page.slice("docs/".length));
  expect(missing.filter((page) => !index.includes(`](${page})`))).toEqual([]);
});
