/** MiniWoB++ from the package's own files: a scripted policy solves every page, one that clicks at random few. */
import { writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { findChromium } from "../../src/compute/browser/chromium.ts";
import { miniwob } from "../../src/env/miniwob.ts";
import { miniwobFamilies } from "../../src/env/miniwob/families.ts";
import { runPool } from "../../src/loop/rollout/pool.ts";
import { rng } from "../../src/random.ts";
import { randomCall, solve, type Call } from "../fakes/miniwob-policy.ts";
import { playByHand } from "../fakes/site.ts";

const open = (): ReturnType<typeof miniwob> | null => {
  try {
    return miniwob();
  } catch {
    return null;
  }
};

test("what is missing is refused by name", () => {
  const want = "env.root: expected the MiniWoB++ files (core/core.js), got /nowhere; scripts/fetch-miniwob.sh";
  expect(() => miniwob({ root: "/nowhere" })).toThrow(want);
});

describe.skipIf(findChromium() === null || open() === null)("the files and Chromium are there", () => {
  const env = open()!;
  const score = async (index: number, calls: (opening: string, turn: number, page: string) => readonly Call[]): Promise<number> => {
    const task = env.tasks("test").at(index);
    await using hand = await playByHand(env, task);
    let page = hand.opening;
    for (let turn = 0; turn < 8; turn++) {
      for (const call of calls(hand.opening, turn, page)) {
        const step = await hand.take(call);
        page = step.messages.map(({ content }) => content).join("\n");
        if (step.done) return Number(step.reward);
      }
    }
    return 0;
  };

  test("seeds: the same task is the same page, and the splits have none in common", async () => {
    const parities = (split: "train" | "test"): Set<number> =>
      new Set(Array.from({ length: 200 }, (_, i) => Number(env.tasks(split).at(i).data["seed"]) % 2));
    expect([[...parities("train")], [...parities("test")]]).toEqual([[0], [1]]);
    const texts = [];
    for (let i = 0; i < 2; i++) {
      await using hand = await playByHand(env, env.tasks("test").at(3));
      texts.push(hand.opening);
    }
    expect(texts[1]).toBe(texts[0]);
  });

  test("a scripted policy solves every family, a random one mostly none", { timeout: 1_800_000 }, async () => {
    const rounds = Number(process.env.FLYWHEEL_MINIWOB_ROUNDS ?? 1);
    const solved = new Map<string, number>();
    const lucky = new Map<string, number>();
    const add = (map: Map<string, number>, family: string, reward: number): void =>
      void map.set(family, (map.get(family) ?? 0) + Number(reward >= 1));
    const play = async (i: number): Promise<void> => {
      const family = miniwobFamilies[i % miniwobFamilies.length]!;
      const scripted = await score(i, (opening, turn) => (turn === 0 ? solve(family, opening) : []));
      add(solved, family, scripted);
      add(lucky, family, await score(i, (_opening, turn, page) => [randomCall(page, rng(0, "random", i), turn)]));
    };
    const jobs = Array.from({ length: rounds * miniwobFamilies.length }, (_, i) => () => play(i));
    await runPool(jobs, { concurrency: 4 });
    if (process.env.FLYWHEEL_MINIWOB_TABLE !== undefined) {
      const lines = miniwobFamilies.map((family) => `| ${family} | ${solved.get(family)} | ${lucky.get(family)} |`);
      writeFileSync(process.env.FLYWHEEL_MINIWOB_TABLE, `${lines.join("\n")}\n`);
    }
    expect(miniwobFamilies.filter((family) => solved.get(family) !== rounds)).toEqual([]);
    expect([...lucky.values()].reduce((a, b) => a + b)).toBeLessThan(0.5 * rounds * miniwobFamilies.length);
  });
});
