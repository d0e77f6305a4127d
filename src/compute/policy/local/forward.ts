/** Running the layers over a micro-batch, forward and backward; embedding and row selection are done on the host. */
import type { Pool, HostTensor } from "../../tensor/host.ts";
import type { HostTensors, Program } from "../../tensor/program.ts";
import type { LocalModel } from "./model.ts";
import { causalMask, positionsOf, prefixOf, tokenTables, type MicroBatch } from "./packing.ts";
import type { BlockOptions, Programs } from "./programs.ts";

/** One pass over the layers: its inputs, and what it left for the backward pass. */
export interface Pass {
  readonly ids: Int32Array;
  readonly shape: { readonly groups: number; readonly perGroup: number; readonly length: number; readonly pastLength: number };
  readonly context: HostTensors;
  /** By layer: x, keys, values and residuals; empty when nothing is kept. */
  readonly layers: (Record<string, HostTensor> | undefined)[];
  /** [B * T, hidden] after the last layer. */
  hidden: HostTensor | undefined;
}

export interface PassOptions {
  readonly variant: string;
  readonly keep: "nothing" | "inputs" | "residuals";
}

/** Everything the layers need to run. */
export interface Machine {
  readonly model: LocalModel;
  readonly programs: Programs;
  readonly pool: Pool;
  /** Checked before every layer, so that an abort takes effect within one layer's time. */
  signal?: AbortSignal | undefined;
}

/** Rows of the embedding table, and of learned positions where there are any: -> [ids.length, hidden]. */
function embedRows(machine: Machine, { ids, context }: Pass, variant: string): HostTensor {
  const parameters = machine.model.parametersOf(variant);
  const width = machine.model.architecture.hidden;
  const out = machine.pool.take([ids.length, width]);
  const table = parameters.get("embed.weight")!.floats;
  const learned = parameters.get("positions.weight")?.floats;
  const positions = context["positions"]!.data as BigInt64Array;
  const target = out.floats;
  for (let i = 0; i < ids.length; i++) {
    const at = ids[i]! * width;
    target.set(table.subarray(at, at + width), i * width);
    if (learned === undefined) continue;
    const position = Number(positions[i]!) * width;
    for (let j = 0; j < width; j++) target[i * width + j] = target[i * width + j]! + learned[position + j]!;
  }
  return out;
}

/** The programs' options for one pass. */
function blockOptions(
  machine: Machine,
  { variant, keep, past, trainable = [] }: { variant: string; keep: PassOptions["keep"]; past: boolean; trainable?: readonly string[] },
): BlockOptions {
  return { past, lora: machine.model.loraOf(variant), save: keep === "residuals", trainable };
}

/** Prefix pass (if the micro-batch has one), then the rows, which see the prefix's keys and values layer by layer. */
export async function runForward(
  machine: Machine,
  micro: MicroBatch,
  options: PassOptions,
): Promise<{ prefix: Pass | undefined; rows: Pass }> {
  const tables = tokenTables(micro);
  const groups = micro.groups.length;
  const hasPrefix = micro.prefixLength > 0;
  const prefix = hasPrefix
    ? makePass(machine, tables.prefixes, {
        groups,
        perGroup: 1,
        length: micro.prefixLength,
        pastLength: 0,
        starts: new Array<number>(groups).fill(0),
      })
    : undefined;
  const starts = micro.slots.map((_, b) => prefixOf(micro, b));
  const rows = makePass(machine, tables.rows, {
    groups: hasPrefix ? groups : micro.slots.length,
    perGroup: micro.perGroup,
    length: micro.length,
    pastLength: micro.prefixLength,
    starts,
  });
  const hold = options.keep === "nothing" ? "nothing" : "all";
  if (prefix !== undefined) {
    await runLayers(machine, prefix, {
      options,
      past: undefined,
      hold: hold === "all" ? "all" : "cache",
    });
  }
  await runLayers(machine, rows, { options, past: prefix, hold });
  if (prefix !== undefined) {
    machine.pool.give(prefix.hidden);
    prefix.hidden = undefined;
    if (options.keep === "nothing") release(machine.pool, prefix);
  }
  return { prefix, rows };
}

function makePass({ model }: Machine, ids: Int32Array, { starts, ...shape }: Pass["shape"] & { starts: readonly number[] }): Pass {
  const context = {
    positions: positionsOf(starts, shape.length, model.architecture.context),
    mask: causalMask(shape.pastLength === 0 ? starts.map(() => 0) : starts, shape.length, shape.pastLength),
  };
  return { ids, shape, context, layers: [], hidden: undefined };
}

/** What a pass leaves behind: all that its backward pass needs, its keys and values for the rows to see, or nothing. */
type Hold = "all" | "cache" | "nothing";

interface LayerOptions {
  readonly options: PassOptions;
  readonly past: Pass | undefined;
  readonly hold: Hold;
}

async function runLayers(machine: Machine, pass: Pass, { options, past, hold }: LayerOptions): Promise<void> {
  const { model, programs, pool } = machine;
  const program = await programs.blockForward(blockOptions(machine, { ...options, past: past !== undefined }));
  let x = embedRows(machine, pass, options.variant);
  for (let i = 0; i < model.architecture.layers; i++) {
    machine.signal?.throwIfAborted();
    const { y, ...kept } = await program.run(layerFeeds(machine, { pass, past, layer: i, x, variant: options.variant }), {
      pool,
      sizes: sizesOf(pass),
    });
    if (hold === "all") pass.layers.push({ x, ...kept });
    else {
      pool.give(x);
      if (hold === "cache") pass.layers.push(kept);
      else pool.give(...Object.values(kept));
    }
    x = y!;
  }
  pass.hidden = x;
}

