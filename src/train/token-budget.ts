/** Ends a run that has sampled as many tokens as it may. What it has sampled is kept in checkpoints, so that a resumed run ends alike. */
import { RunError, expected } from "../errors.ts";
import type { Group, Json } from "../types.ts";
import type { RunContext } from "./keep.ts";

export class TokenBudget {
  readonly #limit: number;
  #spent: number;

  /** The budget of `train.maxSampledTokens`, less what the checkpoint that the run goes on from says was sampled. */
  constructor({ config, run }: { readonly config: RunContext["config"]; readonly run: Pick<RunContext["run"], "resumedFrom"> }) {
    this.#limit = config.train.maxSampledTokens;
    const { name, manifest } = run.resumedFrom ?? {};
    this.#spent = manifest === undefined ? 0 : spentIn(manifest.extra["sampledTokens"], `checkpoint ${name}`);
  }

  /** Tokens sampled since the first step: of completions that were trained on, of those that others replaced, and of greedy ones. */
  get spent(): number {
    return this.#spent;
  }

  /** Why the run ends, if nothing is left. */
  get exhausted(): string | undefined {
    if (this.#limit === 0 || this.#spent < this.#limit) return undefined;
    return `${this.#spent} tokens sampled of train.maxSampledTokens ${this.#limit}`;
  }

  add(groups: readonly Group[]): void {
    for (const { members, greedy } of groups)
      for (const { trajectory } of greedy === undefined ? members : [...members, greedy])
        for (const { spans } of trajectory.rows)
          for (const span of spans) if (span.kind === "sampled") this.#spent += span.ids.length;
  }
}

/** Checkpoints of runs without a count begin at 0. */
function spentIn(value: Json | undefined, where: string): number {
  if (value === undefined) return 0;
  if (typeof value === "number" && Number.isInteger(value) && value >= 0) return value;
  throw new RunError(expected(where, "a count of sampled tokens", JSON.stringify(value)));
}
