/** What an environment is made of, without the engine: for `import … from "flywheel/env"`. */
export { defineEnv, type EnvDefinition, type EpisodeView } from "../loop/rollout/tool-env.ts";
export { defineTool } from "../loop/rollout/tools.ts";
export { dataset, tasksFrom, type DatasetOptions } from "../loop/prompt/dataset.ts";
export { gated, weighted } from "../loop/reward/compose.ts";
export { exactText } from "../loop/reward/verifiers/exact-text.ts";
export { number } from "../loop/reward/verifiers/number.ts";
export { codeTool } from "./tools/code.ts";
export { desk } from "./desk.ts";
export { mcpTools } from "./tools/mcp.ts";
export type { McpServer } from "./tools/mcp/server.ts";
export type { ToolSet } from "./tools/tool-set.ts";
export { toolShaping } from "../loop/reward/tool-shaping.ts";
export type { ToolExpectation } from "../tool-use.ts";
export { searchTool, type SearchToolOptions } from "./tools/search.ts";
export { openApiTools, type OpenApiOptions } from "./tools/openapi.ts";
