/** `flywheel chat`: talk to a model or a trained policy; with piped input it answers once. */
import { createInterface, type Interface } from "node:readline";
import { addAbortSignal } from "node:stream";
import { type Command, InvalidArgumentError } from "commander";
import type { OpenedPolicy } from "../../../compute/policy/open.ts";
import { ConfigError, FlywheelError, amount, expected, visible } from "../../../errors.ts";
import { openTrainedPolicy } from "../../../train/trained.ts";
import { type Answer, Conversation, type ConversationOptions } from "../chat/conversation.ts";
import { Interrupted, type CliServices } from "../services.ts";
import { openSource } from "../source.ts";
import { type Paint, painter, wantsColour } from "../ui/colour.ts";
import { tokenLimit } from "../ui/numbers.ts";
import { cacheOption, pathFrom } from "../ui/places.ts";

interface ChatOptions extends Omit<ConversationOptions, "maxTokens"> {
  readonly adapter?: string;
  readonly maxTokens?: number;
}

export function registerChat(program: Command, services: CliServices): void {
  program
    .command("chat")
    .description("talk to a model or to a trained policy; piped input is answered once")
    .argument("<model>", "run folder, model folder or file, or the hub id of a pulled model")
    .option("-s, --system <text>", "system message")
    .option("-t, --temperature <number>", "0 takes the likeliest token", temperature, 0.7)
    .option("-n, --max-tokens <n>", "longest answer (default: 512)", positive)
    .option("-a, --adapter <run>", "run folder whose trained weights are put on the model")
    .option("--seed <n>", "makes the answers repeatable", positive)
    .action((model: string, options: ChatOptions) => chat(model, options, services));
}

async function chat(model: string, options: ChatOptions, services: CliServices): Promise<void> {
  const { stdin, stderr, environment } = services;
  const message = stdin.isTTY === true ? undefined : await readAll(stdin, services.signal);
  if (message === "") throw new ConfigError(expected("standard input", "a message", "nothing", "or start the chat in a terminal"));
  await using policy = await openChatPolicy(model, options.adapter, services);
  services.signal.throwIfAborted();
  const maxTokens = tokenLimit(options.maxTokens, 512, policy.engine.info.contextLength);
  const conversation = new Conversation(policy, { ...options, maxTokens });
  const paint = painter(wantsColour(stderr, environment));
  if (message === undefined) return await talk(conversation, policy, services);
  await answer(conversation, message, { services, paint, signal: services.signal });
}

async function openChatPolicy(model: string, adapter: string | undefined, services: CliServices): Promise<OpenedPolicy> {
  if (adapter === undefined) return openSource(model, services);
  const { cwd, environment, stderr } = services;
  const base = pathFrom(cwd, model);
  const policy = await openTrainedPolicy(pathFrom(cwd, adapter), { ...cacheOption(environment), base });
  const { trainedOn } = policy.trained;
  if (pathFrom(cwd, trainedOn) !== base) {
    stderr.write(`note: ${adapter} was trained on ${visible(trainedOn)}; its weights fit ${model}, too\n`);
  }
  return policy;
}

/** The terminal conversation: Ctrl-C stops an answer, or leaves at the prompt. */
async function talk(conversation: Conversation, policy: OpenedPolicy, services: CliServices): Promise<void> {
  const { stdin, stdout, stderr, environment } = services;
  const paint = painter(wantsColour(stderr, environment));
  const { model, parameters, contextLength } = policy.engine.info;
  stderr.write(`${paint(visible(model), "bold")}  ${(parameters / 1e6).toFixed(1)} M parameters, context ${contextLength}\n`);
  stderr.write(`${paint("/reset begins again, /exit or Ctrl-D leaves, Ctrl-C stops an answer", "dim")}\n`);
  const reader = createInterface({ input: stdin, ...("on" in stdout ? { output: stdout as unknown as NodeJS.WritableStream } : {}) });
  const leave = (): void => reader.close();
  let running: AbortController | undefined;
  let interrupted = false;
  reader.on("SIGINT", () => {
    if (running !== undefined) return running.abort(new Interrupted());
    interrupted = true;
    reader.close();
  });
  services.signal.addEventListener("abort", leave, { once: true });
  for await (const line of promptedLines(reader, paint("> ", "green", "bold"))) {
    if (line === "/exit") break;
    if (line === "/reset") conversation.reset();
    else if (line.startsWith("/")) stderr.write(`${line.split(" ")[0]!}: no such command; there are /reset and /exit\n`);
    else if (line !== "") {
      running = new AbortController();
      const signal = AbortSignal.any([running.signal, services.signal]);
      await answer(conversation, line, { services, paint, signal }).catch((cause: unknown) => recover(cause, services));
      running = undefined;
    }
  }
  reader.close();
  services.signal.removeEventListener("abort", leave);
  if (interrupted) stdout.write("\n");
  if (interrupted) throw new Interrupted();
}

/** A stopped answer or a conversation that is too long ends the turn, not the chat. */
function recover(cause: unknown, { stderr, signal }: CliServices): void {
  if (signal.aborted || !(cause instanceof FlywheelError || cause instanceof Interrupted)) throw cause;
  stderr.write(cause instanceof Interrupted ? "\n(stopped; that turn is forgotten)\n" : `${visible(cause.message)} (/reset)\n`);
}

async function* promptedLines(reader: Interface, prompt: string): AsyncGenerator<string> {
  reader.setPrompt(prompt);
  reader.prompt();
  for await (const line of reader) {
    yield line.trim();
    reader.prompt();
  }
}

interface Answering {
  readonly services: CliServices;
  readonly paint: Paint;
  readonly signal: AbortSignal;
}

async function answer(conversation: Conversation, message: string, { services, paint, signal }: Answering): Promise<void> {
  const { stdout, stderr } = services;
  const show = stdout.isTTY === true ? visible : (text: string): string => text;
  const made = await conversation.say(message, { onText: (piece) => stdout.write(show(piece)), signal });
  stdout.write("\n");
  stderr.write(`${paint(summary(made), "dim")}\n`);
}

function summary({ tokens, seconds, finish }: Answer): string {
  const cut = finish.type === "length" ? ", cut at the limit" : "";
  return `[${amount(tokens, "token")}, ${(tokens / seconds).toFixed(1)} tokens/s${cut}]`;
}

async function readAll(stream: CliServices["stdin"], signal: AbortSignal): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of addAbortSignal(signal, stream)) chunks.push(Buffer.from(chunk as Buffer | string));
  return Buffer.concat(chunks).toString("utf8").trim();
}

function temperature(value: string): number {
  const number = Number(value);
  if (value.trim() === "" || !(number >= 0 && number <= 10)) throw new InvalidArgumentError("expected a number from 0 to 10.");
  return number;
}

function positive(value: string): number {
  const number = Number(value);
  if (!/^\d+$/.test(value) || number < 1 || number > 2 ** 32 - 1) throw new InvalidArgumentError("expected a whole number above 0.");
  return number;
}
