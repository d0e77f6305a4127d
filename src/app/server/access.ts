/** Who may ask, and how often: keys compared by their hashes in constant time, and a budget of requests a minute for each key. */
import { createHash, timingSafeEqual } from "node:crypto";
import { ApiError } from "./errors.ts";

interface AccessOptions {
  /** Without any, everybody may ask. */
  readonly keys: readonly string[];
  /** Requests a minute for each key; Infinity is no limit. */
  readonly requestsPerMinute: number;
}

/** Names a caller in sessions and limits without holding the key. */
export type Caller = string;

const hashOf = (text: string): Buffer => createHash("sha256").update(text).digest();

export const callerOfKey = (key: string): Caller => hashOf(key).toString("hex").slice(0, 16);

interface Bucket {
  tokens: number;
  at: number;
}

export class Access {
  readonly #hashes: readonly Buffer[];
  readonly #limit: number;
  readonly #buckets = new Map<Caller, Bucket>();

  constructor({ keys, requestsPerMinute }: AccessOptions) {
    this.#hashes = keys.map(hashOf);
    this.#limit = requestsPerMinute;
  }

  /** The caller of an Authorization header; refuses an unknown one with 401. */
  callerOf(authorization: string | undefined): Caller {
    if (this.#hashes.length === 0) return "anonymous";
    const given = /^Bearer (.+)$/i.exec(authorization ?? "")?.[1];
    const hash = hashOf(given ?? "");
    let known = false; // every key is compared, so that the time says nothing about which one is near
    for (const own of this.#hashes) if (timingSafeEqual(own, hash)) known = true;
    if (known && given !== undefined) return callerOfKey(given);
    const message = given === undefined ? "expected a key in the header Authorization: Bearer <key>, got none" : "the API key is not known";
    throw new ApiError(401, message, { type: "authentication_error", code: "invalid_api_key" });
  }

  /** Takes one request from the caller's budget; refuses with 429 and the seconds to wait. */
  take(caller: Caller, now = performance.now()): void {
    if (this.#limit === Infinity) return;
    const bucket = this.#buckets.get(caller) ?? { tokens: this.#limit, at: now };
    const tokens = Math.min(this.#limit, bucket.tokens + ((now - bucket.at) / 60_000) * this.#limit);
    this.#buckets.set(caller, { tokens: tokens >= 1 ? tokens - 1 : tokens, at: now });
    if (tokens >= 1) return;
    const wait = Math.ceil(((1 - tokens) / this.#limit) * 60);
    throw new ApiError(429, `expected at most ${this.#limit} requests a minute for this key; wait ${wait} s`, {
      type: "rate_limit_error",
      code: "rate_limit_exceeded",
      headers: { "retry-after": String(wait) },
    });
  }
}
