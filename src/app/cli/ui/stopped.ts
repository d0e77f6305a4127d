/** What an interrupted run says: how far it came, and the command that goes on from there. */
import { readRun } from "../../../train/record/read-run.ts";
import { isRunFolder } from "../../../train/trained.ts";
import type { CliServices } from "../services.ts";

interface StoppedOptions {
  /** The run's folder. */
  readonly folder: string;
  /** The words of the command that resumes it. */
  readonly resume: readonly string[];
  readonly json: boolean;
}

/** Writes one line to standard error (with `json` as a JSON object), if it was the user who ended the run. */
export async function tellStopped({ folder, resume, json }: StoppedOptions, { signal, stderr }: CliServices): Promise<void> {
  if (!signal.aborted) return;
  const began = await isRunFolder(folder);
  const step = began ? (await readRun(folder)).ledger.length : 0;
  const command = resume.map(quoted).join(" ");
  if (json) return void stderr.write(`${JSON.stringify({ event: "stopped", step, resume: began ? command : null })}\n`);
  stderr.write(began ? `stopped after step ${step}; go on with: ${command}\n` : "stopped before the run began\n");
}

/** A word as a POSIX shell reads it back. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