/** Sizes that no input's shape binds by itself. */
function sizesOf({ shape }: Pass): Readonly<Record<string, number>> {
  return { P: shape.groups, G: shape.perGroup, T: shape.length };
}

function layerFeeds(
  machine: Machine,
  { pass, past, layer, x, variant }: { pass: Pass; past: Pass | undefined; layer: number; x: HostTensor; variant: string },
): HostTensors {
  const cached = past?.layers[layer];
  return {
    ...machine.model.feeds(variant, layer),
    ...pass.context,
    x,
    ...(cached === undefined ? {} : { pastKeys: cached["keys"]!, pastValues: cached["values"]! }),
  };
}

/** Gradient buffers by full parameter name. */
export interface Gradients {
  readonly buffers: ReadonlyMap<string, HostTensor>;
}

interface BackwardOptions {
  readonly keep: PassOptions["keep"];
  readonly trainable: readonly string[];
  readonly variant: string;
  readonly gradients: Gradients;
}

/** dHidden of the rows -> gradients of all trainable parameters, and the passes' memory given back. */
export async function runBackward(
  machine: Machine,
  { prefix, rows }: { prefix: Pass | undefined; rows: Pass },
  { dHidden, ...options }: BackwardOptions & { dHidden: HostTensor },
): Promise<void> {
  const fromRows = await backThroughLayers(machine, rows, { ...options, dy: dHidden, past: prefix, cacheGradients: undefined });
  if (prefix === undefined) return;
  const dy = machine.pool.take([prefix.ids.length, machine.model.architecture.hidden]);
  dy.floats.fill(0);
  await backThroughLayers(machine, prefix, { ...options, dy, past: undefined, cacheGradients: fromRows });
}

type CacheGradient = { readonly keys: HostTensor; readonly values: HostTensor };

async function backThroughLayers(
  machine: Machine,
  pass: Pass,
  {
    dy: start,
    past,
    cacheGradients,
    ...options
  }: BackwardOptions & { dy: HostTensor; past: Pass | undefined; cacheGradients: CacheGradient[] | undefined },
): Promise<CacheGradient[]> {
  const { model, programs, pool } = machine;
  const cacheSeeds = cacheGradients !== undefined;
  const program = await programs.blockBackward({ ...blockOptions(machine, { ...options, past: past !== undefined }), cacheSeeds });
  const toPast: CacheGradient[] = [];
  let dy = start;
  for (let i = model.architecture.layers - 1; i >= 0; i--) {
    machine.signal?.throwIfAborted();
    const { x, ...kept } = pass.layers[i]!;
    const seeds = cacheGradients?.[i];
    const seeded: HostTensors = seeds === undefined ? {} : { dKeys: seeds.keys, dValues: seeds.values };
    const feeds = { ...layerFeeds(machine, { pass, past, layer: i, x: x!, variant: options.variant }), ...kept, dy, ...seeded };
    const { dx, dPastKeys, dPastValues } = await runAccumulating(program, { feeds, layer: i, sizes: sizesOf(pass), pool, ...options });
    pool.give(dy, x, seeds?.keys, seeds?.values, ...Object.values(kept));
    if (dPastKeys !== undefined && dPastValues !== undefined) toPast[i] = { keys: dPastKeys, values: dPastValues };
    pass.layers[i] = undefined;
    dy = dx!;
  }
  embedBackward(machine, pass, { dx: dy, ...options });
  pool.give(dy);
  return toPast;
}

/** Runs a backward program whose "grad:" outputs are added into the gradient buffers in place. */
function runAccumulating(
  program: Program,
  {
    feeds,
    layer,
    trainable,
    gradients,
    pool,
    sizes,
  }: {
    feeds: HostTensors;
    layer: number;
    trainable: readonly string[];
    gradients: Gradients;
    pool: Pool;
    sizes: Readonly<Record<string, number>>;
  },
): Promise<Record<string, HostTensor>> {
  const all: Record<string, HostTensor> = { ...feeds };
  const into: Record<string, HostTensor> = {};
  for (const name of trainable) {
    const buffer = gradients.buffers.get(`layers.${layer}.${name}`)!;
    all[`acc:${name}`] = buffer;
    into[`grad:${name}`] = buffer;
  }
  return program.run(all, { into, pool, sizes });
}

/** Gradients of table rows are sparse: added row by row, without a pass over the vocabulary. */
function embedBackward(machine: Machine, pass: Pass, { dx, gradients }: { dx: HostTensor; gradients: Gradients }): void {
  const width = machine.model.architecture.hidden;
  const source = dx.floats;
  const table = gradients.buffers.get("embed.weight")?.floats;
  const learned = gradients.buffers.get("positions.weight")?.floats;
  const positions = pass.context["positions"]!.data as BigInt64Array;
  for (const [buffer, rowOf] of [[table, (i: number) => pass.ids[i]!], [learned, (i: number) => Number(positions[i]!)]] as const) {
    if (buffer === undefined) continue;
    for (let i = 0; i < pass.ids.length; i++) {
      const at = rowOf(i) * width;
      for (let j = 0; j < width; j++) buffer[at + j] = buffer[at + j]! + source[i * width + j]!;
    }
  }
}

/** Gives back what a pass still holds. */
export function release(pool: Pool, pass: Pass): void {
  for (const layer of pass.layers) if (layer !== undefined) pool.give(...Object.values(layer));
  pass.layers.length = 0;
  pool.give(pass.hidden);
  pass.hidden = undefined;
}
