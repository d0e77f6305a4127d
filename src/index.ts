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
  finite,
  scored,
} from "./errors.ts";
