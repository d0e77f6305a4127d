/** A connection to a server of the Model Context Protocol: opened with a deadline, lost for a reason, closed without a trace. */
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { CallToolResultSchema, ErrorCode, McpError, type CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import { messageOf, ToolError, ToolUnavailableError } from "../../../errors.ts";
import type { JsonObject } from "../../../types.ts";
import { limitedFetch } from "./limited-fetch.ts";
import { processTransport } from "./process.ts";
import type { McpServer, McpUrl } from "./server.ts";

export interface McpSession {
  readonly client: Client;
  /** Why nothing can be called any more; null while it lives. */
  readonly lost: () => string | null;
  /** Rejects with `ToolUnavailableError` if the server is gone, `ToolError` if it refuses. */
  call(name: string, args: JsonObject, signal: AbortSignal): Promise<CallToolResult>;
  /** Asks for a sign of life. */
  probe(): Promise<void>;
  close(): Promise<void>;
}

/** The longest that a timer can wait: deadlines come by signal. */
const NO_TIMEOUT = 2 ** 31 - 1;
const PING_MS = 2000;

/** Starts or reaches the server. Throws `ToolUnavailableError` with the server's last words. */
export async function openSession(server: McpServer, where: string): Promise<McpSession> {
  const client = new Client({ name: "flywheel", version: "1" });
  const own = "command" in server ? processTransport(server) : null;
  const http = "command" in server ? null : httpTransport(server);
  // The kit's types leave optional fields out where ours may be undefined.
  const transport = (own ?? http) as Transport;
  let lost: string | null = null;
  const said = (reason: string): string => [reason, own?.lastWords() ?? ""].filter((part) => part !== "").join(": ");
  const gone = (cause: unknown): ToolUnavailableError => {
    lost ??= said(messageOf(cause));
    return new ToolUnavailableError(`${where}: ${lost}`, { cause });
  };
  client.onclose = () => (lost ??= said("the server has ended"));
  const close = async (): Promise<void> => {
    lost ??= "it was closed";
    await http?.terminateSession().catch(() => undefined);
    await client.close();
  };
  try {
    await client.connect(transport, { timeout: (server.startSeconds ?? 30) * 1000 });
  } catch (cause) {
    // Its last words are all there when it has ended.
    await transport.close();
    throw gone(cause);
  }
  return {
    client,
    lost: () => lost,
    close,
    async call(name, args, signal) {
      try {
        const params = { name, arguments: args };
        return await client.request({ method: "tools/call", params }, CallToolResultSchema, { signal, timeout: NO_TIMEOUT });
      } catch (cause) {
        if (signal.aborted) throw cause;
        const refused = cause instanceof McpError && cause.code !== Number(ErrorCode.ConnectionClosed) && lost === null;
        throw refused ? new ToolError(cause.message) : gone(cause);
      }
    },
    async probe() {
      try {
        await client.ping({ timeout: PING_MS });
      } catch (cause) {
        const failure = gone(cause);
        await close();
        throw failure;
      }
    },
  };
}

function httpTransport({ url, headers = {} }: McpUrl): StreamableHTTPClientTransport {
  // A redirect could carry the headers elsewhere.
  return new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers, redirect: "error" }, fetch: limitedFetch });
}
