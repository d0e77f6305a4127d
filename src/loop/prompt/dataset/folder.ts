/** A dataset folder as the Hugging Face hub has it: which files are which split, by the front matter of README.md or by their names. */
import { readdir, readFile } from "node:fs/promises";
import { join, sep } from "node:path";
import { parse } from "yaml";
import { z } from "zod";
import { ConfigError, expected, messageOf } from "../../../errors.ts";
import { isTable } from "./rows.ts";

const paths = z.union([z.string().transform((path) => [path]), z.array(z.string())]);
const dataFiles = z.union([
  z.array(z.looseObject({ split: z.string(), path: paths })),
  paths.transform((path) => [{ split: "train", path }]),
]);
const cardSchema = z.looseObject({
  configs: z
    .array(z.looseObject({ config_name: z.string().default("default"), data_files: dataFiles.optional(), data_dir: z.string().optional() }))
    .optional(),
});

/** Words in a path that name a split. */
const words = {
  train: /(?:^|[-_./ ])train(?:ing)?(?=[-_./ ]|$)/,
  validation: /(?:^|[-_./ ])(?:validation|valid|val|dev)(?=[-_./ ]|$)/,
  test: /(?:^|[-_./ ])(?:test|testing|eval|evaluation)(?=[-_./ ]|$)/,
} as const;

/** Files of each split, in the order of their names. `subset` is a configuration of the card, or a folder. */
export async function splitFiles(folder: string, subset?: string): Promise<ReadonlyMap<string, readonly string[]>> {
  const all = (await readdir(folder, { recursive: true, encoding: "utf8" }))
    .map((path) => path.split(sep).join("/"))
    .filter((path) => isTable(path) && !path.split("/").some((part) => part.startsWith(".")))
    .sort();
  if (all.length === 0) throw new ConfigError(expected(`dataset ${folder}`, "a folder with .parquet, .jsonl, .csv or .tsv files", "none"));
  const configs = (await readCard(folder)).configs ?? [];
  const named = (wanted: string): (typeof configs)[number] | undefined => configs.find(({ config_name: name }) => name === wanted);
  const chosen = subset === undefined ? (named("default") ?? configs[0]) : named(subset);
  if (subset === undefined && configs.length > 1 && chosen!.config_name !== "default") {
    const names = configs.map(({ config_name: name }) => name).join(", ");
    throw new ConfigError(expected(`dataset ${folder}: subset`, `one of ${names}`, "none", "the card has several configurations"));
  }
  if (chosen?.data_files !== undefined) {
    const inside = chosen.data_dir === undefined ? "" : `${chosen.data_dir.replace(/\/$/, "")}/`;
    return absolute(folder, chosen.data_files.map(({ split, path }) => [split, matching(folder, all, path.map((one) => inside + one))]));
  }
  const under = chosen?.data_dir ?? (chosen === undefined ? subset : undefined);
  const own = under === undefined ? all : all.filter((path) => path.startsWith(`${under.replace(/\/$/, "")}/`));
  if (own.length === 0) {
    const found = configs.map(({ config_name: name }) => name).join(", ") || "no such folder and no configuration";
    throw new ConfigError(expected(`dataset ${folder}: subset`, `a configuration or a folder "${subset ?? under ?? ""}"`, found));
  }
  const splits = new Map<string, string[]>();
  for (const path of own) {
    const split = Object.entries(words).find(([, pattern]) => pattern.test(path.toLowerCase()))?.[0] ?? "train";
    splits.set(split, [...(splits.get(split) ?? []), path]);
  }
  return absolute(folder, [...splits]);
}

type Card = z.output<typeof cardSchema>;

const absolute = (folder: string, splits: readonly (readonly [string, readonly string[]])[]): ReadonlyMap<string, readonly string[]> =>
  new Map(splits.map(([split, files]) => [split, files.map((file) => join(folder, file))]));

async function readCard(folder: string): Promise<Card> {
  const text = await readFile(join(folder, "README.md"), "utf8").catch(() => "");
  const front = /^---\r?\n([^]*?)\r?\n---(?:\r?\n|$)/.exec(text)?.[1];
  if (front === undefined) return {};
  try {
    return cardSchema.parse(parse(front) ?? {});
  } catch (cause) {
    const problem = messageOf(cause).split("\n")[0]!;
    throw new ConfigError(expected(`dataset ${folder}/README.md`, "YAML with configs and data_files", problem), { cause });
  }
}

function matching(folder: string, all: readonly string[], patterns: readonly string[]): string[] {
  const found = patterns.flatMap((pattern) => all.filter((path) => globPattern(pattern).test(path)));
  if (found.length > 0) return [...new Set(found)].sort();
  throw new ConfigError(expected(`dataset ${folder}`, `files that match ${patterns.join(", ")}`, `${all.slice(0, 4).join(", ")}`));
}

/** "*" inside a folder's name, "**" across folders, "?" one character. */
function globPattern(glob: string): RegExp {
  const source = glob.replace(/\*\*\/|\*\*|\*|\?|[.+^${}()|[\]\\]/g, (part) => {
    switch (part) {
      case "**/":
        return "(?:.*/)?";
      case "**":
        return ".*";
      case "*":
        return "[^/]*";
      case "?":
        return "[^/]";
      default:
        return `\\${part}`;
    }
  });
  return new RegExp(`^${source}$`);
}
