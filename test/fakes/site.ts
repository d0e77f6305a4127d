/** Small web sites on free loopback ports, for tests of what talks to pages. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Page } from "playwright-core";
import { browserEnv } from "../../src/env/browser.ts";
import type { BrowserEnvDefinition } from "../../src/env/browser/episode.ts";
import type { Env, Episode, EnvStep, JsonObject, Message, Task, Turn, Verdict } from "../../src/types.ts";

export interface Site extends AsyncDisposable {
  readonly origin: string;
  /** `METHOD path` of every request, in order; "upgrade path" for web sockets. */
  readonly seen: readonly string[];
}

type Answer = string | ((request: IncomingMessage, response: ServerResponse) => void);

/** Serves the pages by path; a string is HTML. */
export async function serveSite(pages: Readonly<Record<string, Answer>>): Promise<Site> {
  const seen: string[] = [];
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url!, "http://site");
    seen.push(`${request.method} ${request.url}`);
    const page = pages[pathname];
    if (typeof page === "function") return page(request, response);
    response.writeHead(page === undefined ? 404 : 200, { "content-type": "text/html; charset=utf-8" }).end(page ?? "not here");
  });
  server.on("upgrade", (request, socket) => {
    seen.push(`upgrade ${request.url}`);
    socket.destroy();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise<unknown>((resolve) => server.close(resolve));
    },
  };
}

type Said = readonly [name: string, args: JsonObject] | string;

/** A turn that calls one tool, or answers. */
export function turnOf(said: Said): Turn {
  const message: Message =
    typeof said === "string"
      ? { role: "assistant", content: said }
      : { role: "assistant", content: "", toolCalls: [{ id: "c", name: said[0], arguments: said[1] }] };
  return { row: -1, span: -1, message, parse: typeof said === "string" ? "answer" : "toolCalls", replies: [] };
}

/** An episode that is played by hand. */
export interface Hand extends AsyncDisposable {
  readonly episode: Episode;
  readonly opening: string;
  /** Takes a turn and returns what the environment answered, as one text. */
  say(said: Said): Promise<string>;
  take(said: Said): Promise<EnvStep>;
  verdict(): Promise<Verdict>;
}

export async function playByHand(env: Env, task: Task): Promise<Hand> {
  const { signal } = new AbortController();
  const episode = env.start(task);
  const turns: Turn[] = [];
  const take = async (said: Said): Promise<EnvStep> => {
    const step = await episode.step(turnOf(said), signal);
    turns.push({ ...turnOf(said), replies: step.messages, ...(step.reward === undefined ? {} : { reward: step.reward }) });
    return step;
  };
  try {
    const opening = (await episode.opening?.(signal)) ?? "";
    return {
      episode,
      opening,
      take,
      say: async (said) => (await take(said)).messages.map(({ content }) => content).join("\n"),
      verdict: async () => env.reward({ task, messages: task.prompt, turns }),
      [Symbol.asyncDispose]: () => episode[Symbol.asyncDispose](),
    };
  } catch (cause) {
    await episode[Symbol.asyncDispose]();
    throw cause;
  }
}

/** One task that begins at this address; the score is what the last answer says of the page. */
export function siteEnv(
  url: string,
  options: Partial<BrowserEnvDefinition> & { readonly look?: (page: Page) => Promise<unknown> } = {},
): { readonly env: Env; readonly task: Task } {
  const task: Task = { id: "t", prompt: [{ role: "user", content: "Do it." }], data: {} };
  const { look, ...rest } = options;
  const env = browserEnv({
    name: "site",
    tasks: () => ({ size: 1, at: () => task }),
    site: () => ({ url, origins: [new URL(url).origin] }),
    grade: async (_page, _task, answer) => (answer === "done" ? 1 : 0),
    ...(look === undefined ? {} : { over: async (page: Page) => (await look(page), false) }),
    ...rest,
  });
  return { env, task };
}
