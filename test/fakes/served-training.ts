/** One small training step for tests in which a policy is trained while it serves. */
import * as o from "../../src/compute/tensor/ops.ts";
import type { Batch, Loss } from "../../src/types.ts";
import { trainRow } from "./engines.ts";

const likelihood: Loss = { key: "test/likelihood", build: ({ logprobs }) => ({ loss: o.neg(o.sum(logprobs)), metrics: {} }) };

/** A batch of one row, other ids at each step, and a loss that makes it likelier. */
export function lossOf(step: number): [Batch, Loss] {
  const ids = Array.from({ length: 16 }, (_, i) => 10 + ((i * 7 + step * 13) % 400));
  return [
    {
      units: [
        {
          rows: [
            trainRow(
              ids,
              ids.slice(1).map((_, i) => i + 1),
              { temperature: 1 },
            ),
          ],
        },
      ],
      scalars: {},
    },
    likelihood,
  ];
}
