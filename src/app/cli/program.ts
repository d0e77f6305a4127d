/** The command line: commands are registered here, and every error becomes one line and an exit code here. */
import { readFileSync } from "node:fs";
import { Command, CommanderError, type Help } from "commander";
import { FlywheelError, diskProblem, visible } from "../../errors.ts";
import { registerCommands } from "./commands/all.ts";
import { type CliServices, Interrupted } from "./services.ts";
import { type Paint, painter, wantsColour } from "./ui/colour.ts";

/**
 * Runs one command. Exit code 0: done; 1: it failed, with one line that says why; 2: the command line itself is wrong;
 * 130: the user interrupted it.
 */
export async function runCli(args: readonly string[], services: CliServices): Promise<0 | 1 | 2 | 130> {
  try {
    await createProgram(services).parseAsync([...args], { from: "user" });
    return services.signal.aborted ? 130 : 0;
  } catch (cause) {
    if (isInterruption(cause, services.signal)) return 130;
    if (cause instanceof CommanderError) return cause.exitCode === 0 ? 0 : 2;
    const paint = painter(wantsColour(services.stderr, services.environment));
    services.stderr.write(`${paint("error:", "red", "bold")} ${describe(cause, services.environment)}\n`);
    return 1;
  }
}

function createProgram(services: CliServices): Command {
  const { stdout, stderr, environment } = services;
  const paint = painter(wantsColour(stdout, environment));
  const program = new Command("flywheel")
    .description("Reinforcement learning for language-model agents")
    .version(packageVersion(), "-v, --version", "print the version")
    .helpOption("-h, --help", "show help")
    .helpCommand(false)
    .showSuggestionAfterError()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void stdout.write(text),
      writeErr: (text) => void stderr.write(text),
      outputError: (text, write) =>
        write(oneLine(text).replace(/^error: /, `${painter(wantsColour(stderr, environment))("error:", "red", "bold")} `)),
      getOutHasColors: () => wantsColour(stdout, environment),
      getErrHasColors: () => wantsColour(stderr, environment),
      getOutHelpWidth: () => stdout.columns ?? 100,
      getErrHelpWidth: () => stderr.columns ?? 100,
    })
    .configureHelp(helpStyle(paint))
    .addHelpText("after", ({ command }) =>
      command.parent === null ? `\n${paint("flywheel <command> --help", "cyan")} shows the options of a command.` : "",
    );
  registerCommands(program, services);
  return program;
}

/** commander puts its suggestion on a line of its own. */
const oneLine = (text: string): string => `${visible(text.trim().replaceAll("\n", " "))}\n`;

function helpStyle(paint: Paint): Partial<Help> {
  return {
    styleTitle: (text) => paint(text, "bold"),
    styleCommandText: (text) => paint(text, "cyan"),
    styleSubcommandText: (text) => paint(text, "cyan"),
    styleOptionText: (text) => paint(text, "green"),
    styleArgumentText: (text) => paint(text, "yellow"),
    subcommandTerm: (command) =>
      [
        command.name(),
        ...command.registeredArguments.map((argument) => (argument.required ? `<${argument.name()}>` : `[${argument.name()}]`)),
      ].join(" "),
  };
}

/** True for the abort itself, however it was passed on; a failure while stopping is still a failure. */
function isInterruption(cause: unknown, signal: AbortSignal): boolean {
  if (cause instanceof Interrupted) return true;
  if (!signal.aborted || !(cause instanceof Error)) return false;
  return cause === signal.reason || cause.name === "AbortError" || isInterruption(cause.cause, signal);
}

/** An error of ours, or of the file system, is one line; any other is a fault, whose stack FLYWHEEL_DEBUG shows. Data may be in it. */
function describe(cause: unknown, environment: NodeJS.ProcessEnv): string {
  if (cause instanceof Error && (environment.FLYWHEEL_DEBUG ?? "") !== "") return visible(cause.stack ?? cause.message);
  const message =
    cause instanceof FlywheelError
      ? cause.message
      : (diskProblem(cause) ?? (cause instanceof Error ? `${cause.name}: ${cause.message} (FLYWHEEL_DEBUG=1 shows where)` : String(cause)));
  return visible(message.replace(/\s*\n\s*/g, " "));
}

function packageVersion(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL("../../../package.json", import.meta.url), "utf8"));
  return typeof manifest === "object" && manifest !== null && "version" in manifest ? String(manifest.version) : "unknown";
}
