/**
 * The wall around a page: a proxy on a free loopback port that Chromium takes every request through, redirects and web sockets
 * included. What is not of an allowed origin gets no answer from outside.
 */
import { readFile } from "node:fs/promises";
import { createServer, request as forward, type IncomingMessage, type ServerResponse } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import { extname, join, normalize, sep } from "node:path";
import { messageOf } from "../../errors.ts";

export interface WallOptions {
  /** Origins that can be reached, as `new URL(…).origin` writes them. */
  readonly origins: readonly string[];
  /** An origin that exists for this page alone: its files are those of a folder. */
  readonly site?: { readonly origin: string; readonly folder: string };
}

export interface Wall extends AsyncDisposable {
  /** `http://127.0.0.1:<port>`, for the browser's proxy setting. */
  readonly address: string;
}

/** Milliseconds that a site may stay silent. */
const SILENCE = 20_000;

const kinds: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".json": "application/json",
  ".png": "image/png",
  ".gif": "image/gif",
  ".jpg": "image/jpeg",
  ".svg": "image/svg+xml",
};

export async function openWall({ origins, site }: WallOptions): Promise<Wall> {
  const sockets = new Set<Socket>();
  // A tunnel carries https and web sockets: of those only host and port are known.
  const tunnels = new Set(origins.map((origin) => authorityOf(new URL(origin))));
  const server = createServer((request, response) => {
    const url = URL.canParse(request.url ?? "") ? new URL(request.url!) : undefined;
    if (url !== undefined && url.origin === site?.origin) return void serveFile(site.folder, url.pathname, response);
    if (url !== undefined && origins.includes(url.origin)) return pass(request, url, response);
    // No content: a page that follows such a link stays where it is.
    response.writeHead(204).end();
  });
  server.on("connection", (socket) => keep(sockets, socket));
  server.on("connect", (request: IncomingMessage, client: Socket) => {
    const url = URL.canParse(`http://${request.url}`) ? new URL(`http://${request.url}`) : undefined;
    if (url === undefined || !tunnels.has(request.url ?? "")) return void client.end("HTTP/1.1 403 Forbidden\r\n\r\n");
    const outside = connect(Number(request.url!.split(":").at(-1)), url.hostname.replace(/^\[|\]$/g, ""));
    keep(sockets, outside);
    outside.once("connect", () => {
      client.write("HTTP/1.1 200 Connection Established\r\n\r\n");
      outside.pipe(client).pipe(outside);
    });
    outside.once("error", () => client.destroy());
    client.once("error", () => outside.destroy());
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  return {
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

function authorityOf({ protocol, hostname, port }: URL): string {
  return `${hostname}:${port || (protocol === "https:" ? "443" : "80")}`;
}

function keep(sockets: Set<Socket>, socket: Socket): void {
  sockets.add(socket);
  socket.once("close", () => sockets.delete(socket));
}

function pass(request: IncomingMessage, url: URL, response: ServerResponse): void {
  const headers = Object.fromEntries(Object.entries(request.headers).filter(([name]) => !name.startsWith("proxy-")));
  const options = { method: request.method, headers: { ...headers, host: url.host }, timeout: SILENCE, agent: false };
  const outside = forward(url, options, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(response);
  });
  outside.once("timeout", () => outside.destroy(new Error(`no answer within ${SILENCE} ms`)));
  outside.once("error", (cause) => {
    if (response.headersSent) return void response.destroy();
    response.writeHead(502, { "content-type": "text/plain" }).end(`${url.origin}: ${messageOf(cause)}`);
  });
  response.once("close", () => outside.destroy());
  request.pipe(outside);
}

async function serveFile(folder: string, path: string, response: ServerResponse): Promise<void> {
  const root = normalize(folder + sep);
  try {
    const file = normalize(join(root, decodeURIComponent(path)));
    if (!file.startsWith(root)) throw new Error("outside of the folder");
    const bytes = await readFile(file);
    response.writeHead(200, { "content-type": kinds[extname(file)] ?? "application/octet-stream" }).end(bytes);
  } catch {
    response.writeHead(404, { "content-type": "text/plain" }).end(`no file ${path}`);
  }
}
