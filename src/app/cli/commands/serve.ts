/** `flywheel serve`: a model or a run behind OpenAI's interface, until it is interrupted. */
import { basename } from "node:path";
import { type Command, InvalidArgumentError } from "commander";
import { ConfigError, expected } from "../../../errors.ts";
import { startServer } from "../../server/server.ts";
import type { CliServices } from "../services.ts";
import { openSource } from "../source.ts";
import { painter, wantsColour } from "../ui/colour.ts";
import { pathFrom } from "../ui/places.ts";

interface Given {
  readonly model: string;
  readonly name: readonly string[];
  readonly adapter: readonly string[];
  readonly host: string;
  readonly port: number;
  readonly apiKey: readonly string[];
  readonly rateLimit?: number;
  readonly maxTokens: number;
  readonly maxRequests: number;
  readonly maxBody: number;
  readonly corsOrigin: readonly string[];
  readonly sessions?: string;
  readonly maxSessionTokens: number;
  readonly drain: number;
}

export function registerServe(program: Command, services: CliServices): void {
  program
    .command("serve")
    .description("serve a model to OpenAI's clients, and keep what they sample with its exact tokens")
    .requiredOption("-m, --model <model>", "run folder, model folder or file, or the hub id of a pulled model")
    .option("--name <name>", "name under which clients ask for it; default: the last part of --model (repeatable)", collect, [])
    .option("-a, --adapter <name=folder>", "a PEFT adapter folder, served under a name of its own (repeatable)", collect, [])
    .option("--host <address>", "where to listen; other than loopback needs a key", "127.0.0.1")
    .option("-p, --port <n>", "0 takes a free one", count(0), 8000)
    .option("--api-key <key>", "a key that clients must send; FLYWHEEL_API_KEY is one, too (repeatable)", collect, [])
    .option("--rate-limit <n>", "requests a minute for each key", count(1))
    .option("--max-tokens <n>", "longest answer where a request names no limit", count(1), 1024)
    .option("--max-requests <n>", "requests that may run or wait at once", count(1), 256)
    .option("--max-body <bytes>", "largest request", count(1), 4 * 2 ** 20)
    .option("--cors-origin <origin>", "pages of this origin may ask (repeatable)", collect, [])
    .option("--sessions <folder>", "write sessions to <folder>/sessions.jsonl when they make room and at the end")
    .option("--max-session-tokens <n>", "tokens of all sessions kept in memory", count(1), 5_000_000)
    .option("--drain <seconds>", "how long running answers may take once the server is told to end", count(0), 30)
    .action((given: Given) => serve(given, services));
}

const collect = (value: string, all: readonly string[]): string[] => [...all, value];

const count =
  (least: number) =>
  (value: string): number => {
    if (!/^\d+$/.test(value) || Number(value) < least) throw new InvalidArgumentError(`expected a whole number from ${least}.`);
    return Number(value);
  };

async function serve(given: Given, services: CliServices): Promise<void> {
  const { cwd, environment, stderr, signal } = services;
  await using policy = await openSource(given.model, services);
  const names = given.name.length > 0 ? given.name : [basename(pathFrom(cwd, given.model))];
  const models = new Map(names.map((name) => [name, "policy"]));
  for (const { name, folder } of given.adapter.map(adapterOf)) {
    if (models.has(name)) throw new ConfigError(expected("--adapter", "a name that is not taken", name));
    await policy.engine.loadAdapter(name, pathFrom(cwd, folder));
    models.set(name, name);
  }
  const key = environment["FLYWHEEL_API_KEY"] ?? "";
  const keys = [...given.apiKey, ...(key === "" ? [] : [key])];
  const server = await startServer({
    policy,
    models,
    host: given.host,
    port: given.port,
    keys,
    requestsPerMinute: given.rateLimit ?? Infinity,
    maxRequests: given.maxRequests,
    maxBodyBytes: given.maxBody,
    defaultMaxTokens: given.maxTokens,
    corsOrigins: given.corsOrigin,
    sessions: { maxTokens: given.maxSessionTokens, ...(given.sessions === undefined ? {} : { folder: pathFrom(cwd, given.sessions) }) },
  });
  services.allowToStop((given.drain + 5) * 1000);
  const paint = painter(wantsColour(stderr, environment));
  stderr.write(
    `${paint([...models.keys()].join(", "), "bold")} at ${paint(`${server.url}/v1`, "cyan")}${keys.length > 0 ? ", with a key" : ""}\n`,
  );
  if (!signal.aborted) await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
  stderr.write("ending: running answers may finish; Ctrl-C again ends at once\n");
  await server.close(given.drain);
}

function adapterOf(text: string): { readonly name: string; readonly folder: string } {
  const [, name, folder] = /^([^=]+)=(.+)$/.exec(text) ?? [];
  if (name === undefined || folder === undefined) throw new ConfigError(expected("--adapter", "name=folder", text));
  return { name, folder };
}
