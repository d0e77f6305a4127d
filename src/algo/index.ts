/** The algorithms: for `import … from "flywheel/algo"`. */
export { defineAlgorithm, defineOffline, type AlgorithmFactory } from "./define.ts";
export { cispo } from "./cispo.ts";
export { dapo } from "./dapo.ts";
export { dppo } from "./dppo.ts";
export { drGrpo } from "./dr-grpo.ts";
export { grpo } from "./grpo.ts";
export { gspo } from "./gspo.ts";
export { maxrl } from "./maxrl.ts";
export { reinforce } from "./reinforce.ts";
export { reinforcePlusPlus } from "./reinforce-plus-plus.ts";
export { reinforcePlusPlusBaseline } from "./reinforce-plus-plus-baseline.ts";
export { remax } from "./remax.ts";
export { rloo } from "./rloo.ts";
export { sft } from "./sft.ts";
