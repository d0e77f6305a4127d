/** Where a call's arguments go: into the path, the query, headers and the body. */
import { ToolError } from "../../../errors.ts";
import type { Json, JsonObject } from "../../../types.ts";
import type { Operation } from "./operations.ts";

/** Headers that a call may not set: they would change who is asked, how, or as whom. */
const FIXED = ["host", "authorization", "cookie", "connection", "content-length", "content-type", "transfer-encoding"];

interface Addressed {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: { readonly body?: string };
}

/** Throws `ToolError` for an argument that would lead to another path than the operation's. */
export function urlOf({ path, parameters, hasBody }: Operation, args: JsonObject, base: URL): Addressed {
  let filled = path;
  const query = new URLSearchParams(base.search);
  const headers: Record<string, string> = { accept: "application/json, text/*;q=0.9, */*;q=0.1", "accept-encoding": "identity" };
  for (const { name, in: place, explode } of parameters) {
    const value = args[name];
    if (value === undefined || value === null) continue;
    const parts = Array.isArray(value) ? (value as readonly Json[]).map(textOf) : [textOf(value)];
    if (place === "path") filled = filled.replaceAll(`{${name}}`, segment(name, parts.join(",")));
    else if (place === "header") headers[name.toLowerCase()] = headerValue(name, parts.join(","));
    else if (explode) for (const part of parts) query.append(name, part);
    else query.append(name, parts.join(","));
  }
  const missing = /\{([^}]*)\}/.exec(filled)?.[1];
  if (missing !== undefined) throw new ToolError(`"${missing}" is missing`);
  const url = new URL(base);
  url.pathname = `${base.pathname.replace(/\/$/, "")}${filled}`;
  url.search = query.toString();
  const sends = hasBody && args["body"] !== undefined;
  if (sends) headers["content-type"] = "application/json";
  return { url, headers, body: sends ? { body: JSON.stringify(args["body"]) } : {} };
}

/** A value inside one segment of the path: "." and ".." would leave it, however they are escaped. */
function segment(name: string, value: string): string {
  if (value === "" || /^\.{1,2}$/.test(value)) throw new ToolError(`"${name}" must not be ${JSON.stringify(value)}`);
  return encodeURIComponent(value);
}

function headerValue(name: string, value: string): string {
  if (FIXED.includes(name.toLowerCase())) throw new ToolError(`the header "${name}" cannot be set`);
  if (/[^\t\x20-\x7e]/.test(value)) throw new ToolError(`"${name}" must be plain characters without line breaks`);
  return value;
}

const textOf = (value: Json): string => (typeof value === "string" ? value : JSON.stringify(value));
