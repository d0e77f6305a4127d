/** Every command, in the order that the help shows. */
import type { Command } from "commander";
import type { CliServices } from "../services.ts";
import { registerChat } from "./chat.ts";
import { registerDoctor } from "./doctor.ts";
import { registerEval } from "./eval.ts";
import { registerExport } from "./export.ts";
import { registerInspect } from "./inspect.ts";
import { registerNew } from "./new.ts";
import { registerPlay } from "./play.ts";
import { registerPull } from "./pull.ts";
import { registerQuickstart } from "./quickstart.ts";
import { registerReport } from "./report.ts";
import { registerServe } from "./serve.ts";
import { registerTrain } from "./train.ts";
import { registerVerify } from "./verify.ts";

export function registerCommands(program: Command, services: CliServices): void {
  registerQuickstart(program, services);
  registerTrain(program, services);
  registerEval(program, services);
  registerVerify(program, services);
  registerNew(program, services);
  registerPlay(program, services);
  registerPull(program, services);
  registerChat(program, services);
  registerServe(program, services);
  registerExport(program, services);
  registerInspect(program, services);
  registerReport(program, services);
  registerDoctor(program, services);
}
