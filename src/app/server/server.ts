/** Starts and ends the server: where it listens, whom it lets in, and how it stops without cutting answers off. */
import { once, setMaxListeners } from "node:events";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { createAdaptorServer } from "@hono/node-server";
import { ConfigError, expected } from "../../errors.ts";
import { Access } from "./access.ts";
import { createApp } from "./app.ts";
import { SessionStore, type StoreOptions } from "./capture/store.ts";
import { TurnConstraints } from "./constraint.ts";
import { SwapGate } from "./gate.ts";
import { Metrics } from "./metrics.ts";
import type { ServedPolicy, Service } from "./service.ts";

export interface ServeOptions {
  readonly policy: ServedPolicy;
  /** Model names, each with the adapter that it stands for; "*" is any other name. */
  readonly models: ReadonlyMap<string, string>;
  readonly host?: string;
  /** 0 takes a free one. */
  readonly port?: number;
  readonly keys?: readonly string[];
  readonly requestsPerMinute?: number;
  readonly maxRequests?: number;
  readonly maxBodyBytes?: number;
  readonly defaultMaxTokens?: number;
  readonly corsOrigins?: readonly string[];
  readonly sessions?: Partial<StoreOptions>;
  /** Only calls of sessions that were made beforehand are answered. */
  readonly sessionsOnly?: boolean;
}

const defaults = {
  maxRequests: 256,
  maxBodyBytes: 4 * 2 ** 20,
  defaultMaxTokens: 1024,
  maxSessions: 10_000,
  maxTokens: 5_000_000,
} as const;

export interface RunningServer {
  readonly url: string;
  readonly sessions: SessionStore;
  /** Exchanges the served weights: `body` runs when nothing is being sampled, and requests that come meanwhile wait for it. */
  swap<T>(body: () => Promise<T>): Promise<T>;
  /** Takes no new requests, lets those that run end, and aborts them after `seconds`. */
  close(seconds: number): Promise<void>;
}

const loopback = new Set(["localhost", "127.0.0.1", "[::1]", "::1"]);

export async function startServer(options: ServeOptions): Promise<RunningServer> {
  const { policy, models, host = "127.0.0.1", port = 0, keys = [] } = options;
  if (!loopback.has(host) && keys.length === 0) {
    const remedy = "give --api-key, or listen on 127.0.0.1";
    throw new ConfigError(expected("serve --host", "a loopback address, since there is no API key", host, remedy));
  }
  const metrics = new Metrics();
  const gate = new SwapGate();
  const stopping = new AbortController();
  setMaxListeners(0, stopping.signal); // one for each running request
  const { maxSessions, maxTokens } = defaults;
  const sessions = new SessionStore({ maxSessions, maxTokens, ...options.sessions, renderer: policy.renderer, metrics });
  const service: Service = {
    policy,
    models,
    gate,
    metrics,
    sessions,
    constraints: new TurnConstraints(policy.renderer),
    stopping: stopping.signal,
    defaultMaxTokens: options.defaultMaxTokens ?? defaults.defaultMaxTokens,
    started: Math.floor(Date.now() / 1000),
  };
  metrics.gauge("flywheel_running_requests", "Requests that are being sampled.", () => gate.running);
  metrics.gauge("flywheel_policy_version", "Version of the served weights.", () => policy.engine.version);
  let draining = false;
  const app = createApp(service, {
    access: new Access({ keys, requestsPerMinute: options.requestsPerMinute ?? Infinity }),
    maxBodyBytes: options.maxBodyBytes ?? defaults.maxBodyBytes,
    maxRequests: options.maxRequests ?? defaults.maxRequests,
    corsOrigins: options.corsOrigins ?? [],
    draining: () => draining,
    sessionsOnly: options.sessionsOnly ?? false,
    ...(keys.length === 0 ? { hosts: loopback } : {}),
  });
  const serverOptions = { requestTimeout: 60_000, headersTimeout: 20_000 };
  const server = createAdaptorServer({ fetch: app.fetch, serverOptions }) as Server;
  await listening(server, host, port);
  const { port: bound } = server.address() as AddressInfo;
  return {
    url: `http://${host.includes(":") && !host.startsWith("[") ? `[${host}]` : host}:${bound}`,
    sessions,
    swap: async (body) => {
      const result = await gate.exclusive(body);
      metrics.add("flywheel_weight_swaps_total");
      return result;
    },
    close: async (seconds) => {
      draining = true;
      await ended(server, { gate, stopping, seconds });
      await sessions.close();
    },
  };
}

interface Ending {
  readonly gate: SwapGate;
  readonly stopping: AbortController;
  readonly seconds: number;
}

/** Closes the door, waits for what runs, aborts what is still there after `seconds`, and ends connections that clients keep open. */
async function ended(server: Server, { gate, stopping, seconds }: Ending): Promise<void> {
  const closed = once(server, "close");
  server.close();
  const timer = setTimeout(() => stopping.abort(new Error("the server has ended")), seconds * 1000);
  await gate.exclusive(async () => undefined);
  clearTimeout(timer);
  server.closeIdleConnections();
  const patience = setTimeout(() => server.closeAllConnections(), 1000);
  await closed;
  clearTimeout(patience);
}

async function listening(server: Server, host: string, port: number): Promise<void> {
  server.listen(port, host.replace(/^\[|\]$/g, ""));
  try {
    await once(server, "listening");
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "EADDRINUSE") throw cause;
    throw new ConfigError(expected("serve --port", "a free port", `${port}, which is in use`), { cause });
  }
}
