/** Verifiers: for `import … from "flywheel/verifiers"`. What grades with a library loads it when it first grades. */
export { verifierReward, type Verifier, type VerifierInput, type VerifierRewardOptions } from "./verifier.ts";
export { openVerifier, listVerifiers } from "./registry.ts";
export { chatCompletions } from "./chat-completions.ts";
export { citations } from "./citations.ts";
export { codeReward, codeVerifier, type CodeOptions } from "./code.ts";
export { graph } from "./graph.ts";
export { judge, type Complete } from "./judge.ts";
export { jsonSchema } from "./json-schema.ts";
export { leanVerifier } from "./lean.ts";
export { length } from "./length.ts";
export { math } from "./math.ts";
export { sympy } from "./math/sympy.ts";
export { wolframAlpha } from "./math/wolfram.ts";
export { molecule } from "./molecule.ts";
export { quantity } from "./quantity.ts";
export { repetition } from "./repetition.ts";
export { text } from "./text.ts";
export { callsAsText, toolCall } from "./tool-call.ts";
