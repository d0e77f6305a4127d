/** `flywheel doctor`: what this machine has and what it can do. */
import { type Command, InvalidArgumentError } from "commander";
import { visible } from "../../../errors.ts";
import { defaultCacheDir } from "../../../compute/models/files/cache.ts";
import { type SandboxFinding, sandboxReport } from "../../../compute/sandbox/open.ts";
import { type MachineRates, measureRates } from "../../../compute/tensor/rates.ts";
import { type CachedModel, cachedModels } from "../machine/cached-models.ts";
import { type Hardware, readHardware } from "../machine/hardware.ts";
import { askHub, findTools, type HubAnswer, type Tools } from "../machine/tools.ts";
import type { CliServices } from "../services.ts";
import { type Paint, painter, wantsColour } from "../ui/colour.ts";
import { byteSize, cacheOption, shownPath } from "../ui/places.ts";

interface Findings extends Hardware, Tools {
  readonly rates: MachineRates;
  readonly cache: { readonly folder: string; readonly models: readonly CachedModel[] };
  readonly hub: HubAnswer & { readonly endpoint: string };
  readonly sandboxes: readonly SandboxFinding[];
}

export function registerDoctor(program: Command, services: CliServices): void {
  program
    .command("doctor")
    .description("what this machine has: processor, memory, measured speed, models, tools")
    .option("-s, --seconds <n>", "time for each of the two measurements", seconds, 1)
    .option("--json", "print everything as JSON")
    .action((options: { readonly seconds: number; readonly json?: boolean }) => doctor(options, services));
}

async function doctor(options: { readonly seconds: number; readonly json?: boolean }, services: CliServices): Promise<void> {
  const { environment, stdout, stderr } = services;
  const endpoint = (environment.HF_ENDPOINT ?? "") || "https://huggingface.co";
  const folder = cacheOption(environment).cacheDir ?? defaultCacheDir();
  const asked = [readHardware(), findTools(), askHub(endpoint), cachedModels(folder), sandboxReport()] as const;
  const [hardware, tools, hub, models, sandboxes] = await Promise.all(asked);
  services.signal.throwIfAborted();
  // Alone, after the processes above: they would disturb it.
  if (stderr.isTTY === true) stderr.write("measuring …");
  const rates = await measureRates(options.seconds);
  if (stderr.isTTY === true) stderr.write("\r\u001b[K");
  const findings: Findings = { ...hardware, rates, cache: { folder, models }, hub: { endpoint, ...hub }, sandboxes, ...tools };
  const paint = painter(wantsColour(stdout, environment));
  const text = options.json === true ? JSON.stringify(findings, null, 2) : lines(findings, paint, services.cwd).join("\n");
  stdout.write(`${text}\n`);
}

function lines(found: Findings, paint: Paint, cwd: string): string[] {
  const { cpu, memory, runtime, rates, cache, hub } = found;
  const row = (label: string, ...values: readonly string[]): string[] =>
    values.map((value, i) => `${paint((i === 0 ? label : "").padEnd(10), "bold")}  ${value}`);
  const extensions = cpu.extensions === null ? [] : [cpu.extensions.join(", ") || paint("no AVX2: matrix products will be slow", "yellow")];
  const speeds = [
    `${rates.gigaflops.toFixed(0)} GFLOP/s in float32 matrix products`,
    `${rates.gigabytes.toFixed(1)} GB/s when reading weights`,
  ];
  const host = hub.endpoint.replace(/^https?:\/\//, "");
  const hubText = hub.reachable
    ? `${paint("✓", "green")} ${host} answers in ${hub.milliseconds} ms`
    : `${paint("–", "yellow")} ${host}: ${hub.reason}`;
  const programs = ["python", "pytest", "sympy", "lean", "chromium"] as const;
  const models = cache.models.length === 0 ? `${shownPath(cwd, cache.folder)}: none pulled yet` : shownPath(cwd, cache.folder);
  return [
    ...row("node", `${found.node} on ${found.platform}`),
    ...row("processor", `${cpu.model}, ${cpu.cores} ${cpu.cores === 1 ? "core" : "cores"}`, ...extensions),
    ...row("memory", `${byteSize(memory.totalBytes)}, ${byteSize(memory.freeBytes)} free`),
    ...row("speed", ...speeds),
    ...row("runtime", `ONNX Runtime ${runtime.version}: ${runtime.providers.join(", ")}`),
    ...row("models", models, ...cache.models.map((model) => modelText(model, paint))),
    ...row("hub", hubText),
    ...row("sandbox", ...found.sandboxes.flatMap((finding) => sandboxTexts(finding, paint))),
    ...row("optional", programs.map((name) => `${name} ${found[name] ?? paint("–", "dim")}`).join(", ")),
  ];
}

function modelText({ id, revision, bytes, complete }: CachedModel, paint: Paint): string {
  const note = complete ? "" : paint("  unfinished: pull again", "yellow");
  return `${visible(id)}${revision === "main" ? "" : ` at ${visible(revision)}`}  ${paint(byteSize(bytes), "dim")}${note}`;
}

/** What it isolates is in `--json` and in docs/sandbox.md; here is what it does not, or how to get it. */
function sandboxTexts({ name, available, version, notIsolated, remedy }: SandboxFinding, paint: Paint): string[] {
  const mark = available ? paint("✓", "green") : paint("–", "yellow");
  const details = available ? notIsolated.map((part) => `not isolated: ${part}`) : (remedy ?? "").split("; ");
  return [`${mark} ${name}${version === null ? "" : ` ${version}`}`, ...details.map((detail) => `  ${paint(detail, "dim")}`)];
}

function seconds(value: string): number {
  const number = Number(value);
  if (!(number > 0 && number <= 60)) throw new InvalidArgumentError("expected seconds, more than 0 and at most 60.");
  return number;
}
