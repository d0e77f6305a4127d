/** The algorithms: for `import … from "flywheel/algo"`. */
export { defineAlgorithm, defineOffline, type AlgorithmFactory } from "./define.ts";
export { gigpo } from "./gigpo.ts";
export { grpo } from "./grpo.ts";
export { processGrpo } from "./process-grpo.ts";
export { sft } from "./sft.ts";
