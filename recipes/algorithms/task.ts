/** The task that all algorithms are compared on: questions of the desk that need a sum, and the shipped model. */
import { desk } from "../../src/env/desk.ts";

export const model = "models/desk-1m";
export const env = { name: "desk", kinds: ["calculator"] };
export const environment = desk({ kinds: ["calculator"] });
export const rollout = { maxTokens: 64, maxTurns: 4, concurrency: 128 };
export const folder = "runs/algorithms";
