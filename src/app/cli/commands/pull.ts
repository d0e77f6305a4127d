/** `flywheel pull`: a model from the Hugging Face hub into the cache; an interrupted pull continues where it stopped. */
import { join } from "node:path";
import type { Command } from "commander";
import { pullModel, type PullProgress } from "../../../compute/models/files/hub.ts";
import type { CliServices } from "../services.ts";
import { painter, wantsColour } from "../ui/colour.ts";
import { byteSize, cacheOption, shownPath } from "../ui/places.ts";
import { duration, progress } from "../ui/progress.ts";

interface PullOptions {
  readonly revision?: string;
  readonly gguf?: string;
  readonly cache?: string;
}

export function registerPull(program: Command, services: CliServices): void {
  program
    .command("pull")
    .description("fetch a model from the Hugging Face hub: resumable, checksums verified")
    .argument("<id>", "hub id, for example HuggingFaceTB/SmolLM2-135M-Instruct")
    .option("-r, --revision <name>", "branch, tag or commit (default: main)")
    .option("-g, --gguf <file>", "fetch this one .gguf file instead of safetensors")
    .option("-c, --cache <folder>", "where models are kept (default: $FLYWHEEL_CACHE, or ~/.cache/flywheel)")
    .addHelpText("after", "\nHF_TOKEN gives access to gated models, HF_ENDPOINT names a mirror.")
    .action((id: string, options: PullOptions) => pull(id, options, services));
}

async function pull(id: string, options: PullOptions, services: CliServices): Promise<void> {
  const { environment, signal, stderr, stdout, cwd, command } = services;
  const meter = pullMeter(id, services);
  const began = Date.now();
  const set = (name: string, value: string | undefined): object => (value === undefined || value === "" ? {} : { [name]: value });
  let folder: string;
  try {
    folder = await pullModel(id, {
      ...set("revision", options.revision),
      ...set("gguf", options.gguf),
      ...set("endpoint", environment.HF_ENDPOINT),
      ...set("token", environment.HF_TOKEN),
      ...cacheOption(environment, options.cache),
      signal,
      onProgress: (now) => meter.see(now),
    });
  } catch (cause) {
    meter.end();
    if (signal.aborted) stderr.write(`stopped${meter.text()}; run it again to continue\n`);
    throw cause;
  }
  meter.end();
  const paint = painter(wantsColour(stdout, environment));
  const plain = options.revision === undefined && options.cache === undefined;
  const path = shownPath(cwd, options.gguf === undefined ? folder : join(folder, options.gguf));
  const spec = plain && options.gguf === undefined ? id : path.includes(" ") ? `"${path}"` : path;
  const seconds = (Date.now() - began) / 1000;
  const fetched = meter.fetched === 0 ? "already complete" : `${byteSize(meter.fetched)} fetched in ${duration(seconds)}`;
  stdout.write(`${paint("model", "dim")}  ${path}  ${paint(`(${fetched})`, "dim")}\n${paint("use", "dim")}    ${command} chat ${spec}\n`);
}

/** Redraws at most ten times a second on a terminal, and writes a line every five seconds elsewhere. */
function pullMeter(id: string, { stderr, environment }: CliServices) {
  const pause = stderr.isTTY === true ? 100 : 5000;
  let bar: ReturnType<typeof progress> | undefined;
  let last: PullProgress | undefined;
  let drawn = 0;
  const draw = (now: PullProgress): void => {
    bar ??= progress({ label: id, total: now.total, stream: stderr, environment, show: byteSize });
    bar.update(now.done, {}, now.bytesPerSecond);
    drawn = performance.now();
  };
  return {
    /** Bytes that came over the network; 0 if everything was there. */
    fetched: 0,
    see(now: PullProgress): void {
      last = now;
      this.fetched = Math.max(this.fetched, now.fetched);
      if (now.fetched > 0 && performance.now() - drawn >= pause) draw(now);
    },
    text: (): string => (last === undefined ? "" : ` at ${byteSize(last.done)} of ${byteSize(last.total)}`),
    end(): void {
      if (last !== undefined && this.fetched > 0) draw(last);
      bar?.end();
    },
  };
}
