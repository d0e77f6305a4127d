/** `flywheel play`: a person plays an environment in the terminal, in the place of the policy and with what the policy sees. */
import { readFile } from "node:fs/promises";
import { createInterface, type Interface } from "node:readline";
import type { Command } from "commander";
import { ConfigError, expected } from "../../../errors.ts";
import { playScripted, type Speaker } from "../../../loop/rollout/scripted.ts";
import type { Env, Message, Split, Task } from "../../../types.ts";
import { entries, messageFrom } from "../play/input.ts";
import { openNamed } from "../play/open.ts";
import { Screen } from "../play/screen.ts";
import { Interrupted, type CliServices } from "../services.ts";
import { wholeOption } from "../ui/numbers.ts";
import { pathFrom } from "../ui/places.ts";

interface Given {
  readonly env?: string;
  readonly test?: boolean;
  readonly task: number;
  readonly script?: string;
  readonly reference?: boolean;
}

export function registerPlay(program: Command, services: CliServices): void {
  program
    .command("play")
    .description("play an environment yourself: messages and tools as the policy sees them, the reward at the end")
    .argument("[env]", "name, JSON with options, or a file that exports an environment")
    .option("-e, --env <name>", "the same as the argument")
    .option("--test", "a held-out task")
    .option("-t, --task <n>", "which task", wholeOption, 0)
    .option("--script <file>", "answers from a file, one a line, in the form in which they would be typed")
    .option("--reference", "plays the environment's own solution")
    .action((named: string | undefined, given: Given) => run(named ?? given.env, given, services));
}

async function run(named: string | undefined, given: Given, services: CliServices): Promise<void> {
  if (named === undefined) throw new ConfigError(expected("play", "an environment", "none", "name one, such as: flywheel play house"));
  if (given.script !== undefined && given.reference === true) throw new ConfigError(expected("play", "--script or --reference", "both"));
  const env = await openNamed(named, services.cwd);
  const split: Split = given.test === true ? "test" : "train";
  const source = env.tasks(split);
  if (given.task >= source.size) throw new ConfigError(expected("--task", `0 to ${source.size - 1}`, String(given.task)));
  const task = source.at(given.task);
  const screen = new Screen(env, services);
  screen.head(task);
  const reader = given.script === undefined && given.reference !== true ? terminal(services) : undefined;
  try {
    const say = given.reference === true ? recited(env, task) : typed(await linesOf(given, reader, services), screen);
    const spoken: Speaker = async (seen, turn) => {
      screen.show(seen, turn.agent);
      const message = await say(seen, turn);
      if (message !== undefined && reader === undefined) screen.echo(message as Message);
      return message;
    };
    const played = await playScripted(env, task, spoken, { onStep: (step) => (step.done ? screen.list(step.messages) : undefined) });
    if (reader?.interrupted === true) throw new Interrupted();
    screen.end(played);
  } finally {
    reader?.close();
  }
}

function recited(env: Env, task: Task): Speaker {
  if (env.reference === undefined) throw new ConfigError(expected("--reference", "an environment that has one", env.name));
  const turns = env.reference(task);
  return (_seen, { index }) => turns[index];
}

/** Takes entries one after another; one that is no call though it begins like one is asked for again at a terminal. */
function typed(lines: AsyncIterator<string>, screen: Screen): Speaker {
  return async (_seen, { index }) => {
    for (;;) {
      screen.ask();
      const { value, done } = (await lines.next()) as IteratorResult<string, undefined>;
      if (done === true || value.trim() === "/quit") return undefined;
      try {
        return messageFrom(value, index);
      } catch (cause) {
        if (!screen.canAskAgain || !(cause instanceof ConfigError)) throw cause;
        screen.note(cause.message);
      }
    }
  };
}

async function linesOf({ script }: Given, reader: Reader | undefined, { cwd }: CliServices): Promise<AsyncIterator<string>> {
  if (reader !== undefined) return entries(reader.lines)[Symbol.asyncIterator]();
  const path = pathFrom(cwd, script!);
  const text = await readFile(path, "utf8").catch((cause: unknown) => {
    throw new ConfigError(expected(`--script ${path}`, "a file that can be read", "none"), { cause });
  });
  const lines = text.replace(/\n$/, "").split("\n");
  return entries((async function* () { yield* lines; })())[Symbol.asyncIterator]();
}

interface Reader {
  readonly lines: Interface;
  /** Ctrl-C was pressed. */
  readonly interrupted: boolean;
  close(): void;
}

function terminal({ stdin, stdout, signal }: CliServices): Reader {
  const output = stdin.isTTY === true && "on" in stdout ? { output: stdout as unknown as NodeJS.WritableStream } : {};
  const lines = createInterface({ input: stdin, ...output });
  let interrupted = false;
  const leave = (): void => {
    interrupted = true;
    lines.close();
  };
  lines.on("SIGINT", leave);
  signal.addEventListener("abort", leave, { once: true });
  return {
    lines,
    get interrupted() {
      return interrupted;
    },
    close() {
      signal.removeEventListener("abort", leave);
      lines.close();
    },
  };
}
