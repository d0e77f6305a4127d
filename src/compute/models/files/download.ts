/** One file over HTTP: resumed by Range, retried with growing pauses, verified, renamed into place when it is right. */
import { createHash } from "node:crypto";
import type { Hash } from "node:crypto";
import { createReadStream } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { open, rename, rm, stat } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { ModelError, expected, messageOf } from "../../../errors.ts";
import { syncFolder, writeFully } from "./file-io.ts";

export interface RemoteFile {
  readonly name: string;
  readonly size?: number;
  /** Plain SHA-256 for large files, Git's blob SHA-1 for small ones. */
  readonly digest?: { readonly type: "sha256" | "gitBlob"; readonly hex: string };
}

interface RequestOptions {
  /** What is being fetched, for messages. */
  readonly what: string;
  /** Where the model would be, for the advice when there is no network. */
  readonly folder: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly retryMilliseconds: number;
  readonly signal?: AbortSignal;
}

interface DownloadOptions extends RequestOptions {
  readonly file: RemoteFile;
  /** Called with the change of bytes on disk, and how many of them came over the network. */
  readonly onBytes: (count: number, fresh: number) => void;
}

const ATTEMPTS = 5;
/** A connection that brings nothing for so long is given up and retried. */
const STALL_MILLISECONDS = 60_000;

/** A failure that another attempt may cure. */
class Transient extends Error {
  readonly waitMilliseconds: number | undefined;
  constructor(message: string, waitMilliseconds?: number, options?: ErrorOptions) {
    super(message, options);
    this.waitMilliseconds = waitMilliseconds;
  }
}

/** True if the file is there with the right size and digest. A file of unknown digest counts by its size, or as absent. */
export async function isComplete(path: string, file: RemoteFile): Promise<boolean> {
  const size = (await stat(path).catch(() => undefined))?.size;
  if (size === undefined || file.size === undefined || size !== file.size) return false;
  return file.digest === undefined || (await digestOf(path, file, size)).digest("hex") === file.digest.hex;
}

/** Fetches `url` to `target` through `target.part`. */
export async function download(url: string, target: string, options: DownloadOptions): Promise<void> {
  const part = `${target}.part`;
  const resumed = (await partSize(part)) > 0;
  if (await fetchAndCheck(url, part, options)) return publish(part, target);
  // A resumed file may be of an older revision: once more, from the start.
  if (resumed && (await fetchAndCheck(url, part, options))) return publish(part, target);
  const { digest, size } = options.file;
  const want = digest === undefined ? `${size} bytes` : `${digest.type} ${digest.hex}`;
  const remedy = "it was discarded: pull again, or from another endpoint";
  throw new ModelError(expected(`${options.what}: ${options.file.name}`, want, "other content", remedy));
}

/** False, and the part removed, if everything arrived but it is not the promised content. */
async function fetchAndCheck(url: string, part: string, options: DownloadOptions): Promise<boolean> {
  const { file } = options;
  // Without a promised size nobody could tell whether an old part still belongs to the file.
  if (file.size === undefined || (await partSize(part)) > file.size) await rm(part, { force: true });
  const before = await partSize(part);
  options.onBytes(before, 0);
  if (file.size === undefined || before !== file.size) {
    await requestWithRetries(url, { ...options, rangeFrom: () => partSize(part), consume: (response) => append(response, part, options) });
  }
  const size = await partSize(part);
  const right = (file.size === undefined || size === file.size)
    && (file.digest === undefined || (await digestOf(part, file, size)).digest("hex") === file.digest.hex);
  if (!right) {
    options.onBytes(-size, 0);
    await rm(part, { force: true });
  }
  return right;
}

async function publish(part: string, target: string): Promise<void> {
  await rename(part, target);
  await syncFolder(dirname(target));
}

async function partSize(part: string): Promise<number> {
  return (await stat(part).catch(() => undefined))?.size ?? 0;
}

async function digestOf(path: string, file: RemoteFile, size: number): Promise<Hash> {
  const hash = createHash(file.digest?.type === "gitBlob" ? "sha1" : "sha256");
  if (file.digest?.type === "gitBlob") hash.update(`blob ${size}\0`);
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 })) hash.update(chunk as Buffer);
  return hash;
}

/** Appends a 206 that continues the part, or starts the part again with a 200. */
async function append(response: Response, part: string, { file, onBytes }: DownloadOptions): Promise<void> {
  const have = await partSize(part);
  const range = /^bytes (\d+)-/.exec(response.headers.get("content-range") ?? "");
  const continues = response.status === 206 && Number(range?.[1]) === have;
  if (response.status === 206 && !continues) throw new Transient(`a range from ${range?.[1] ?? "nowhere"} instead of ${have}`);
  const handle = await open(part, continues ? "a" : "w");
  if (!continues) onBytes(-have, 0);
  try {
    const size = await pour(response, handle, { room: (file.size ?? Infinity) - (continues ? have : 0), onBytes });
    await handle.sync();
    const arrived = (continues ? have : 0) + size;
    if (file.size !== undefined && arrived < file.size) throw new Transient(`the connection ended after ${arrived} of ${file.size} bytes`);
  } finally {
    await handle.close();
  }
}

