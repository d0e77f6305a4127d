/**
 * Web pages as an environment: the agent sees the accessibility tree with references and acts on it with tools. Each episode has a
 * context of its own; only the origins of its task can be reached. A crash is an infrastructure failure and never a score.
 */
import { EnvError, expected } from "../errors.ts";
import { turnRewards } from "../loop/reward/compose.ts";
import type { Env } from "../types.ts";
import { browserPlaces } from "../compute/browser/chromium.ts";
import { startEpisode, type BrowserEnvDefinition } from "./browser/episode.ts";
import { browserTools } from "./browser/tools.ts";

/** Makes an environment of web pages. Chromium is started with the first episode. */
export function browserEnv(definition: BrowserEnvDefinition): Env {
  const { name, tasks, reference, maxTurns = 10 } = definition;
  if (!(maxTurns >= 1)) throw new EnvError(expected(`environment ${name}: maxTurns`, "at least 1", String(maxTurns)));
  const place = browserPlaces(definition);
  return {
    name,
    tools: browserTools(null),
    tasks,
    reward: turnRewards(),
    start: (task) => startEpisode(task, { ...definition, place, maxTurns }),
    ...(reference === undefined ? {} : { reference }),
  };
}
