#!/usr/bin/env node
/** Entry of the `flywheel` command. */
import { decoderFor } from "./decoder.ts";
import { interruption } from "./interrupt.ts";
import { runCli } from "./program.ts";

for (const stream of [process.stdout, process.stderr]) {
  // The reader has left (`flywheel inspect … | head`): nobody is there to be told.
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(0);
    throw error;
  });
}

process.exitCode = await runCli(process.argv.slice(2), {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  environment: process.env,
  cwd: process.cwd(),
  ...interruption(process, {
    exit: (code) => process.exit(code),
    late: () => process.stderr.write("\nstopped at once; what was committed is kept, and a run goes on with --resume\n"),
  }),
  decoderFor: (config) => decoderFor(config, { cwd: process.cwd(), environment: process.env }),
});
