/** The scalar head over chosen positions: one value each, and the way back to the hidden states. No vocabulary is touched. */
import { scalarHeadName } from "../../models/scalar-head.ts";
import { floats, type HostTensor } from "../../tensor/host.ts";
import type { Gradients, Machine, Pass } from "./forward.ts";
import { addRows, gatherRows, type Selection } from "./head.ts";

export interface ValueResult {
  readonly values: Float32Array;
  readonly feeds: Readonly<Record<string, HostTensor>>;
}

/** Values of the selected states. The gathered states stay lent until `valueBackward` or `releaseValues`. */
export async function runValues(
  machine: Machine,
  { pass, selection }: { readonly pass: Pass; readonly selection: Selection },
  variant: string,
): Promise<ValueResult> {
  const { model, programs, pool } = machine;
  const hidden = gatherRows(machine, pass, selection.source);
  const feeds = { ...model.feeds(variant, "head"), hidden };
  const program = await programs.valueForward();
  const result = await program.run(feeds, { pool });
  const values = result["values"]!.floats.slice();
  pool.give(result["values"]);
  return { values, feeds };
}

/** Adds the gradient into dHidden [B * T, D] and into the head's own buffer where it is trained. */
export async function valueBackward(
  machine: Machine,
  { head, selection, dHidden }: { readonly head: ValueResult; readonly selection: Selection; readonly dHidden: HostTensor },
  { dValues, gradients }: { readonly dValues: Float32Array; readonly gradients: Gradients },
): Promise<void> {
  const buffer = gradients.buffers.get(scalarHeadName);
  const program = await machine.programs.valueBackward(buffer !== undefined);
  const accumulator = buffer === undefined ? {} : { [`acc:${scalarHeadName}`]: buffer };
  const into = buffer === undefined ? {} : { [`grad:${scalarHeadName}`]: buffer };
  const result = await program.run({ ...head.feeds, ...accumulator, dValues: floats(dValues) }, { into, pool: machine.pool });
  addRows(dHidden, { rows: result["dHidden"]!, source: selection.source });
  machine.pool.give(result["dHidden"]);
  releaseValues(machine, head);
}

export function releaseValues(machine: Machine, { feeds }: ValueResult): void {
  machine.pool.give(feeds["hidden"]);
}
