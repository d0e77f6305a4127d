/** Who is let in, how much may be asked, how weights are exchanged, and how clients and the server leave. */
import { readFile } from "node:fs/promises";
import { request as httpRequest } from "node:http";
import { join } from "node:path";
import { expect, test } from "vitest";
import { decodeRollout } from "../../../src/train/record/trajectory-codec.ts";
import type { SampledSpan } from "../../../src/types.ts";
import { lossOf } from "../../fakes/served-training.ts";
import { temporaryFolder } from "../../fakes/model-folders.ts";
import { deskPolicy, served, type Served } from "../../fakes/served.ts";
import { startServer } from "../../../src/app/server/server.ts";

const question = { model: "desk", messages: [{ role: "user" as const, content: "What is 3+4?" }] };
const ask = ({ post }: Served, more: object = {}, headers = {}): Promise<Response> =>
  post("/v1/chat/completions", { ...question, max_tokens: 8, ...more }, headers);

/** A request with a Host header of its own, which fetch does not allow. */
function withHost(url: string, host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = httpRequest(`${url}/v1/models`, { headers: { host } }, (response) => {
      response.resume();
      resolve(response.statusCode!);
    });
    sent.on("error", reject);
    sent.end();
  });
}

async function metric({ fetch }: Served, name: string): Promise<number> {
  const text = await (await fetch("/metrics")).text();
  return text
    .split("\n")
    .filter((line) => line.startsWith(name))
    .reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

async function until(condition: () => Promise<boolean> | boolean): Promise<void> {
  for (let i = 0; i < 500; i++) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error("not within 5 s");
}

test("keys: none, a wrong one, each of several; sessions belong to the key that made them", async () => {
  const server = await served({ policy: await deskPolicy(), keys: ["first", "second"] });
  const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
  for (const headers of [{}, bearer("wrong"), { authorization: "Basic first" }]) {
    const response = await ask(server, {}, headers);
    expect(response.status).toBe(401);
    expect(await response.json()).toMatchObject({ error: { type: "authentication_error", code: "invalid_api_key" } });
  }
  for (const key of ["first", "second"]) expect((await ask(server, {}, bearer(key))).status).toBe(200);
  await ask(server, {}, { ...bearer("first"), "x-flywheel-session": "mine" });
  expect((await server.fetch("/v1/sessions/mine", { headers: bearer("first") })).status).toBe(200);
  expect((await server.fetch("/v1/sessions/mine", { headers: bearer("second") })).status).toBe(404);
  expect((await ask(server, {}, { ...bearer("second"), "x-flywheel-session": "mine" })).status).toBe(404);
  expect((await server.fetch("/health")).status).toBe(200);
  expect((await server.fetch("/metrics")).status).toBe(401);
});

test("without a key it listens on loopback alone, and only to those who call it by that name", async () => {
  const policy = await deskPolicy();
  await expect(startServer({ policy, models: new Map(), host: "0.0.0.0" })).rejects.toThrow(/serve --host: expected a loopback address/);
  const { server } = await served({ policy });
  expect(await withHost(server.url, "localhost:1")).toBe(200);
  expect(await withHost(server.url, "rebound.example")).toBe(403);
  await expect(startServer({ policy, models: new Map(), port: Number(new URL(server.url).port) })).rejects.toThrow(/expected a free port/);
});

test("budgets: requests a minute, bytes of a body, content types, JSON that is none, routes that are none", async () => {
  const limited = await served({ policy: await deskPolicy(), requestsPerMinute: 2, maxBodyBytes: 2000 });
  expect([(await ask(limited)).status, (await ask(limited)).status]).toEqual([200, 200]);
  const third = await ask(limited);
  expect(third.status).toBe(429);
  const wait = Number(third.headers.get("retry-after"));
  expect([wait > 20, wait <= 30]).toEqual([true, true]);
  expect(await third.json()).toMatchObject({ error: { type: "rate_limit_error" } });
  const server = await served({ policy: await deskPolicy(), maxBodyBytes: 2000 });
  expect((await ask(server, { user: "x".repeat(3000) })).status).toBe(413);
  const raw = (body: string, type: string) =>
    server.fetch("/v1/chat/completions", { method: "POST", body, headers: { "content-type": type } });
  expect((await raw("{}", "text/plain")).status).toBe(415);
  expect(await (await raw("{broken", "application/json")).json()).toMatchObject({ error: { code: "invalid_json" } });
  expect(await (await server.post("/v1/embeddings", {})).json()).toMatchObject({
    error: { code: "unsupported_endpoint", type: "invalid_request_error" },
  });
  expect(await (await server.fetch("/v2/x")).json()).toMatchObject({ error: { code: "unknown_url" } });
  const models = (await (await server.fetch("/v1/models")).json()) as { data: { id: string }[] };
  expect(models.data.map(({ id }) => id)).toEqual(["desk"]);
  expect((await server.fetch("/v1/models/desk")).status).toBe(200);
  expect((await server.fetch("/v1/models/other")).status).toBe(404);
});

test("pages of other origins are let in by name alone", async () => {
  const origin = "https://page.example";
  const closed = await served({ policy: await deskPolicy() });
  expect((await closed.fetch("/v1/models", { headers: { origin } })).headers.get("access-control-allow-origin")).toBeNull();
  const open = await served({ policy: await deskPolicy(), corsOrigins: [origin], keys: ["k"] });
  const preflight = await open.fetch("/v1/chat/completions", {
    method: "OPTIONS",
    headers: { origin, "access-control-request-method": "POST" },
  });
  expect([preflight.status, preflight.headers.get("access-control-allow-origin")]).toEqual([204, origin]);
  const other = await open.fetch("/v1/chat/completions", { method: "OPTIONS", headers: { origin: "https://other.example" } });
  expect(other.headers.get("access-control-allow-origin")).toBeNull();
});

test.each([true, false])("a client that leaves stops its own sampling, and nobody else's (stream %s)", async (stream) => {
  const policy = await deskPolicy();
  const server = await served({ policy });
  // Without stop ids the answer goes on to the end of the context.
  Object.assign(policy.renderer, { stopIds: [] });
  const leaving = new AbortController();
  const gone = server.post("/s/gone/v1/chat/completions", { ...question, max_tokens: 900, stream }).catch(() => undefined);
  const left = fetch(`${server.server.url}/s/left/v1/chat/completions`, {
    method: "POST",
    body: JSON.stringify({ ...question, max_tokens: 900, stream }),
    headers: { "content-type": "application/json" },
    signal: leaving.signal,
  });
  await until(async () => (await metric(server, "flywheel_running_requests")) === 2);
  if (stream) await (await left).body!.getReader().read();
  leaving.abort();
  await left.catch(() => undefined);
  await until(async () => (await metric(server, "flywheel_cancelled_total")) === 1);
  expect(await metric(server, "flywheel_running_requests")).toBe(1);
  expect(server.server.sessions.get("left", "anonymous").scored().trajectory.rows).toEqual([]);
  const text = await (await gone)!.text();
  expect(text).toContain('"finish_reason":"length"');
});

test("weights are exchanged between requests: none is dropped or mixed, and each says which version answered", async () => {
  const policy = await deskPolicy({ train: { type: "lora", lora: { rank: 4, alpha: 8, targets: ["q", "v"] } } });
  const server = await served({ policy });
  const spans: SampledSpan[] = [];
  const sample = policy.engine.sample.bind(policy.engine);
  policy.engine.sample = async (request) => {
    const found = await sample(request);
    spans.push(...found);
    return found;
  };
  const versions: string[] = [];
  let swapping = true;
  const clients = Array.from({ length: 6 }, async (_, client) => {
    for (let i = 0; swapping; i++) {
      const response = await ask(server, { max_tokens: 30, seed: client * 100 + i, stream: i % 2 === 0 });
      expect(response.status).toBe(200);
      const text = await response.text();
      expect(text).not.toContain('"error"');
      expect(text).toContain(`flywheel-v${response.headers.get("x-flywheel-policy-version")!}`);
      versions.push(response.headers.get("x-flywheel-policy-version")!);
    }
  });
  for (let step = 1; step <= 4; step++) {
    await policy.engine.forwardBackward(...lossOf(step)); // beside the sampling
    await server.server.swap(async () => {
      await policy.engine.optimStep({ learningRate: 1e-3, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0, maxGradNorm: 1 });
      await policy.engine.publish();
    });
  }
  await until(() => versions.includes("4"));
  swapping = false;
  await Promise.all(clients);
  expect(spans.map(({ version }) => String(version)).sort()).toEqual([...versions].sort());
  expect(await metric(server, "flywheel_weight_swaps_total")).toBe(4);
  expect(await (await server.fetch("/health")).json()).toEqual({ status: "ok", version: 4 });
});

test("a server that ends lets running answers finish, refuses new ones, and writes its sessions", async () => {
  const folder = await temporaryFolder();
  const policy = await deskPolicy();
  const server = await served({ policy, sessions: { folder } });
  Object.assign(policy.renderer, { stopIds: [] });
  const running = server.post("/s/last/v1/chat/completions", { ...question, max_tokens: 200 });
  await until(async () => (await metric(server, "flywheel_running_requests")) === 1);
  const ended = server.server.close(20);
  const answer = (await (await running).json()) as { usage: { completion_tokens: number } };
  expect(answer.usage.completion_tokens).toBe(200);
  await ended;
  await expect(ask(server)).rejects.toThrow();
  const lines = (await readFile(join(folder, "sessions.jsonl"), "utf8")).trim().split("\n");
  const { trajectory, verdict } = decodeRollout(lines[0]!, "line 1").scored;
  expect([lines.length, trajectory.id, verdict.type]).toEqual([1, "session/last", "unscorable"]);
  expect(trajectory.rows[0]!.spans[1]!.ids).toHaveLength(200);
});

test("sessions beyond the memory make room, the longest idle first, and are counted", async () => {
  const folder = await temporaryFolder();
  const server = await served({ policy: await deskPolicy(), sessions: { maxSessions: 3, folder } });
  for (const id of ["a", "b", "c", "a", "d", "e"]) await ask(server, {}, { "x-flywheel-session": id });
  const there = await Promise.all(["a", "b", "c", "d", "e"].map(async (id) => (await server.fetch(`/v1/sessions/${id}`)).status));
  expect(there).toEqual([200, 404, 404, 200, 200]);
  expect(await metric(server, 'flywheel_sessions_evicted_total{to="disk"}')).toBe(2);
  await server.server.close(0);
  const ids = (await readFile(join(folder, "sessions.jsonl"), "utf8"))
    .trim()
    .split("\n")
    .map((line) => decodeRollout(line, "line").scored.trajectory.task.id);
  expect(ids).toEqual(["b", "c", "a", "d", "e"]);
});

test("completions: texts and ids, whole and streamed, with log-probs; kept in a session", async () => {
  const policy = await deskPolicy();
  const server = await served({ policy });
  const { client } = server;
  const prompt = policy.renderer.tokenizer.encode("<|im_start|>user\nWhat is 3+4?<|im_end|>\n<|im_start|>assistant\n");
  const base = { model: "desk", max_tokens: 12, seed: 5 };
  const one = await client.completions.create({ ...base, prompt, logprobs: 2 });
  const text = "<|im_start|>user\nWhat is 3+4?<|im_end|>\n<|im_start|>assistant\n";
  const same = await client.completions.create({ ...base, prompt: text }, { headers: { "x-flywheel-session": "raw" } });
  expect(same.choices[0]!.text).toBe(one.choices[0]!.text);
  const { tokens, token_logprobs: logprobs, top_logprobs: top, text_offset: offsets } = one.choices[0]!.logprobs!;
  expect(tokens!.join("")).toBe(one.choices[0]!.text);
  expect(offsets![0]).toBe(0);
  expect(logprobs!.length).toBe(tokens!.length);
  expect(Object.keys(top![0]!)).toHaveLength(2);
  let streamed = "";
  for await (const { choices } of await client.completions.create({ ...base, prompt, stream: true })) streamed += choices[0]?.text ?? "";
  expect(streamed).toBe(one.choices[0]!.text);
  const several = await client.completions.create({ ...base, prompt: ["a", "b"], n: 2 });
  expect(several.choices.map(({ index }) => index)).toEqual([0, 1, 2, 3]);
  const { rows } = server.server.sessions.get("raw", "anonymous").scored().trajectory;
  expect(rows[0]!.spans[0]!.ids).toEqual(prompt);
  for (const bad of [{ prompt: "x", echo: true }, { prompt: [99_999] }, { prompt: "" }, { prompt: "x", suffix: "y" }]) {
    expect((await server.post("/v1/completions", { model: "desk", ...bad })).status).toBe(400);
  }
});