/** Writes a body to a file; more than `room` bytes is a wrong answer, and is stopped there. */
async function pour(
  response: Response,
  handle: FileHandle,
  { room, onBytes }: { readonly room: number; readonly onBytes: DownloadOptions["onBytes"] },
): Promise<number> {
  let written = 0;
  for await (const chunk of response.body ?? []) {
    const bytes = chunk as Uint8Array;
    await writeFully(handle, bytes);
    written += bytes.length;
    onBytes(bytes.length, bytes.length);
    if (written > room) break;
  }
  return written;
}

interface RequestOnce<T> extends RequestOptions {
  /** Asked before each attempt: the first byte still wanted. */
  readonly rangeFrom?: () => Promise<number>;
  readonly consume: (response: Response) => Promise<T>;
}

/** Requests until it works, at most 5 times without progress; failures that will not pass are told at once. */
export async function requestWithRetries<T>(url: string, options: RequestOnce<T>): Promise<T> {
  let from = (await options.rangeFrom?.()) ?? 0;
  for (let attempt = 1; ; attempt++) {
    try {
      return await requestOnce(url, from, options);
    } catch (error) {
      options.signal?.throwIfAborted();
      if (!(error instanceof Transient)) throw readable(error, options);
      const now = (await options.rangeFrom?.()) ?? 0;
      if (now > from) attempt = 1;
      from = now;
      if (attempt >= ATTEMPTS) throw unreachable(url, error, options);
      await pause(error.waitMilliseconds ?? options.retryMilliseconds * 2 ** (attempt - 1), undefined, { signal: options.signal });
    }
  }
}

async function requestOnce<T>(url: string, from: number, options: RequestOnce<T>): Promise<T> {
  const stall = new AbortController();
  const timer = setTimeout(() => stall.abort(new Error(`nothing arrived for ${STALL_MILLISECONDS / 1000} s`)), STALL_MILLISECONDS);
  const signal = options.signal === undefined ? stall.signal : AbortSignal.any([stall.signal, options.signal]);
  const headers = { ...options.headers, ...(from > 0 ? { range: `bytes=${from}-` } : {}) };
  try {
    const response = await fetch(url, { headers, signal });
    timer.refresh();
    await refuse(response, options);
    return await options.consume(watched(response, timer));
  } catch (error) {
    throw isNetworkFailure(error) ? new Transient(networkReason(error), undefined, { cause: error }) : error;
  } finally {
    clearTimeout(timer);
  }
}

/** The same response; each chunk of its body puts the stall timer back. */
function watched(response: Response, timer: NodeJS.Timeout): Response {
  const body = response.body?.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        timer.refresh();
        controller.enqueue(chunk);
      },
    }),
  );
  return new Response(body ?? null, { status: response.status, headers: response.headers });
}

async function refuse(response: Response, { what, headers }: RequestOptions): Promise<void> {
  const { status } = response;
  if (status === 200 || status === 206) return;
  await response.body?.cancel();
  if (status === 401 || status === 403) {
    const remedy = headers["authorization"] === undefined ? "set HF_TOKEN, or check the name" : "accept the model's terms on its page";
    throw new ModelError(expected(what, "access", `HTTP ${status}`, remedy));
  }
  if (status === 404) throw new ModelError(expected(what, "a model or file of that name", "HTTP 404", "check the name and the revision"));
  const wait = Number(response.headers.get("retry-after") ?? NaN) * 1000;
  if (status === 429 || status === 408 || status >= 500) {
    throw new Transient(`HTTP ${status}`, Number.isFinite(wait) ? Math.min(wait, 60_000) : undefined);
  }
  throw new ModelError(expected(what, "HTTP 200 or 206", `HTTP ${status}`));
}

function isNetworkFailure(error: unknown): boolean {
  if (error instanceof Transient || error instanceof ModelError) return false;
  return error instanceof Error && /^(fetch failed|terminated|nothing arrived)/.test(error.message);
}

/** fetch says "fetch failed" or "terminated"; what happened is in the cause. */
function networkReason(error: unknown): string {
  const { cause } = error as Error;
  return cause instanceof Error ? cause.message || String((cause as NodeJS.ErrnoException).code) : messageOf(error);
}

function unreachable(url: string, error: Transient, { what, folder }: RequestOptions): ModelError {
  const remedy = `check the network, or put the model's files into ${folder}`;
  const got = `${error.message} (${ATTEMPTS} attempts)`;
  return new ModelError(expected(what, `an answer from ${new URL(url).host}`, got, remedy), { cause: error });
}

function readable(error: unknown, { what, folder }: RequestOptions): unknown {
  const code = (error as NodeJS.ErrnoException).code;
  if (code === "ENOSPC" || code === "EDQUOT" || code === "EFBIG") {
    const remedy = "free some space and pull again: it continues";
    return new ModelError(expected(what, `room in ${folder}`, `a full disk (${code})`, remedy), { cause: error });
  }
  return error instanceof Error && code !== undefined && !(error instanceof ModelError)
    ? new ModelError(expected(what, `a writable ${basename(folder)} folder`, error.message), { cause: error })
    : error;
}
