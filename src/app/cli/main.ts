#!/usr/bin/env node
/** Entry of the `flywheel` command. */
import { diskProblem } from "../../errors.ts";
import { ownCommand } from "./command.ts";
import { decoderFor } from "./decoder.ts";
import { interruption } from "./interrupt.ts";
import { runCli } from "./program.ts";

for (const stream of [process.stdout, process.stderr]) {
  // The reader has left (`flywheel inspect … | head`): nobody is there to be told.
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(0);
    if (stream === process.stdout) process.stderr.write(`error: ${diskProblem(error, "standard output") ?? error.message}\n`);
    process.exit(1);
  });
}

process.exitCode = await runCli(process.argv.slice(2), {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  environment: process.env,
  cwd: process.cwd(),
  command: ownCommand({ script: process.argv[1] ?? "", cwd: process.cwd(), environment: process.env }),
  ...interruption(process, {
    exit: (code) => process.exit(code),
    late: () => process.stderr.write("\nstopped at once; every committed step is kept, and --resume goes on from the last checkpoint\n"),
  }),
  decoderFor: (config) => decoderFor(config, { cwd: process.cwd(), environment: process.env }),
});
