/**
 * The nouns of the system and the interfaces between its parts; types only, no code.
 * The flow is Task -> Trajectory -> Scored -> Credit -> Batch -> Gradients -> Weights.
 */
export type * from "./types/episode.ts";
export type * from "./types/training.ts";
export type * from "./types/algorithm.ts";
