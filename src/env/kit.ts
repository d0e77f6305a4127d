/** What an environment is made of, without the engine: for `import … from "flywheel/env"`. */
export { defineEnv, type AnswerContext, type EnvDefinition, type EpisodeView } from "../loop/rollout/tool-env.ts";
export { checkEnv, type CheckEnvOptions, type EnvCheck } from "../loop/rollout/check-env.ts";
export { defineTool } from "../loop/rollout/tools.ts";
export { dataset, tasksFrom, type DatasetOptions } from "../loop/prompt/dataset.ts";
export { openDataset, type OpenDatasetOptions, type OpenedDataset } from "../loop/prompt/dataset/open.ts";
export { gated, weighted } from "../loop/reward/compose.ts";
export { exactText } from "../loop/reward/verifiers/exact-text.ts";
export { number } from "../loop/reward/verifiers/number.ts";
export { codeTool } from "./tools/code.ts";
export { booking, type BookingOptions } from "./booking.ts";
export { desk } from "./desk.ts";
export { house, type HouseOptions } from "./house.ts";
export { review, type ReviewOptions } from "./review.ts";
export { policyUser, type PolicyUserOptions, type User } from "./user/user.ts";
