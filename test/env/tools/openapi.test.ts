import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openApiTools, type OpenApiOptions } from "../../../src/env/tools/openapi.ts";
import { isPrivate } from "../../../src/env/tools/openapi/addresses.ts";
import { runToolCalls } from "../../../src/loop/rollout/tools.ts";
import type { JsonObject, Task, Tool } from "../../../src/types.ts";

const key = "Bearer sk-very-secret-1";
const requests: (Pick<IncomingMessage, "url" | "method" | "headers"> & { readonly body: string })[] = [];
let [here, there] = ["", ""];

function answer(request: IncomingMessage, response: ServerResponse, body: string): void {
  const url = request.url!;
  requests.push({ url, method: request.method, headers: request.headers, body });
  const to = (location: string, status = 302): void => void response.writeHead(status, { location }).end();
  if (url.startsWith("/v1/go/")) return to(decodeURIComponent(url.slice("/v1/go/".length)), 307);
  if (url === "/v1/loop") return to("/v1/loop");
  if (url === "/v1/posted") return to("/v1/echo", 303);
  if (url === "/v1/echo") return void response.setHeader("content-type", "application/json").end(JSON.stringify(request.headers));
  if (url === "/v1/image") return void response.setHeader("content-type", "image/png").end("0123456789");
  if (url === "/v1/long") return void response.setHeader("content-type", "text/plain").end("x".repeat(3000));
  if (url === "/v1/slow") return;
  if (url === "/v1/half") return void response.writeHead(200, { "content-length": "100" }).write("half", () => response.destroy());
  if (url.startsWith("/v1/status/")) return void response.writeHead(Number(url.slice("/v1/status/".length))).end("told");
  response.setHeader("content-type", "application/json").end('{"ok":true}');
}

const serve = (): Promise<Server> =>
  new Promise((resolve) => {
    const server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => answer(request, response, Buffer.concat(chunks).toString()));
    });
    server.listen(0, "127.0.0.1", () => resolve(server));
  });
