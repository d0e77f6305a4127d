/** What models say of this step's trajectories, gathered before credit is given. */
import type { CreditContext } from "../types.ts";

/** The context of an algorithm that needs nothing but rewards. */
export function noEvidence(limits: CreditContext["limits"]): CreditContext {
  return { evidence: () => ({}), limits, coefficients: {} };
}
