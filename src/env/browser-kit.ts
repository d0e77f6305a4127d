/** Environments of web pages, as `flywheel/browser`: apart from the rest, since their types name those of playwright-core. */
export { browserEnv } from "./browser.ts";
export type { BrowserEnvDefinition } from "./browser/episode.ts";
export { miniwob, type MiniwobOptions } from "./miniwob.ts";
