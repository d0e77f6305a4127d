/** What the routes share about requests: the caller, the body and the session that a call belongs to. */
import type { HttpBindings } from "@hono/node-server";
import type { Context } from "hono";
import { messageOf } from "../../errors.ts";
import type { Caller } from "./access.ts";
import { ApiError } from "./errors.ts";

export interface AppEnv {
  readonly Bindings: HttpBindings;
  readonly Variables: { caller: Caller };
}

export const callerOf = (c: Context<AppEnv>): Caller => c.get("caller");

/**
 * The body as JSON. Another content type is refused: a page of another origin may send `text/plain` without asking, and must not reach
 * a server on this machine. `absent` stands for an empty body.
 */
export async function readBody(c: Context<AppEnv>, absent?: unknown): Promise<unknown> {
  const text = await c.req.text();
  if (text === "" && absent !== undefined) return absent;
  const type = c.req.header("content-type") ?? "none";
  if (!/^application\/json\b/i.test(type)) {
    throw new ApiError(415, `content-type: expected application/json, got ${type}`, { code: "unsupported_media_type" });
  }
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new ApiError(400, `body: expected JSON, got ${messageOf(cause)}`, { code: "invalid_json" });
  }
}

/** By path, header or metadata, in this order. */
export function sessionOf(c: Context<AppEnv>, metadata: string | undefined): string | undefined {
  return c.req.param("session") ?? c.req.header("x-flywheel-session") ?? metadata;
}
