/** A server on a free port over a real model or a scripted one, ended with the test, and OpenAI's own client for it. */
import { resolve } from "node:path";
import OpenAI from "openai";
import { onTestFinished } from "vitest";
import { startServer, type RunningServer, type ServeOptions } from "../../src/app/server/server.ts";
import { openPolicy, type OpenedPolicy } from "../../src/compute/policy/open.ts";

export const desk = resolve("models/desk-1m");

export interface Served {
  readonly server: RunningServer;
  readonly client: OpenAI;
  /** A request to a path, as plain fetch. */
  fetch(path: string, init?: RequestInit): Promise<Response>;
  /** A JSON body to a path. */
  post(path: string, body: unknown, headers?: Readonly<Record<string, string>>): Promise<Response>;
}

export async function served(options: Omit<ServeOptions, "models"> & Partial<ServeOptions>): Promise<Served> {
  const server = await startServer({ models: new Map([["desk", "policy"]]), ...options });
  onTestFinished(() => server.close(0));
  const at = (path: string): string => server.url + path;
  return {
    server,
    client: new OpenAI({ baseURL: at("/v1"), apiKey: options.keys?.[0] ?? "none", maxRetries: 0 }),
    fetch: (path, init) => fetch(at(path), init),
    post: (path, body, headers = {}) =>
      fetch(at(path), { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json", ...headers } }),
  };
}

/** A model from disk that is closed with the test. */
export async function deskPolicy(options: Parameters<typeof openPolicy>[1] = {}): Promise<OpenedPolicy> {
  const policy = await openPolicy(desk, options);
  onTestFinished(() => policy.engine.close());
  return policy;
}
