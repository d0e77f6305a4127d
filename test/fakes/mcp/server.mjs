/** A server of the Model Context Protocol with every kind of trouble: over stdio, or over HTTP where a port file is given. */
import { spawn } from "node:child_process";
import { appendFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";

const [mode = "stdio", file = ""] = process.argv.slice(2);
const text = (value) => ({ content: [{ type: "text", text: String(value) }] });
const png = Buffer.from("not really a picture").toString("base64");

function make() {
  let count = 0;
  const server = new McpServer({ name: "trouble", version: "1" });
  const tool = (name, inputSchema, run, more = {}) =>
    server.registerTool(name, { description: `The tool ${name}.`, inputSchema, ...more }, run);
  tool("add", { a: z.number(), b: z.number() }, ({ a, b }) => text(a + b), { annotations: { readOnlyHint: true } });
  tool("code", { code: z.string().regex(/^(a+)+$/), kind: z.enum(["x", "y"]).optional() }, ({ code }) => text(code));
  tool("count", {}, () => text(++count));
  tool("env", { name: z.string() }, ({ name }) => text(process.env[name] ?? "none"));
  tool("long", { size: z.number() }, ({ size }) => text("x".repeat(size)));
  tool("mixed", {}, () => ({
    content: [
      { type: "text", text: "one" },
      { type: "image", data: png, mimeType: "image/png" },
      { type: "resource", resource: { uri: "file:///a.txt", text: "two" } },
      { type: "resource", resource: { uri: "file:///b.bin", blob: png, mimeType: "application/x" } },
      { type: "resource_link", name: "more", uri: "https://example.org/more" },
    ],
  }));
  tool("fail", {}, () => ({ isError: true, content: [{ type: "text", text: "no such city; cities: Rome, Oslo" }] }));
  tool("empty", {}, () => ({ content: [] }));
  tool("pid", {}, () => text(process.pid));
  tool("child", {}, () => text(spawn("sleep", ["600"], { stdio: "ignore" }).pid));
  tool("die", {}, () => {
    console.error("out of paper");
    process.exit(3);
  });
  tool("freeze", {}, () => {
    for (;;);
  });
  tool("wait", { ms: z.number() }, ({ ms }, { signal }) => {
    signal.addEventListener("abort", () => appendFileSync(file || "/dev/null", "cancelled\n"));
    return new Promise((resolve) => setTimeout(() => resolve(text("waited")), ms));
  });
  server.registerTool("odd.name", { description: "" }, () => text("odd"));
  return server;
}

if (mode === "http") {
  const sessions = new Map();
  const http = createServer(async (request, response) => {
    if (request.headers["x-key"] !== "secret-key") return response.writeHead(401).end("no");
    const id = request.headers["mcp-session-id"];
    let transport = sessions.get(id);
    if (transport === undefined) {
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: () => `s${sessions.size + 1}`,
        onsessioninitialized: (made) => void sessions.set(made, transport),
        onsessionclosed: (gone) => appendFileSync(file, `closed ${gone}\n`),
      });
      await make().connect(transport);
    }
    await transport.handleRequest(request, response);
  });
  http.keepAliveTimeout = 120_000;
  http.listen(0, "127.0.0.1", () => writeFileSync(file, `${http.address().port}\n`));
  setTimeout(() => process.exit(), 120_000).unref();
} else {
  await new Promise((resolve) => setTimeout(resolve, Number(process.env.START_MS ?? 0)));
  console.log("this line is no message");
  await make().connect(new StdioServerTransport());
}
