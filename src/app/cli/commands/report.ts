/** `flywheel report`: the curves and rollouts of a run as SVG, PNG and one HTML file. */
import type { Command } from "commander";
import { visible } from "../../../errors.ts";
import { readRun } from "../../../train/record/read-run.ts";
import { decodeAsIds } from "../../../train/report/token-text.ts";
import { writeReport } from "../../../train/report/write-report.ts";
import type { CliServices } from "../services.ts";
import { painter, wantsColour } from "../ui/colour.ts";
import { beforeAfter } from "../ui/spark.ts";

export function registerReport(program: Command, services: CliServices): void {
  program
    .command("report")
    .description("draw a run's curves and rollouts: report/index.html, curves.svg, curves.png")
    .argument("<run>", "run folder, for example runs/demo")
    .option("--json", "print paths and findings as JSON")
    .action((run: string, options: { readonly json?: boolean }) => report(run, options.json === true, services));
}

async function report(folder: string, json: boolean, services: CliServices): Promise<void> {
  const { config } = await readRun(folder);
  const made = await writeReport(folder, { decode: (await services.decoderFor(config)) ?? decodeAsIds });
  if (json) return void services.stdout.write(`${JSON.stringify(made)}\n`);
  const paint = painter(wantsColour(services.stdout, services.environment));
  const lines = [
    ...(made.success === null ? [] : [beforeAfter("held-out success", made.success, paint)]),
    ...made.findings.map((finding) => paint(visible(finding), "dim")),
    `${paint("page ", "dim")} ${made.html}`,
    `${paint("image", "dim")} ${made.png}`,
  ];
  services.stdout.write(`${lines.join("\n")}\n`);
}
