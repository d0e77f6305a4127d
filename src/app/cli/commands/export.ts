/** `flywheel export`: a trained policy, or any model, for other software. */
import { resolve } from "node:path";
import { type Command, InvalidArgumentError, Option } from "commander";
import { visible } from "../../../errors.ts";
import type { CheckpointChoice } from "../../../train/record/checkpoint.ts";
import { type ExportFormat, exportFormats } from "../../../train/export-formats.ts";
import { type ExportedModel, type ExportOptions, exportModel } from "../../../train/export.ts";
import type { CliServices } from "../services.ts";
import { painter, wantsColour } from "../ui/colour.ts";
import { byteSize, cacheOption, pathFrom, shownPath } from "../ui/places.ts";

type Given = Pick<ExportOptions, "to" | "type" | "base" | "checkpoint"> & { readonly format?: ExportFormat; readonly json?: boolean };

export function registerExport(program: Command, services: CliServices): void {
  program
    .command("export")
    .description("write a trained policy for other software: safetensors, PEFT adapter, GGUF, ONNX")
    .argument("<source>", "run folder, model folder or file, or the hub id of a pulled model")
    .requiredOption("-t, --to <path>", "a new folder (safetensors, peft) or file (gguf, onnx)")
    .addOption(new Option("-f, --format <format>", "what to write (default: as --to ends, else safetensors)").choices(exportFormats))
    .addOption(new Option("--type <type>", "number type (default: F32; F16 for gguf)").choices(["F32", "F16", "Q8_0"]))
    .option("-c, --checkpoint <which>", "of a run: latest, best, or a step (default: latest)", checkpointChoice)
    .option("-b, --base <model>", "of a run: its base model, if that was moved")
    .option("--json", "print what was written as JSON")
    .action((source: string, given: Given) => runExport(source, given, services));
}

async function runExport(source: string, { to, format, type, checkpoint, base, json }: Given, services: CliServices): Promise<void> {
  const { cwd, environment, signal, stdout, command } = services;
  const made = await exportModel(pathFrom(cwd, source), {
    to: resolve(cwd, to),
    ...(format === undefined ? {} : { format }),
    ...(type === undefined ? {} : { type }),
    ...(checkpoint === undefined ? {} : { checkpoint }),
    ...(base === undefined ? {} : { base: pathFrom(cwd, base) }),
    ...cacheOption(environment),
    signal,
  });
  if (json === true) return void stdout.write(`${JSON.stringify(made)}\n`);
  const paint = painter(wantsColour(stdout, environment));
  const path = shownPath(cwd, made.path);
  const from = made.checkpoint === undefined ? made.model : `${made.model}, ${made.checkpoint.name}`;
  const lines = [
    `${paint("wrote", "dim")}  ${path}  ${paint(`(${made.format} ${made.type}, ${byteSize(made.bytes)})`, "dim")}`,
    `${paint("from", "dim")}   ${visible(from)}`,
    ...usages(made, { path, command }).map((usage, i) => `${i === 0 ? paint("use", "dim") : "   "}    ${usage}`),
  ];
  stdout.write(`${lines.join("\n")}\n`);
}

function usages({ format, model }: ExportedModel, { path, command }: { readonly path: string; readonly command: string }): string[] {
  switch (format) {
    case "safetensors":
      return [`${command} chat ${path}`, `AutoModelForCausalLM.from_pretrained("${path}")`];
    case "peft":
      return [`PeftModel.from_pretrained(base, "${path}"), base being ${visible(model)}`];
    case "gguf":
      return [`${command} chat ${path}`, `llama-cli -m ${path}`];
    case "onnx":
      return ["ONNX Runtime: ids [batch, tokens] int64 -> logits [batch, tokens, vocabulary]"];
  }
}

function checkpointChoice(value: string): CheckpointChoice {
  if (value === "latest" || value === "best") return value;
  if (!/^\d+$/.test(value)) throw new InvalidArgumentError("expected latest, best or a step number.");
  return Number(value);
}
