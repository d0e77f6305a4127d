/**
 * Rows of token ids for the very first phase of pre-training: ids in no order, said again and again. Nothing can be predicted in the
 * first round and everything afterwards, by attending to where the same ids stood before ("In-context learning and induction heads",
 * Olsson et al. 2022). A small model finds that skill in some hundred steps here and needs far longer on sentences alone; a name
 * copied into a tool call and a result copied into an answer are the same skill.
 */
import { draw } from "../../src/env/desk/draw.ts";
import { rng } from "../../src/random.ts";

interface CopyOptions {
  /** Ids to draw from, such as all but the special tokens. */
  readonly ids: readonly number[];
  /** Ids drawn more often, such as the ten digits; they repeat within a round, so copying them needs more than one id of context. */
  readonly often: readonly number[];
  /** Tokens of a row. */
  readonly length: number;
}

interface CopyRow {
  readonly ids: number[];
  /** Position from which every token can be predicted. */
  readonly from: number;
}

/** Row `index`; a function of its arguments. */
export function copyRow(seed: number, index: number, { ids, often, length }: CopyOptions): CopyRow {
  const random = draw(rng(seed, "copy", index));
  const period = random.range(6, Math.max(6, Math.floor(length * 0.4)));
  const round = Array.from({ length: period }, () => random.pick(often.length > 0 && random.range(1, 10) <= 4 ? often : ids));
  return { ids: Array.from({ length }, (_, i) => round[i % period]!), from: period };
}
