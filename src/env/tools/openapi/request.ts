/**
 * HTTP that stays inside a list of origins: every hop of a redirect is held against it, and the address that a name stands for is
 * checked where the connection is made, so that a name which changes its address between two look-ups gains nothing.
 */
import { lookup, type LookupAddress } from "node:dns";
import { request as plain, type IncomingMessage, type RequestOptions } from "node:http";
import { request as secure } from "node:https";
import { isIP, type LookupFunction } from "node:net";
import { ToolError, ToolUnavailableError, messageOf } from "../../../errors.ts";
import { isPrivate } from "./addresses.ts";

export interface AllowList {
  /** Such as "https://api.example.org"; of them, those that may have a private address. */
  readonly origins: ReadonlySet<string>;
  readonly privateOrigins: ReadonlySet<string>;
}

interface HttpRequest {
  readonly url: URL;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  readonly allow: AllowList;
  readonly signal: AbortSignal;
  readonly maxBytes: number;
}

export interface HttpAnswer {
  readonly status: number;
  readonly type: string;
  readonly body: Buffer;
  /** More came than was read. */
  readonly cut: boolean;
}

const MAX_REDIRECTS = 5;

/** Throws `ToolError` for what is not allowed, `ToolUnavailableError` where nothing answers. */
export async function sendRequest(given: HttpRequest): Promise<HttpAnswer> {
  let { url, method, body } = given;
  for (let hop = 0; ; hop++) {
    checkOrigin(url, given.allow);
    // Headers may hold keys, which are the first origin's alone.
    const headers = url.origin === given.url.origin ? given.headers : {};
    const response = await once({ ...given, url, method, headers, body });
    const { statusCode: status = 0, headers: answered } = response;
    if (![301, 302, 303, 307, 308].includes(status) || answered.location === undefined) return readAnswer(response, { ...given, url });
    response.destroy();
    if (hop >= MAX_REDIRECTS) throw new ToolError(`more than ${MAX_REDIRECTS} redirects`);
    if (!URL.canParse(answered.location, url.href)) throw new ToolError("redirected to what is no URL");
    url = new URL(answered.location, url);
    if (status === 303 || (status <= 302 && method === "POST")) [method, body] = ["GET", undefined];
  }
}

function checkOrigin({ origin, hostname }: URL, { origins, privateOrigins }: AllowList): void {
  if (!origins.has(origin)) throw new ToolError(`not allowed: ${origin} is not in the list of origins`);
  const literal = hostname.replace(/^\[|\]$/g, "");
  if (isIP(literal) !== 0 && isPrivate(literal) && !privateOrigins.has(origin)) {
    throw new ToolError(`not allowed: ${origin} is a private address`);
  }
}

function once({ url, method, headers, body, allow, signal }: HttpRequest): Promise<IncomingMessage> {
  const guarded: LookupFunction = (name, options, callback) =>
    lookup(name, { ...options, all: true }, (error, addresses: LookupAddress[]) => {
      if (error !== null) return callback(error, "", 0);
      const wrong = allow.privateOrigins.has(url.origin) ? undefined : addresses.find(({ address }) => isPrivate(address));
      if (wrong !== undefined) return callback(new ToolError(`not allowed: ${url.origin} has a private address`), "", 0);
      if (options.all === true) return callback(null, addresses);
      callback(null, addresses[0]!.address, addresses[0]!.family);
    });
  const options: RequestOptions = { method, headers, signal, lookup: guarded, agent: false };
  return new Promise((resolve, reject) => {
    const sent = url.protocol === "https:" ? secure(url, options, resolve) : plain(url, options, resolve);
    sent.on("error", (cause) => {
      reject(signal.aborted || cause instanceof ToolError ? cause : gone(url, cause));
    });
    sent.end(body);
  });
}

const gone = ({ origin }: URL, cause: unknown): ToolUnavailableError =>
  new ToolUnavailableError(`${origin} does not answer: ${messageOf(cause)}`, { cause });

async function readAnswer(response: IncomingMessage, { url, signal, maxBytes }: HttpRequest): Promise<HttpAnswer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > maxBytes) break;
    }
  } catch (cause) {
    throw signal.aborted ? cause : gone(url, cause);
  }
  const { statusCode: status = 0, headers } = response;
  return { status, type: headers["content-type"] ?? "", body: Buffer.concat(chunks).subarray(0, maxBytes), cut: bytes > maxBytes };
}
