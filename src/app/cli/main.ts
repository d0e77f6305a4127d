#!/usr/bin/env node
/** Entry of the `flywheel` command. */
import { runCli } from "./program.ts";

process.exitCode = await runCli(process.argv.slice(2), {
  stdout: process.stdout,
  stderr: process.stderr,
  environment: process.env,
  decoderFor: () => Promise.resolve(null),
});
