/** The command line run in this process, with streams that can be read afterwards. */
import { Readable } from "node:stream";
import { runCli } from "../../src/app/cli/program.ts";
import type { CliServices } from "../../src/app/cli/services.ts";

export interface CliResult {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs a command; `input` is what standard input holds, `terminal` makes every stream a terminal of that many columns. */
export async function runFlywheel(
  args: readonly string[],
  { input = "", terminal, ...services }: Partial<CliServices> & { readonly input?: string; readonly terminal?: number } = {},
): Promise<CliResult> {
  let [out, err] = ["", ""];
  const form = terminal === undefined ? { columns: 100 } : { columns: terminal, isTTY: true };
  const code = await runCli(args, {
    stdin: Object.assign(Readable.from([Buffer.from(input)]), { isTTY: terminal !== undefined }),
    stdout: { ...form, write: (text: string) => (out += text) },
    stderr: { ...form, write: (text: string) => (err += text) },
    environment: {},
    cwd: process.cwd(),
    command: "flywheel",
    signal: new AbortController().signal,
    allowToStop: () => undefined,
    decoderFor: () => Promise.resolve(null),
    ...services,
  });
  return { code, out, err };
}
