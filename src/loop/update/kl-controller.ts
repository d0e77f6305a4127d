/** The adaptive weight of KL in the reward (Ziegler et al. 2019, arXiv:1909.08593; the constants are verl's and OpenRLHF's). */
import type { Controller } from "../../types.ts";

interface AdaptiveKl {
  readonly initial: number;
  /** Wanted mean KL of a completion, nats a token. */
  readonly target: number;
  /** Completions over which the weight would change by the full error. */
  readonly horizon: number;
}

const largestError = 0.2;

/** klRewardCoef x= 1 + clip(kl / target - 1, -0.2, 0.2) x completions / horizon, with kl the step's "kl/completionK1". */
export function adaptiveKl({ initial, target, horizon }: AdaptiveKl): Controller {
  return {
    initial: { klRewardCoef: initial },
    next: (coefficients, { metrics, completions }) => {
      const [kl, coef] = [metrics["kl/completionK1"], coefficients["klRewardCoef"]];
      if (kl === undefined || coef === undefined) return coefficients;
      const error = Math.min(largestError, Math.max(-largestError, kl / target - 1));
      return { ...coefficients, klRewardCoef: coef * (1 + (error * completions) / horizon) };
    },
  };
}

/** Several controllers, each with coefficients of its own. */
export function joined(...controllers: readonly Controller[]): Controller {
  return {
    initial: Object.fromEntries(controllers.flatMap(({ initial }) => Object.entries(initial))),
    next: (coefficients, step) => controllers.reduce((all, controller) => ({ ...all, ...controller.next(all, step) }), coefficients),
  };
}
