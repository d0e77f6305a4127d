/** What the package offers, written by hand. */
export type * from "./types.ts";
export type { BoundaryName } from "./errors.ts";
export {
  ConfigError,
  EnvError,
  FlywheelError,
  ModelError,
  PolicyError,
  RewardError,
  RunError,
  SandboxError,
  TokenizerError,
  ToolError,
  ToolUnavailableError,
  finite,
  scored,
} from "./errors.ts";

export { train, type TrainOptions, type TrainResult } from "./train/train.ts";
export { terminal } from "./train/terminal.ts";
export type { TrainConfig, TrainConfigInput } from "./train/config.ts";
export { collectGroups } from "./train/collect.ts";
export { evaluate, type Evaluation } from "./train/evaluate/evaluate.ts";
export { pairedBootstrap, pairedRates, passAtK, wilson, type Interval } from "./train/evaluate/statistics.ts";
export { exportModel, type ExportedModel, type ExportOptions } from "./train/export.ts";
export { openTrained, openTrainedPolicy, type TrainedOptions, type TrainedWeights } from "./train/trained.ts";
export { readRun, readTrajectories } from "./train/record/read-run.ts";
export { writeReport } from "./train/report/write-report.ts";

export { openPolicy, type OpenedPolicy, type OpenPolicyOptions } from "./compute/policy/open.ts";
export { shippedModel } from "./compute/models/files/shipped.ts";
export { LocalEngine, type LocalEngineOptions } from "./compute/policy/local/engine.ts";
export { pullModel, type PullProgress } from "./compute/models/files/hub.ts";
export type { LoraOptions } from "./compute/models/lora.ts";
export { openChatTemplate } from "./compute/text/chat-template.ts";
export { openRenderer, type ChatRenderer } from "./compute/text/renderer.ts";
export { openTokenizer, type Tokenizer } from "./compute/text/tokenizer.ts";
/** Graph functions, for losses. */
export * as ops from "./compute/tensor/ops.ts";

export { memoryTable } from "./compute/policy/local/memory-table.ts";

/** A model that learns from its users while it answers them. */
export { OnlineLLM, type LearnResult } from "./train/online/online.ts";
export type { GenerateOptions, LearnOptions, OnlineOptions } from "./train/online/options.ts";
export type { Answer, Taught } from "./train/online/feedback.ts";
export type { Learned } from "./train/online/adapter.ts";
export type { Told } from "./train/online/journal.ts";
export type { Measured } from "./train/online/update.ts";
export { rlhf, type RlhfOptions, type RlhfResult } from "./train/rlhf.ts";
export { agreement, pairsFromGroups, type JudgedAnswer } from "./loop/reward/agreement.ts";
export { loadRewardModel, modelReward, scoreConversations } from "./loop/reward/reward-model.ts";

export * from "./algo/index.ts";
export { codeTool, dataset, defineEnv, defineTool, desk, exactText, gated, number, tasksFrom, turnRewards, weighted } from "./env/kit.ts";
export { booking, checkEnv, house, mcpTools, openApiTools, openDataset, policyUser, review, searchTool, toolShaping } from "./env/kit.ts";
export type * from "./env/kit.ts";

/** OpenAI's interface over a policy. */
export { agentRollouts, type Agent, type AgentCall, type AgentRollouts } from "./app/server/agent.ts";
export { commandAgent } from "./app/server/agent-command.ts";
export { startServer, type RunningServer, type ServeOptions } from "./app/server/server.ts";

export { openSandbox, sandboxReport, type OpenSandboxOptions } from "./compute/sandbox/open.ts";
export type * from "./compute/sandbox/sandbox.ts";
/** Verifiers, also `flywheel/verifiers`. */
export * as verifiers from "./loop/reward/verifiers/index.ts";

export { rng, uniform } from "./random.ts";
