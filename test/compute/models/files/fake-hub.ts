import { createHash } from "node:crypto";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

/** What a request for a file does instead of an honest answer; called with how often the file was asked for before. */
export type Behaviour = (request: IncomingMessage, response: ServerResponse, earlier: number) => boolean;

export interface FakeHub {
  readonly endpoint: string;
  /** "path range" of each request, in order. */
  readonly requests: string[];
  /** Authorization headers seen. */
  readonly authorizations: Set<string>;
}

export interface FakeHubOptions {
  readonly id: string;
  readonly files: Readonly<Record<string, Buffer>>;
  /** Files stored as large objects, listed with their SHA-256. */
  readonly large?: readonly string[];
  /** Digests that the listing claims instead of the right ones. */
  readonly claims?: Readonly<Record<string, string>>;
  readonly behaviour?: Behaviour;
}

/** A hub that serves one model at revision "main", whose commit is "c0ffee", and honours Range. */
export async function fakeHub({ id, files, large = [], claims = {}, behaviour = () => false }: FakeHubOptions): Promise<FakeHub> {
  const requests: string[] = [];
  const authorizations = new Set<string>();
  const siblings = Object.entries(files).map(([rfilename, bytes]) => ({
    rfilename,
    size: bytes.length,
    blobId: claims[rfilename] ?? createHash("sha1").update(`blob ${bytes.length}\0`).update(bytes).digest("hex"),
    ...(large.includes(rfilename)
      ? { lfs: { sha256: claims[rfilename] ?? createHash("sha256").update(bytes).digest("hex"), size: bytes.length, pointerSize: 134 } }
      : {}),
  }));
  const counts = new Map<string, number>();
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url!, "http://x").pathname);
    requests.push(`${path} ${request.headers.range ?? ""}`.trim());
    if (request.headers.authorization !== undefined) authorizations.add(request.headers.authorization);
    const earlier = counts.get(path) ?? 0;
    counts.set(path, earlier + 1);
    if (behaviour(request, response, earlier)) return;
    if (path === `/api/models/${id}/revision/main`) {
      response.end(JSON.stringify({ id, sha: "c0ffee", siblings, private: false }));
      return;
    }
    serveFile(request, response, files[path.replace(`/${id}/resolve/c0ffee/`, "")]);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests, authorizations };
}

function serveFile(request: IncomingMessage, response: ServerResponse, bytes: Buffer | undefined): void {
  if (bytes === undefined) {
    response.writeHead(404).end("no such file");
    return;
  }
  const from = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? "")?.[1] ?? 0);
  const headers = { "content-length": bytes.length - from };
  if (from > 0) response.writeHead(206, { ...headers, "content-range": `bytes ${from}-${bytes.length - 1}/${bytes.length}` });
  else response.writeHead(200, headers);
  response.end(bytes.subarray(from));
}
