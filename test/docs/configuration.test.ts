/** docs/configuration.md says of every key of the schema what the schema says: its default and what is allowed. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
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

/** "path | default | allowed" of every row of the page. */
const lines = readFileSync("docs/configuration.md", "utf8").split("\n");
const rows = lines.flatMap((line) => /^\| `([\w.]+` \| .* \| .*) \| .* \|$/.exec(line)?.[1] ?? []);

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
  const wanted = [...new Set(variants.flatMap(rowsOf))].sort();
  expect([...new Set(rows)].sort()).toEqual(wanted);
});

test("the variants above reach every key of the schema", { timeout: 180_000 }, () => {
  const reached = variants.flatMap(rowsOf).map((row) => row.split("`")[0]);
  const all = sections.flatMap((section) => known(section, variants[0]!).map((key) => `${section}.${key}`));
  expect(all.filter((path) => !reached.includes(path))).toEqual([]);
});
