/**
 * Rows -> micro-batches. Rows of a unit that begin with the same tokens share them: the common prefix is computed once for all
 * rows (`prefixes`), the rest row by row (`rows`). Micro-batches are cut by tokens, never inside a unit.
 */
import type { Batch, TrainRow, Unit } from "../../../types.ts";
import { HostTensor } from "../../tensor/host.ts";

/** Where a query may not look; finite, so that a row of padding stays finite too. */
const blocked = -1e9;

/** A row with its place: unit and row index of the batch, so that results go back where they belong. */
interface PlacedRow {
  readonly unit: number;
  readonly index: number;
  readonly row: TrainRow;
}

/** Rows that share their first `prefix` ids; all groups of a micro-batch have a prefix, or none has. */
interface PrefixGroup {
  readonly rows: readonly PlacedRow[];
  readonly prefix: number;
}

export interface MicroBatch {
  readonly groups: readonly PrefixGroup[];
  /** Rows in order, `undefined` where a smaller group is filled up with an empty row. */
  readonly slots: readonly (PlacedRow | undefined)[];
  readonly perGroup: number;
  /** Tokens of the longest prefix (0: none) and of the longest remainder. */
  readonly prefixLength: number;
  readonly length: number;
  readonly prefixLengths: readonly number[];
}

/** Length of the longest common prefix that leaves each row a token to predict its first trained one from. */
function sharedPrefix(rows: readonly TrainRow[]): number {
  const first = rows[0]!;
  if (rows.length === 1) return 0;
  let shared = Math.min(...rows.map((row) => (row.trained[0] ?? row.ids.length) - 1));
  for (const row of rows) {
    let i = 0;
    while (i < shared && row.ids[i] === first.ids[i]) i++;
    shared = i;
  }
  return Math.max(0, shared);
}

/** Sharing pays from a few tokens on; below, an extra pass over the layers costs more than it saves. */
const smallestPrefix = 8;

interface Candidate {
  readonly unit: Unit;
  readonly group: PrefixGroup;
}

/** Cuts a batch into micro-batches of at most `maxTokens` padded tokens (a unit that is larger alone stays whole). */
export function pack(batch: Batch, maxTokens: number): MicroBatch[] {
  const candidates = batch.units.map((unit, unitIndex): Candidate => {
    const rows = unit.rows.map((row, index) => ({ unit: unitIndex, index, row }));
    const prefix = sharedPrefix(unit.rows);
    return { unit, group: { rows, prefix: prefix >= smallestPrefix ? prefix : 0 } };
  });
  const length = ({ rows, prefix }: PrefixGroup): number => Math.max(...rows.map(({ row }) => row.ids.length - prefix));
  const result: MicroBatch[] = [];
  for (const shared of [true, false]) {
    const some = candidates.filter(({ group }) => group.rows.length > 0 && group.prefix > 0 === shared).map(({ group }) => group);
    some.sort((a, b) => length(b) - length(a) || a.rows[0]!.unit - b.rows[0]!.unit);
    let held: PrefixGroup[] = [];
    for (const group of some) {
      if (held.length > 0 && paddedTokens([...held, group], shared) > maxTokens) {
        result.push(microBatch(held, shared));
        held = [];
      }
      held.push(group);
    }
    if (held.length > 0) result.push(microBatch(held, shared));
  }
  return result;
}

function paddedTokens(groups: readonly PrefixGroup[], shared: boolean): number {
  const { slots, length, prefixLength } = microBatch(groups, shared);
  return slots.length * length + groups.length * prefixLength;
}

function microBatch(groups: readonly PrefixGroup[], shared: boolean): MicroBatch {
  const perGroup = shared ? Math.max(...groups.map((group) => group.rows.length)) : 1;
  const slots = shared
    ? groups.flatMap((group) => Array.from({ length: perGroup }, (_, i): PlacedRow | undefined => group.rows[i]))
    : groups.flatMap((group) => group.rows);
  const prefixLengths = groups.map((group) => group.prefix);
  const lengths = groups.flatMap((group) => group.rows.map(({ row }) => row.ids.length - group.prefix));
  return { groups, slots, perGroup, prefixLengths, prefixLength: Math.max(0, ...prefixLengths), length: Math.max(...lengths) };
}

/** Token ids of the prefixes [P, S] and of the remainders [B, T], padded on the right. */
export function tokenTables(micro: MicroBatch): { prefixes: Int32Array; rows: Int32Array } {
  const prefixes = new Int32Array(micro.groups.length * micro.prefixLength);
  micro.groups.forEach(({ rows, prefix }, g) => prefixes.set(rows[0]!.row.ids.subarray(0, prefix), g * micro.prefixLength));
  const rows = new Int32Array(micro.slots.length * micro.length);
  micro.slots.forEach((slot, b) => slot !== undefined && rows.set(slot.row.ids.subarray(prefixOf(micro, b)), b * micro.length));
  return { prefixes, rows };
}

/** Prefix length of the group that row `b` is in. */
export function prefixOf(micro: MicroBatch, b: number): number {
  return micro.prefixLength === 0 ? 0 : micro.prefixLengths[Math.floor(b / micro.perGroup)]!;
}

/** int64 positions [B, T] that go on from each row's prefix; padding may reach beyond the context, where no position is. */
export function positionsOf(starts: readonly number[], length: number, context: number): HostTensor {
  const data = new BigInt64Array(starts.length * length);
  starts.forEach((start, b) => {
    for (let t = 0; t < length; t++) data[b * length + t] = BigInt(Math.min(start + t, context - 1));
  });
  return new HostTensor(data, [starts.length, length]);
}

/** [B, 1, T, S + T]: each query sees the `past[b]` first of S existing tokens, and its own row up to itself. */
export function causalMask(past: readonly number[], length: number, pastLength: number): HostTensor {
  const width = pastLength + length;
  const data = new Float32Array(past.length * length * width);
  past.forEach((seen, b) => {
    for (let t = 0; t < length; t++) {
      const at = (b * length + t) * width;
      data.fill(blocked, at + seen, at + pastLength);
      data.fill(blocked, at + pastLength + t + 1, at + width);
    }
  });
  return new HostTensor(data, [past.length, 1, length, width]);
}
