/** docs/configuration.md and the algorithms' pages say of every key of the schema what it says: its default and what is allowed. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import type { z } from "zod";
import { algorithms } from "../../src/algo/registry.ts";
import { messageOf } from "../../src/errors.ts";
import { configJson, parseTrainConfig } from "../../src/train/config.ts";
import type { Json, JsonObject } from "../../src/types.ts";

const base = { name: "demo", model: { path: "m" }, env: { name: "desk" }, data: "d.jsonl" };
const variants: readonly JsonObject[] = [
  { ...base, algo: { name: "grpo" } },
  { ...base, algo: { name: "sft" } },
  { ...base, model: { path: "m", adapter: "full" }, algo: { name: "grpo" } },
];
const sections = ["model", "algo", "rollout", "optim", "train"];
/** Shown otherwise than by their value in a resolved configuration. */
const shownAs: Readonly<Record<string, string>> = {
  ...Object.fromEntries(["name", "env", "data", "model.path", "algo.name"].map((path) => [path, "none"])),
  "model.adapter": '"lora"',
  "optim.learningRate": "by method",
};

/** "path | default | allowed" of every row of a page. */
function rowsIn(page: string): string[] {
  const lines = readFileSync(`docs/${page}.md`, "utf8").split("\n");
  return lines.flatMap((line) => /^\| `([\w.]+` \| .* \| .*) \| .* \|$/.exec(line)?.[1] ?? []);
}
const pathOf = (row: string): string => row.split("`")[0]!;

function refusal(input: unknown): string | undefined {
  try {
    parseTrainConfig(input);
    return undefined;
  } catch (cause) {
    return messageOf(cause);
  }
}

function put(config: JsonObject, path: string, value: Json): JsonObject {
  const [section, key] = path.split(".");
  return { ...config, [section!]: key === undefined ? value : { ...(config[section!] as JsonObject), [key]: value } };
}

/** The keys of a section, as a refusal lists them. */
function known(section: string, config: JsonObject): string[] {
  const path = section === "" ? "zzzzzzzzzzzz" : `${section}.zzzzzzzzzzzz`;
  return /known are (.*)$/.exec(refusal(put(config, path, 1))!)![1]!.split(", ");
}

/** What a key may be, as a refusal says; an object is refused by all keys but those that want one. */
function allowed(path: string, config: JsonObject): string {
  const message = refusal(put(config, path, {})) ?? refusal(put(config, path, 5))!;
  return /expected (.*), got /.exec(message)![1]!;
}

function rowsOf(config: JsonObject): string[] {
  const resolved = configJson(parseTrainConfig(config));
  const top = known("", config).filter((key) => !sections.includes(key));
  const inner = sections.flatMap((section) => Object.keys(resolved[section] as JsonObject).map((key) => `${section}.${key}`));
  return [...top, ...inner].map((path) => {
    const [section, key] = path.split(".");
    const value = key === undefined ? resolved[section!] : (resolved[section!] as JsonObject)[key];
    return `${path}\` | ${shownAs[path] ?? JSON.stringify(value)} | ${allowed(path, config)}`;
  });
}

test("every key has its row, and every row is that of a key", { timeout: 180_000 }, () => {
  const wanted = [...new Set(variants.flatMap(rowsOf))].filter((row) => !row.startsWith("algo.")).sort();
  expect([...new Set(rowsIn("configuration"))].sort()).toEqual(wanted);
});

test("the variants above reach every key of the schema but the algorithms'", { timeout: 180_000 }, () => {
  const reached = variants.flatMap(rowsOf).map(pathOf);
  const others = sections.filter((section) => section !== "algo");
  const all = others.flatMap((section) => known(section, variants[0]!).map((key) => `${section}.${key}`));
  expect(all.filter((path) => !reached.includes(path))).toEqual([]);
});

/** The settings of one algorithm, each with its default and what is allowed, as the schema says. */
function settingsOf({ config }: (typeof algorithms)[number]): string[] {
  const fields = Object.entries(config.shape as unknown as Readonly<Record<string, z.ZodType>>);
  return fields
    .filter(([key]) => key !== "name")
    .map(([key, field]) => {
      const want = /expected (.*), got /.exec(field.safeParse({}, { reportInput: true }).error!.issues[0]!.message)![1]!;
      return `algo.${key}\` | ${JSON.stringify(field.safeParse(undefined).data)} | ${want}`;
    });
}

const shared = rowsIn("algorithms/stability");

const byName = algorithms.map((algorithm) => [algorithm.id, algorithm] as const);

test.each(byName)("%s: its page and the shared one have its keys", (id, algorithm) => {
  const settings = settingsOf(algorithm);
  const own = rowsIn(`algorithms/${id}`);
  const keys = settings.map(pathOf);
  expect(own.filter((row) => shared.some((other) => pathOf(other) === pathOf(row)))).toEqual([]);
  expect([...own, ...shared.filter((row) => keys.includes(pathOf(row)))].sort()).toEqual(settings.sort());
  expect(readFileSync("docs/configuration.md", "utf8")).toContain(`[algorithms/${id}.md](algorithms/${id}.md#settings)`);
});

test("a shared key is one of several algorithms", () => {
  const users = (path: string): number => algorithms.filter((algorithm) => settingsOf(algorithm).map(pathOf).includes(path)).length;
  expect(shared.map(pathOf).filter((path) => users(path) < 2)).toEqual([]);
});
