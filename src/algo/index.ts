/** The algorithms: for `import … from "flywheel/algo"`. */
export { defineAlgorithm, defineOffline, type AlgorithmFactory } from "./define.ts";
export { grpo } from "./grpo.ts";
export { sft } from "./sft.ts";
