/** The algorithms: for `import … from "flywheel/algo"`. */
export { grpo, type GrpoOptions } from "./grpo.ts";
export { sft, type SftOptions, type SupervisedAlgorithm } from "./sft.ts";
