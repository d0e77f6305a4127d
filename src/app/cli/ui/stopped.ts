/** What an interrupted run says: how far it came, where a resume begins, and the command for it. */
import { newestCheckpoint } from "../../../train/record/checkpoint.ts";
import { readRun } from "../../../train/record/read-run.ts";
import { isRunFolder } from "../../../train/trained.ts";
import type { CliServices } from "../services.ts";

interface StoppedOptions {
  /** The run's folder. */
  readonly folder: string;
  /** The words of the command that resumes it, after the program's own. */
  readonly resume: readonly string[];
  readonly json: boolean;
}

/** Writes one line to standard error (with `json` as a JSON object), if it was the user who ended the run. */
export async function tellStopped({ folder, resume, json }: StoppedOptions, { signal, stderr, command }: CliServices): Promise<void> {
  if (!signal.aborted) return;
  const began = await isRunFolder(folder);
  const step = began ? (await readRun(folder)).ledger.length : 0;
  const from = began ? await newestCheckpoint(folder) : 0;
  const words = [command, ...resume.map(quoted)].join(" ");
  if (json) return void stderr.write(`${JSON.stringify({ event: "stopped", step, resumesAfter: from, resume: began ? words : null })}\n`);
  stderr.write(began ? `stopped after step ${step}${again(step, from)}; go on with: ${words}\n` : "stopped before the run began\n");
}

/** Steps after the last checkpoint are taken again. */
function again(step: number, from: number): string {
  if (step === from) return "";
  if (from === 0) return ", before the first checkpoint: a resumed run begins again";
  const count = step - from === 1 ? "step" : `${step - from} steps`;
  return `; the ${count} after the checkpoint of step ${from} will be taken again`;
}

/** A word as a POSIX shell reads it back. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
