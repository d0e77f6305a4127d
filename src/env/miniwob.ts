/**
 * MiniWoB++ (Shi et al. 2017; Liu et al. 2018, arXiv:1802.08802): small web tasks, played in Chromium from the files of the PyPI
 * package `miniwob`. The page's own reward without its decay over time is the score; where it is negative the score is 0.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { ConfigError, EnvError, expected } from "../errors.ts";
import { defaultCacheDir } from "../compute/models/files/cache.ts";
import { integer, rng } from "../random.ts";
import type { Env, Split, Task, TaskSource, Json } from "../types.ts";
import { browserEnv } from "./browser.ts";
import type { BrowserOptions } from "../compute/browser/chromium.ts";
import { miniwobFamilies } from "./miniwob/families.ts";
import { begin, isOver, rawReward } from "./miniwob/page.ts";

export interface MiniwobOptions extends BrowserOptions {
  /** The package's folder `miniwob/html`; default: FLYWHEEL_MINIWOB, else where scripts/fetch-miniwob.sh puts it. */
  readonly root?: string;
  /** Names of task files; default: those that the accessibility tree shows enough of. */
  readonly families?: readonly string[];
  readonly seed?: number;
  readonly maxTurns?: number;
  /** Seconds of the page's own clock, after which the page scores -1. */
  readonly timeLimit?: number;
  /** Tasks of each family. */
  readonly sizes?: { readonly [S in Split]: number };
}

/** A site that exists inside the browser's proxy alone. */
const ORIGIN = "http://miniwob.test";

/** The MiniWoB++ environment. The seeds of the two splits are disjoint. */
export function miniwob({
  root = process.env.FLYWHEEL_MINIWOB || join(defaultCacheDir(), "miniwob", "html"),
  families = miniwobFamilies,
  seed = 0,
  maxTurns = 12,
  timeLimit = 300,
  sizes = { train: 1000, test: 100 },
  ...browser
}: MiniwobOptions = {}): Env {
  if (!existsSync(join(root, "core", "core.js"))) {
    const remedy = "scripts/fetch-miniwob.sh fetches them, or name the package's folder with root or FLYWHEEL_MINIWOB";
    throw new ConfigError(expected("env.root", "the MiniWoB++ files (core/core.js)", root, remedy));
  }
  const missing = families.find((family) => !/^[a-z0-9-]+$/.test(family) || !existsSync(join(root, "miniwob", `${family}.html`)));
  if (missing !== undefined || families.length === 0) {
    throw new ConfigError(expected("env.families", `names of files in ${join(root, "miniwob")}`, missing ?? "an empty list"));
  }
  if (!(timeLimit > 0)) throw new ConfigError(expected("env.timeLimit", "seconds above 0", String(timeLimit)));
  return browserEnv({
    ...browser,
    name: "miniwob",
    tasks: (split) => tasksOf(split, { families, seed, size: sizes[split] * families.length }),
    site: ({ data }) => ({
      url: `${ORIGIN}/miniwob/${textOf(data["family"])}.html`,
      origins: [],
      site: { origin: ORIGIN, folder: root },
    }),
    begin: (page, task) => begin(page, { seed: textOf(task.data["seed"]), milliseconds: timeLimit * 1000 }),
    over: isOver,
    grade: async (page) => Math.max(0, await rawReward(page)),
    maxTurns,
    showAddress: false,
  });
}

/** Every family in turn, so that the first tasks of a split have all of them. */
const textOf = (value: Json | undefined): string => (typeof value === "number" || typeof value === "string" ? `${value}` : "");

function tasksOf(split: Split, { families, seed, size }: { families: readonly string[]; seed: number; size: number }): TaskSource {
  const at = (index: number): Task => {
    if (!Number.isInteger(index) || index < 0 || index >= size) {
      throw new EnvError(expected("miniwob: task index", `0 to ${size - 1}`, String(index)));
    }
    const family = families[index % families.length]!;
    const number = Math.floor(index / families.length);
    // Even seeds are for training, odd ones for the test.
    const drawn = 2 * integer(rng(seed, "miniwob", family, split, number), 2 ** 30, 0) + (split === "train" ? 0 : 1);
    const content = "Do what is asked on the web page by calling tools. Elements are named by their references.";
    return { id: `miniwob-${family}-${drawn}`, prompt: [{ role: "user", content }], data: { family, seed: drawn } };
  };
  return { size, at };
}
