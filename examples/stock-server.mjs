/** A server of the Model Context Protocol over stdio, for mcp-agent.ts: how many of an item are in stock. */
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";

const stock = { apples: 12, pears: 7, plums: 31, quinces: 4, lemons: 19, figs: 26 };

const server = new McpServer({ name: "stock", version: "1.0.0" });
server.registerTool(
  "look_up",
  { description: "Says how many of an item are in stock.", inputSchema: { item: z.string() }, annotations: { readOnlyHint: true } },
  ({ item }) => {
    const text = Object.hasOwn(stock, item) ? String(stock[item]) : `no item ${item}; items: ${Object.keys(stock).join(", ")}`;
    return { content: [{ type: "text", text }], isError: !Object.hasOwn(stock, item) };
  },
);
await server.connect(new StdioServerTransport());
