/** Operations of an HTTP service that an OpenAPI 3 document describes, as tools: chosen one by one, and kept to a list of origins. */
import { readFile } from "node:fs/promises";
import { expected, ToolError, ToolUnavailableError } from "../../errors.ts";
import { parseJsonStrict } from "../../json.ts";
import type { Json, JsonObject, Tool } from "../../types.ts";
import { operationsOf, type Operation } from "./openapi/operations.ts";
import { sendRequest, type AllowList, type HttpAnswer } from "./openapi/request.ts";
import { isObject } from "./openapi/resolve.ts";
import { urlOf } from "./openapi/url.ts";
import { schemaCheck } from "./schema.ts";

export interface OpenApiOptions {
  /** The document, or the path of its JSON file. */
  readonly document: JsonObject | string;
  /** Ids of the operations that become tools; one without an id is named by its method and path. */
  readonly operations: readonly string[];
  /** Default: the document's first server. */
  readonly baseUrl?: string;
  /** Sent to the origin of `baseUrl` and to no other; their values are struck out of whatever the model is told. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Origins that a redirect may lead to besides that of `baseUrl`, and those that may be private addresses (none, if left out). */
  readonly allow?: { readonly origins?: readonly string[]; readonly privateOrigins?: readonly string[] };
  /** Bytes of an answer that are read; default 1,000,000. */
  readonly maxBytes?: number;
}

interface Service {
  readonly base: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly allow: AllowList;
  readonly maxBytes: number;
  readonly secrets: readonly string[];
}

/** Reads the document and makes its tools; nothing is sent before one is called. Throws `ToolError` for what cannot be a tool. */
export async function openApiTools(options: OpenApiOptions): Promise<readonly Tool[]> {
  const { document, operations, baseUrl, headers = {}, allow = {}, maxBytes = 1_000_000 } = options;
  const read = typeof document === "string" ? await readDocument(document) : document;
  const [server] = Array.isArray(read["servers"]) ? (read["servers"] as readonly Json[]) : [];
  const address = baseUrl ?? (isObject(server) && typeof server["url"] === "string" ? server["url"] : "");
  if (!URL.canParse(address) || !/^https?:$/.test(new URL(address).protocol) || new URL(address).username !== "") {
    throw new ToolError(expected("OpenAPI: baseUrl", "an absolute http or https URL without a password", JSON.stringify(address)));
  }
  const base = new URL(address);
  const privateOrigins = new Set((allow.privateOrigins ?? []).map(originOf));
  const origins = new Set([base.origin, ...privateOrigins, ...(allow.origins ?? []).map(originOf)]);
  // A key stands behind a word such as Bearer; short words are no secrets.
  const secrets = Object.values(headers).flatMap((value) => [value, ...value.split(/\s+/)]).filter((value) => value.length >= 6);
  const service = { base, headers, allow: { origins, privateOrigins }, maxBytes, secrets };
  return Promise.all(operationsOf(read, operations).map((operation) => toolOf(operation, service)));
}

async function readDocument(path: string): Promise<JsonObject> {
  const text = await readFile(path, "utf8").catch(() => {
    throw new ToolError(expected("OpenAPI: document", "a file that can be read", path));
  });
  try {
    const value = parseJsonStrict(text);
    if (isObject(value)) return value;
  } catch {
    // Said below.
  }
  throw new ToolError(expected(`OpenAPI: ${path}`, "a JSON object", text.slice(0, 40), "convert YAML to JSON"));
}

function originOf(given: string): string {
  if (URL.canParse(given) && new URL(given).origin !== "null") return new URL(given).origin;
  throw new ToolError(expected("OpenAPI: allow", "origins such as https://api.example.org", JSON.stringify(given)));
}

async function toolOf(operation: Operation, service: Service): Promise<Tool> {
  const name = operation.id.replace(/[^A-Za-z0-9_-]/g, "_");
  if (!/^[A-Za-z][A-Za-z0-9_-]{0,63}$/.test(name)) {
    throw new ToolError(expected("OpenAPI operation", "an id of at most 64 characters that begins with a letter", name));
  }
  return {
    spec: { name, description: operation.description, parameters: operation.schema },
    validate: await schemaCheck(name, operation.schema),
    readOnly: operation.method === "GET" || operation.method === "HEAD",
    run: async (args, { signal }) => {
      const { url, headers, body } = urlOf(operation, args, service.base);
      const given = { ...body, url, method: operation.method, headers: { ...headers, ...service.headers } };
      const answer = await sendRequest({ ...service, ...given, signal });
      const told = service.secrets.reduce((text, secret) => text.replaceAll(secret, "[key]"), textOf(answer));
      if (answer.status === 429 || answer.status >= 502) throw new ToolUnavailableError(`${url.origin}: status ${answer.status}`);
      if (answer.status >= 400) throw new ToolError(told);
      return told;
    },
  };
}

function textOf({ status, type, body, cut }: HttpAnswer): string {
  const head = status === 200 ? [] : [`status ${status}`];
  const readable = body.length === 0 || type === "" || /^text\/|[/+](json|xml)\b|javascript|yaml|urlencoded/.test(type);
  const shown = readable ? body.toString("utf8") : `[${type.split(";")[0]}, ${body.length} bytes, not shown]`;
  const end = cut ? `[cut: only the first ${body.length} bytes are read]` : "";
  return [...head, shown, end].filter((part) => part !== "").join("\n") || "[empty]";
}
