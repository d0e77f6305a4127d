/**
 * `npm run bench`: every figure that needs no other system, each also as a fraction of what the machine can do.
 * One process a group, so that no group pays for another's memory. Progress goes to stderr, the result to stdout.
 */
import { execFile } from "node:child_process";
import { cpus, loadavg, totalmem } from "node:os";
import { fileURLToPath } from "node:url";
import { parseArgs, promisify } from "node:util";
import { table } from "../src/app/cli/ui/table.ts";
import { expected } from "../src/errors.ts";
import type { Figure, FigureGroup } from "./figure.ts";
import { grpoStep } from "./rows/grpo-step.ts";
import { agreement, decode, prefill } from "./rows/sampling.ts";
import { serving } from "./rows/serving.ts";
import { fullStep, loraMemory, loraStep } from "./rows/train-step.ts";
import { load, publish } from "./rows/weights.ts";
import { shapeNames, type ShapeName } from "./shapes.ts";

const groups: Readonly<Record<string, FigureGroup>> = {
  lora: loraStep, full: fullStep, grpo: grpoStep, decode, prefill, agreement, serving, memory: loraMemory, publish, load,
};

const usage = `npm run bench -- [options]
  --only a,b      groups: ${Object.keys(groups).join(", ")}
  --shape name    ${shapeNames.join(" or ")}; default smollm2 (SmolLM2-135M, random weights)
  --repeats n     timed repeats of each figure, at least 1; default 5
  --quick         smaller GRPO step and shorter decoding
  --json          one JSON object on stdout`;

interface Options {
  readonly only: readonly string[];
  readonly shape: ShapeName;
  readonly repeats: number;
  readonly quick: boolean;
  readonly json: boolean;
  readonly child: boolean;
}

function readOptions(args: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...args],
    options: {
      only: { type: "string" }, shape: { type: "string", default: "smollm2" }, repeats: { type: "string", default: "5" },
      quick: { type: "boolean", default: false }, json: { type: "boolean", default: false },
      child: { type: "boolean", default: false }, help: { type: "boolean", default: false },
    },
  });
  if (values.help) {
    process.stdout.write(`${usage}\n`);
    process.exit(0);
  }
  const only = values.only?.split(",") ?? Object.keys(groups);
  const unknown = only.find((name) => !Object.hasOwn(groups, name));
  const known = Object.keys(groups).join(", ");
  if (unknown !== undefined) throw new RangeError(expected("bench --only", `some of ${known}`, unknown));
  const shape = shapeNames.find((name) => name === values.shape);
  if (shape === undefined) throw new RangeError(expected("bench --shape", `one of ${shapeNames.join(", ")}`, values.shape));
  const repeats = Number(values.repeats);
  if (!Number.isInteger(repeats) || repeats < 1) {
    throw new RangeError(expected("bench --repeats", "an integer of at least 1", values.repeats));
  }
  return { only, shape, repeats, quick: values.quick, json: values.json, child: values.child };
}

async function inChild(name: string, { shape, repeats, quick }: Options): Promise<Figure[]> {
  const args = ["--child", "--only", name, "--shape", shape, "--repeats", String(repeats), ...(quick ? ["--quick"] : [])];
  const running = promisify(execFile)(process.execPath, [fileURLToPath(import.meta.url), ...args], { maxBuffer: 1 << 24 });
  running.child.stderr?.pipe(process.stderr);
  return JSON.parse((await running).stdout) as Figure[];
}

function cells({ name, value, unit, fractionOfLimit, limitedBy, machine, processors, note }: Figure): string[] {
  const amount = value === 0 ? "0" : value < 0.01 ? value.toExponential(1) : value < 100 ? value.toPrecision(3) : value.toFixed(0);
  return [
    name, amount, unit, fractionOfLimit === undefined ? "" : `${(100 * fractionOfLimit).toFixed(0)} %`, limitedBy ?? "",
    machine === undefined ? "" : (machine.flops / 1e9).toFixed(0), machine === undefined ? "" : (machine.bytes / 1e9).toFixed(1),
    processors?.toFixed(1) ?? "", note ?? "",
  ];
}

const left = (title: string): { title: string; align: "left" } => ({ title, align: "left" });
const right = (title: string): { title: string; align: "right" } => ({ title, align: "right" });
const columns = [
  left("what"), right("value"), left("unit"), right("of limit"), left("limit"),
  right("GFLOP/s"), right("GB/s"), right("CPUs"), left("note"),
];

async function main(): Promise<void> {
  const options = readOptions(process.argv.slice(2));
  if (options.child) {
    const [name] = options.only;
    const say = (line: string): void => void process.stderr.write(`  ${name!}: ${line}\n`);
    const parent = process.ppid;
    setInterval(() => process.ppid !== parent && process.exit(1), 500).unref(); // never measures for nobody
    process.stdout.write(JSON.stringify(await groups[name!]!({ ...options, say })));
    return;
  }
  const figures: Figure[] = [];
  const failed: string[] = [];
  for (const name of options.only) {
    process.stderr.write(`bench: ${name}\n`);
    try {
      figures.push(...(await inChild(name, options)));
    } catch (error) {
      failed.push(name);
      process.stderr.write(`bench: ${name} failed: ${error instanceof Error ? error.message : String(error)}\n`);
    }
  }
  const processor = cpus()[0]?.model ?? "unknown";
  const host = { processor, cores: cpus().length, memory: totalmem(), node: process.version, load: loadavg()[0]! };
  const { shape, repeats, quick } = options;
  if (options.json) process.stdout.write(`${JSON.stringify({ shape, repeats, quick, host, figures, failed })}\n`);
  else {
    const memory = `${(host.memory / 2 ** 30).toFixed(0)} GiB`;
    const machine = `${host.cores} x ${host.processor}, ${memory}, Node ${host.node}, load ${host.load.toFixed(1)}`;
    process.stdout.write(`${shape}, ${machine}\n${table(columns, figures.map(cells)).join("\n")}\n`);
  }
  process.exitCode = failed.length === 0 ? 0 : 1;
}

await main();
