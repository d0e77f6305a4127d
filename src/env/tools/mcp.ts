/** The tools of servers of the Model Context Protocol, over stdio or streamable HTTP, as tools of an environment. */
import type { Tool as ListedTool } from "@modelcontextprotocol/sdk/types.js";
import { expected, ToolError, ToolUnavailableError } from "../../errors.ts";
import type { JsonObject, Tool, ToolContext } from "../../types.ts";
import type { McpServer } from "./mcp/server.ts";
import type { McpSession } from "./mcp/session.ts";
import type { Sessions } from "./mcp/share.ts";
import { schemaCheck } from "./schema.ts";
import type { ToolSet } from "./tool-set.ts";

interface Listed {
  readonly server: string;
  readonly tool: ListedTool;
  readonly sessions: Sessions;
}

/**
 * Starts or reaches the servers, and lists their tools once. Several servers are given by name; where two have a tool of one name, both
 * carry their server's in front. Throws `ToolError` for what cannot be used, `ToolUnavailableError` for a server that does not answer.
 */
export async function mcpTools(servers: McpServer | Readonly<Record<string, McpServer>>): Promise<ToolSet> {
  const named = isServer(servers) ? { mcp: servers } : servers;
  const open: Sessions[] = [];
  const close = async (): Promise<void> => void (await Promise.all(open.map((sessions) => sessions[Symbol.asyncDispose]())));
  try {
    const listed: Listed[] = [];
    for (const [name, server] of Object.entries(named)) listed.push(...(await listOf(name, server, open)));
    return { tools: await Promise.all(listed.map((entry) => toolOf(entry, listed))), [Symbol.asyncDispose]: close };
  } catch (cause) {
    await close();
    throw cause;
  }
}

function isServer(given: McpServer | Readonly<Record<string, McpServer>>): given is McpServer {
  return typeof given["command" as never] === "string" || typeof given["url" as never] === "string";
}

async function listOf(name: string, server: McpServer, open: Sessions[]): Promise<readonly Listed[]> {
  const [{ openSession }, { episodeSessions, sharedSessions }] = await Promise.all([import("./mcp/session.ts"), import("./mcp/share.ts")]);
  const where = `MCP server ${name}`;
  const first = await openSession(server, where);
  const sessions = server.perEpisode === true ? episodeSessions(server, where) : sharedSessions(server, { where, first });
  open.push(sessions);
  try {
    const tools = await listTools(first);
    const { include = tools.map((tool) => tool.name) } = server;
    const stray = include.find((wanted) => !tools.some((tool) => tool.name === wanted));
    if (stray === undefined) return tools.filter((tool) => include.includes(tool.name)).map((tool) => ({ server: name, tool, sessions }));
    throw new ToolError(expected(`${where}: include`, `some of ${tools.map((tool) => tool.name).join(", ")}`, stray));
  } finally {
    if (server.perEpisode === true) await first.close();
  }
}

async function listTools({ client }: McpSession): Promise<readonly ListedTool[]> {
  const tools: ListedTool[] = [];
  let cursor: string | undefined;
  do {
    const page = await client.listTools(cursor === undefined ? {} : { cursor });
    tools.push(...page.tools);
    cursor = page.nextCursor;
  } while (cursor !== undefined && tools.length < 10_000);
  return tools;
}

async function toolOf({ server, tool, sessions }: Listed, all: readonly Listed[]): Promise<Tool> {
  const plain = tool.name.replace(/[^A-Za-z0-9_-]/g, "_");
  const clash = all.some((other) => other.server !== server && other.tool.name.replace(/[^A-Za-z0-9_-]/g, "_") === plain);
  const name = clash ? `${server}_${plain}` : plain;
  const run = async (args: JsonObject, context: ToolContext): Promise<string> => {
    const session = await sessions.for(context);
    const result = await session.call(tool.name, args, context.signal);
    sessions.answered();
    const { textOf } = await import("./mcp/result.ts");
    if (result.isError === true) throw new ToolError(textOf(result));
    return textOf(result);
  };
  const { $schema: _, ...parameters } = tool.inputSchema as JsonObject;
  return {
    spec: { name: checkedName(name), description: tool.description ?? tool.title ?? "", parameters },
    validate: await schemaCheck(name, tool.inputSchema as JsonObject),
    run,
    probe: (context) => probe({ server, tool, sessions }, context),
    readOnly: tool.annotations?.readOnlyHint === true,
  };
}

/** A call that was slow because its server was still starting is not the model's fault either. */
async function probe({ server, sessions }: Listed, context: ToolContext): Promise<void> {
  if (sessions.started(context)) return (await sessions.for(context)).probe();
  const remedy = "raise limits.deadlineMs of the environment";
  throw new ToolUnavailableError(expected(`MCP server ${server}`, "a start within the deadline of its first call", "none", remedy));
}

function checkedName(name: string): string {
  if (/^[A-Za-z][A-Za-z0-9_-]{0,63}$/.test(name)) return name;
  throw new ToolError(expected("MCP tool", "a name of at most 64 characters that begins with a letter", JSON.stringify(name)));
}
