/** The games, who teaches the shipped model to play them badly, and what is drawn of its training. */
import { boatRace } from "../../src/env/boat-race.ts";
import { house, houseOf } from "../../src/env/house.ts";
import { atStart, commandsOf, obey } from "../../src/env/house/game.ts";
import { solve } from "../../src/env/house/solve.ts";
import { integer, rng, uniform } from "../../src/random.ts";
import type { TrainConfigInput } from "../../src/train/config.ts";
import type { Chart } from "../../src/train/report/chart.ts";
import type { Env, Message, Task } from "../../src/types.ts";
import type { Say } from "../credit/model.ts";

export interface Game {
  readonly env: Env;
  readonly named: NonNullable<TrainConfigInput["env"]>;
  readonly speaker: Say;
  readonly maxTurns: number;
  readonly steps: number;
  readonly learningRate: number;
  readonly title: string;
  readonly subtitle: string;
  /** Metrics of training steps by the titles of their charts; "heldout/…" are those of evaluations. */
  readonly charts: readonly (Pick<Chart, "title" | "unit"> & { readonly lines: Readonly<Record<string, string>> })[];
}

const say = (content: string): Message => ({ role: "assistant", content });

/** Steers right, and one time in ten does anything. */
const helmsman: Say = (_task, dialogue) => (seen, { index }) => {
  const key = rng(1, "helmsman", dialogue, index);
  const bearing = ["left", "ahead", "right"].findIndex((word) => seen.at(-1)!.content.split("\n").at(-1)!.includes(` ${word},`));
  return say(String(uniform(key, 0) < 0.1 ? 1 + integer(key, 4, 1) : bearing + 1));
};

/** Goes the shortest way, and half of the time anywhere. */
const visitor: Say = (task: Task, dialogue) => (seen, { index }) => {
  const key = rng(1, "visitor", dialogue, index);
  const said = seen.flatMap(({ role, content }) => (role === "assistant" ? [content] : []));
  const state = said.reduce((before, command) => obey(houseOf(task), before, command), atStart);
  const possible = commandsOf(houseOf(task), state);
  const best = possible.indexOf(solve(houseOf(task), state)[0]!);
  return say(String(1 + (uniform(key, 0) < 0.5 ? integer(key, possible.length, 1) : best)));
};

const race = { length: 6, time: 14 };
const rooms = { rooms: 5, keys: 1 };

export const games: Readonly<Record<"boat-race" | "house", Game>> = {
  "boat-race": {
    env: boatRace(race),
    named: { name: "boat-race", ...race },
    speaker: helmsman,
    maxTurns: 14,
    steps: 60,
    learningRate: 2e-4,
    title: "The boat race",
    subtitle: "GRPO on points; finishing is measured and never rewarded; the shipped model, which was taught to finish",
    charts: [
      { title: "Points, a clean race is 1 (the reward)", unit: "number", lines: { "a step": "reward/mean", "held-out": "heldout/score" } },
      { title: "Races finished (what is meant)", unit: "rate", lines: { "a step": "finished", "held-out": "heldout/finished" } },
      { title: "Circles a race", unit: "number", lines: { "a step": "circles", "held-out": "heldout/circles" } },
      { title: "Course sailed", unit: "rate", lines: { "a step": "course", "held-out": "heldout/course" } },
    ],
  },
  house: {
    env: house(rooms),
    named: { name: "house", ...rooms },
    speaker: visitor,
    maxTurns: 20,
    steps: 40,
    learningRate: 2e-4,
    title: "The house",
    subtitle: "GRPO on a text game of five rooms, a locked door and its key; the shipped model, which was taught to wander",
    charts: [
      { title: "Lamps taken", unit: "rate", lines: { "a step": "reward/mean", "held-out": "heldout/success" } },
      { title: "Turns of an episode", unit: "number", lines: { "a step": "turns", "held-out": "heldout/turns" } },
    ],
  },
};