const servers: Server[] = [];
beforeAll(async () => {
  servers.push(await serve(), await serve());
  [here, there] = servers.map((server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`) as [string, string];
});
afterAll(() => servers.forEach((server) => (server.closeAllConnections(), server.close())));

const simple = (operationId: string) => ({ get: { operationId, summary: `Gets ${operationId}.` } });
const placed = (place: string, name: string, more: object = {}) => {
  return { name, in: place, required: place === "path", schema: { type: "string" }, ...more };
};
const days = { type: "integer", minimum: 0, exclusiveMinimum: true, example: 3 };
const document = {
  openapi: "3.0.3",
  servers: [{ url: "https://api.example.org/v1" }],
  paths: {
    "/cities/{city}/{kind}": {
      parameters: [placed("path", "city"), { $ref: "#/components/parameters/Kind" }],
      get: {
        operationId: "weather.of",
        summary: "The weather of a city.",
        parameters: [
          placed("query", "days", { description: "How many.", schema: days }),
          placed("query", "tags", { schema: { type: "array", items: { type: "string" } } }),
          placed("query", "flat", { explode: false, schema: { type: "array", items: { type: "string" } } }),
          placed("header", "X-Unit", { schema: { type: "string" } }),
          placed("cookie", "session"),
        ],
      },
      post: {
        operationId: "report",
        requestBody: { required: true, content: { "application/json": { schema: { $ref: "#/components/schemas/Report" } } } },
      },
    },
    "/go/{to}": { get: { operationId: "go", parameters: [placed("path", "to")] } },
    "/status/{code}": { get: { operationId: "status", parameters: [placed("path", "code")] } },
    "/posted": { post: { operationId: "posted", requestBody: { content: { "application/json": { schema: {} } } } } },
    "/upload": { post: { operationId: "upload", requestBody: { content: { "multipart/form-data": {} } } } },
    "/filter": { get: { operationId: "filter", parameters: [placed("query", "by", { style: "deepObject" })] } },
    "/auth": { get: { operationId: "auth", parameters: [placed("header", "Authorization")] } },
    "/far": { get: { operationId: "far", parameters: [{ $ref: "other.json#/x" }] } },
    ...Object.fromEntries(["echo", "image", "long", "slow", "loop", "half"].map((name) => [`/${name}`, simple(name)])),
  },
  components: {
    parameters: { Kind: placed("path", "kind", { schema: { type: "string", enum: ["now", "soon"] } }) },
    schemas: {
      Report: {
        type: "object",
        required: ["text"],
        properties: { text: { type: "string", nullable: true }, parts: { type: "array", items: { $ref: "#/components/schemas/Report" } } },
      },
    },
  },
};
const open = (operations: readonly string[], more: Partial<OpenApiOptions> = {}): Promise<readonly Tool[]> =>
  openApiTools({
    document: document,
    operations,
    baseUrl: `${here}/v1`,
    headers: { authorization: key },
    allow: { privateOrigins: [here] },
    ...more,
  });
const task: Task = { id: "t", prompt: [], data: {} };
const call = async (tools: readonly Tool[], name: string, args: JsonObject = {}, more: object = {}) => {
  const scope = { task, state: new Map<string, unknown>(), signal: new AbortController().signal, ...more };
  const { records } = await runToolCalls(tools, [{ id: "1", name, arguments: args }], scope);
  return [records[0]!.outcome, records[0]!.resultText];
};

test("arguments go where the document says, checked before anything is sent", async () => {
  const tools = await open(["weather.of", "report"]);
  expect(tools.map(({ spec, readOnly }) => [spec.name, spec.description, readOnly])).toEqual([
    ["weather_of", "The weather of a city.", true],
    ["report", "POST /cities/{city}/{kind}", false],
  ]);
  expect(tools[0]!.spec.parameters).toMatchObject({
    required: ["city", "kind"],
    properties: { kind: { enum: ["now", "soon"] }, days: { type: "integer", exclusiveMinimum: 0, description: "How many." } },
  });
  const args = { city: "Rio/../x?y", kind: "now", days: 2, tags: ["a", "b&c"], flat: ["d", "e"], "X-Unit": "C" };
  expect(await call(tools, "weather_of", args)).toEqual(["ok", '{"ok":true}']);
  expect(requests.at(-1)).toMatchObject({ url: "/v1/cities/Rio%2F..%2Fx%3Fy/now?days=2&tags=a&tags=b%26c&flat=d%2Ce", method: "GET" });
  expect(requests.at(-1)!.headers).toMatchObject({ "x-unit": "C", authorization: key });
  const report = { city: "Oslo", kind: "soon", body: { text: null, parts: [{ any: 1 }] } };
  expect(await call(tools, "report", report)).toEqual(["ok", '{"ok":true}']);
  expect(requests.at(-1)).toMatchObject({ url: "/v1/cities/Oslo/soon", method: "POST", body: '{"text":null,"parts":[{"any":1}]}' });
  const sent = requests.length;
  for (const [name, given, reason] of [
    ["weather_of", { city: "..", kind: "now" }, '"city" must not be ".."'],
    ["weather_of", { city: "", kind: "now" }, '"city" must not be ""'],
    ["weather_of", { city: "x", kind: "later" }, '"kind" must be one of "now", "soon"'],
    ["weather_of", { city: "x", kind: "now", days: 0 }, '"days" must be > 0'],
    ["weather_of", { city: "x", kind: "now", session: "1" }, 'unknown argument "session" (allowed: city, kind, days, tags, flat, X-Unit)'],
    ["weather_of", { city: "x", kind: "now", "X-Unit": "a\r\nHost: b" }, '"X-Unit" must be plain characters without line breaks'],
    ["report", { city: "x", kind: "now" }, '"body" is missing'],
    ["report", { city: "x", kind: "now", body: {} }, '"body.text" is missing'],
  ] as const)
    expect((await call(tools, name, given))[1]).toBe(`error: ${reason}`);
  expect(requests.length).toBe(sent);
});

test("no hop leaves the list, and a private address must be in it", async () => {
  const tools = await open(["go", "loop"], { allow: { privateOrigins: [here], origins: ["http://localhost:1"] } });
  for (const [to, reason] of [
    [`${there}/v1/echo`, `not allowed: ${there} is not in the list of origins`],
    ["http://169.254.169.254/latest", "not allowed: http://169.254.169.254 is not in the list of origins"],
    ["file:///etc/passwd", "not allowed: null is not in the list of origins"],
    ["http://localhost:1/", "not allowed: http://localhost:1 has a private address"],
  ] as const)
    expect(await call(tools, "go", { to })).toEqual(["error", `error: ${reason}`]);
  expect(await call(tools, "go", { to: "/v1/x" })).toEqual(["ok", '{"ok":true}']);
  expect(await call(tools, "loop")).toEqual(["error", "error: more than 5 redirects"]);
  const closed = await open(["echo"], { allow: {} });
  expect(await call(closed, "echo")).toEqual(["error", `error: not allowed: ${here} is a private address`]);
  const byName = await open(["echo"], { allow: {}, baseUrl: here.replace("127.0.0.1", "localhost") });
  expect((await call(byName, "echo"))[1]).toMatch(/has a private address$/);
  const both = await open(["go", "posted"], { allow: { privateOrigins: [here, there] } });
  const crossed = (await call(both, "go", { to: `${there}/v1/echo` }))[1]!;
  expect(JSON.parse(crossed)).not.toHaveProperty("authorization");
  expect((await call(both, "posted", { body: 1 }))[1]).toContain("accept-encoding");
  expect(requests.at(-1)).toMatchObject({ url: "/v1/echo", method: "GET", body: "" });
});

test.each([
  ["127.0.0.1", true], ["10.1.2.3", true], ["172.31.0.1", true], ["192.168.1.1", true], ["169.254.169.254", true], ["100.64.0.1", true],
  ["0.0.0.0", true], ["224.0.0.1", true], ["255.255.255.255", true], ["::1", true], ["::", true], ["fe80::1", true], ["fd00::1", true],
  ["::ffff:127.0.0.1", true], ["::ffff:7f00:1", true], ["64:ff9b::7f00:1", true], ["2002:7f00:1::", true], ["ff02::1", true],
  ["name", true], ["", true],
  ["8.8.8.8", false], ["172.32.0.1", false], ["193.0.0.1", false], ["2606:4700::1111", false], ["2a00:1450::1", false],
] as const)("%s is private: %s", (address, wanted) => expect(isPrivate(address)).toBe(wanted));

test("what came back: keys struck out, long and binary answers named, failures told or not graded", async () => {
  const tools = await open(["echo", "image", "long", "slow", "half", "status"], { maxBytes: 1000 });
  const [outcome, echoed] = await call(tools, "echo");
  expect([outcome, echoed!.includes("sk-very-secret-1"), echoed!.includes('"authorization":"[key]"')]).toEqual(["ok", false, true]);
  expect((await call(tools, "image"))[1]).toBe("[image/png, 10 bytes, not shown]");
  expect((await call(tools, "long"))[1]).toBe(`${"x".repeat(1000)}\n[cut: only the first 1000 bytes are read]`);
  expect(await call(tools, "slow", {}, { deadlineMs: 50 })).toEqual(["timeout", "error: slow took longer than 50 ms and was stopped"]);
  expect(await call(tools, "status", { code: "201" })).toEqual(["ok", "status 201\ntold"]);
  for (const code of ["400", "404", "500"]) expect(await call(tools, "status", { code })).toEqual(["error", `error: status ${code}\ntold`]);
  for (const code of ["429", "502", "503"]) await expect(call(tools, "status", { code })).rejects.toThrow(`${here}: status ${code}`);
  await expect(call(tools, "half")).rejects.toThrow(`${here} does not answer`);
  const gone = await open(["echo"], { baseUrl: "http://127.0.0.1:1", allow: { privateOrigins: ["http://127.0.0.1:1"] } });
  await expect(call(gone, "echo")).rejects.toThrow(/^http:\/\/127\.0\.0\.1:1 does not answer: .*ECONNREFUSED/);
});

test("documents and settings that cannot work are refused before anything is sent", async () => {
  await expect(open(["nothing"])).rejects.toThrow(/^OpenAPI operations: expected some of weather\.of, report, go, .*, got nothing$/);
  await expect(open(["upload"])).rejects.toThrow("OpenAPI operation upload: requestBody: expected application/json, got another type");
  await expect(open(["filter"])).rejects.toThrow("parameter by: expected plain values or lists of them, in the usual style");
  await expect(open(["far"])).rejects.toThrow(/expected a reference inside the document, got other\.json#\/x; bundle/);
  await expect(open([], { document: { openapi: "2.0" } })).rejects.toThrow('OpenAPI document: openapi: expected 3.0 or 3.1, got "2.0"');
  await expect(open([], { baseUrl: "/v1" })).rejects.toThrow("OpenAPI: baseUrl: expected an absolute http or https URL");
  await expect(open([], { baseUrl: "https://a:b@example.org" })).rejects.toThrow("without a password");
  await expect(open([], { document: "none.json" })).rejects.toThrow("OpenAPI: document: expected a file that can be read, got none.json");
  await expect(open([], { allow: { origins: ["example"] } })).rejects.toThrow("OpenAPI: allow: expected origins such as");
  expect((await call(await open(["auth"]), "auth", { Authorization: "x" }))[1]).toBe('error: the header "Authorization" cannot be set');
});
