/** Supervised rows from dialogues: assistant turns are trained with their end of turn, everything else is context. */
import { ConfigError, expected } from "../../errors.ts";
import type { ChatRenderer } from "../../compute/text/renderer.ts";
import type { Batch, Message, Reduction, TrainRow, ToolSpec } from "../../types.ts";

interface Dialogue {
  readonly messages: readonly Message[];
  readonly tools?: readonly ToolSpec[];
}

/** Ids and trained positions of a dialogue; a row for each run of turns that the template keeps in one piece. */
export interface EncodedDialogue {
  readonly ids: Int32Array;
  readonly trained: Int32Array;
}

/** Encodes a dialogue turn by turn, as a rollout would have made it. Refused (with `where`) if no assistant turn is in it. */
export function encodeDialogue(renderer: ChatRenderer, { messages, tools = [] }: Dialogue, where: string): EncodedDialogue[] {
  const first = messages.findIndex(({ role }) => role === "assistant");
  if (first < 1)
    throw new ConfigError(
      expected(where, "a prompt and then an assistant message", first === 0 ? "an assistant message first" : "no assistant message"),
    );
  let { ids: context, state } = renderer.start(messages.slice(0, first), tools);
  const rows: EncodedDialogue[] = [];
  let ids = [...context];
  let trained: number[] = [];
  for (let at = first; at < messages.length; ) {
    const turn = renderer.encodeTurn(state, messages[at]!);
    turn.forEach((_, t) => trained.push(ids.length + t));
    ids.push(...turn);
    let next = at + 1;
    while (next < messages.length && messages[next]!.role !== "assistant") next++;
    if (next >= messages.length) break;
    const finish = { type: "eos", id: turn.at(-1)! } as const;
    const extension = renderer.extend(state, { ids: turn, message: messages[at]!, finish }, messages.slice(at + 1, next));
    if (extension.kind === "new-row") {
      rows.push({ ids: Int32Array.from(ids), trained: Int32Array.from(trained) });
      ids = [];
      trained = [];
    }
    ({ ids: context, state } = extension);
    ids.push(...context);
    at = next;
  }
  rows.push({ ids: Int32Array.from(ids), trained: Int32Array.from(trained) });
  return rows;
}

/** A supervised batch, one unit a row; weights by the stated reduction over the whole batch. */
export function supervisedBatch(rows: readonly EncodedDialogue[], reduction: Exclude<Reduction, "constant">): Batch {
  const tokens = rows.reduce((sum, { trained }) => sum + trained.length, 0);
  const units = rows.map(({ ids, trained }) => {
    const weight = reduction === "token-mean" ? 1 / tokens : 1 / (rows.length * trained.length);
    const row: TrainRow = { ids, trained, fields: { weight: new Float32Array(trained.length).fill(weight) }, temperature: 1 };
    return { rows: [row] };
  });
  return { units, scalars: { tokens } };
}
