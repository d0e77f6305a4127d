/** A model as one ONNX file for ONNX Runtime (it uses the runtime's contributed operators): token ids in, logits out. */
import { dim } from "../tensor/dim.ts";
import { HostTensor } from "../tensor/host.ts";
import { onnxFile } from "../tensor/onnx-file.ts";
import * as o from "../tensor/ops.ts";
import type { Tensor } from "../tensor/graph.ts";
import { rotaryTables, type Architecture } from "./architecture.ts";
import { block, embed, head } from "./decoder.ts";
import { writeAtomically, writeFully } from "./files/file-io.ts";
import { parameterShapes, type Parameters } from "./parameters.ts";

const [B, T] = [dim("B"), dim("T")];

/**
 * Writes the graph `ids` [B, T] int64 -> `logits` [B, T, vocabulary] float32 with all weights inside. Rows have no padding:
 * position t attends to positions 0 to t. ModelError above the 2 GB that one ONNX file can hold.
 */
export async function exportOnnx(path: string, architecture: Architecture, parameters: Parameters): Promise<void> {
  const stored = new Map<string, HostTensor>(parameters);
  if (architecture.positions.type === "rotary") {
    const shape = [architecture.context, architecture.headDim / 2];
    const { cos, sin } = rotaryTables(architecture, architecture.context);
    stored.set("cos", new HostTensor(cos, shape)).set("sin", new HostTensor(sin, shape));
  }
  const sizes = { B: { input: "ids", axis: 0 }, T: { input: "ids", axis: 1 } };
  const file = onnxFile({ outputs: { logits: graph(architecture) }, stored, sizes });
  await writeAtomically(path, async (handle) => {
    for (const chunk of file.chunks()) await writeFully(handle, chunk);
  });
}

function graph(architecture: Architecture): Tensor {
  const { context, headDim, vocabulary } = architecture;
  const parameters = new Map([...parameterShapes(architecture)].map(([name, shape]) => [name, o.input(name, shape)] as const));
  const table = (name: string): Tensor => o.input(name, [context, headDim / 2]);
  const tables = { cos: table("cos"), sin: table("sin") };
  const ids = o.input("ids", [B, T], "int64");
  // 1, 2, ... T in every row, less one.
  const places = o.sub(o.cumSum(o.add(o.mul(o.cast(ids, "float32"), 0), 1)), 1);
  const positions = o.cast(places, "int64");
  const later = o.less(o.reshape(places, [B, 1, T, 1]), o.reshape(places, [B, 1, 1, T]));
  const mask = o.where(later, o.constant(-1e9), o.constant(0));
  const rows = { groups: B, perGroup: 1, tokens: T };
  let x = embed(ids, positions, (name) => parameters.get(name));
  for (let i = 0; i < architecture.layers; i++) {
    x = block(x, (name) => parameters.get(`layers.${i}.${name}`), { architecture, positions, tables, mask, rows, loraScale: 0 }).y;
  }
  const logits = head(x, (name) => parameters.get(name), { architecture, inverseTemperature: o.constant(1) });
  return o.reshape(logits, [B, T, vocabulary]);
}
