/** What an environment is made of, without the engine: for `import … from "flywheel/env"`. */
export { defineEnv, type EnvDefinition, type EpisodeView } from "../loop/rollout/tool-env.ts";
export { defineTool } from "../loop/rollout/tools.ts";
export { dataset, tasksFrom, type DatasetOptions } from "../loop/prompt/dataset.ts";
export { gated, turnRewards, weighted } from "../loop/reward/compose.ts";
export { toolShaping } from "../loop/reward/tool-shaping.ts";
export { exactText } from "../loop/reward/verifiers/exact-text.ts";
export { number } from "../loop/reward/verifiers/number.ts";
export { codeTool } from "./tools/code.ts";
export { desk } from "./desk.ts";
