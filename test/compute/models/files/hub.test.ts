import { statSync } from "node:fs";
import { mkdir, readFile, readdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { pullModel } from "../../../../src/compute/models/files/hub.ts";
import type { PullProgress } from "../../../../src/compute/models/files/hub.ts";
import { openModelFiles } from "../../../../src/compute/models/files/model-folder.ts";
import { fakeHub } from "./fake-hub.ts";
import type { Behaviour, FakeHubOptions } from "./fake-hub.ts";
import { golden, temporaryFolder } from "./temporary.ts";

const id = "org/tiny";
const retryMilliseconds = 1;

/** A model of random-looking bytes under the names that a pull takes, among others that it leaves. */
function model(): Record<string, Buffer> {
  return {
    "README.md": Buffer.from("# tiny"),
    "config.json": Buffer.from('{"model_type": "llama"}'),
    "generation_config.json": Buffer.from("{}"),
    "tokenizer.json": Buffer.from('{"model": {}}'),
    "tokenizer_config.json": Buffer.from("{}"),
    "chat_template.jinja": Buffer.from("{{ messages }}"),
    "model.safetensors": Buffer.from(Array.from({ length: 300_000 }, (_, i) => (i * 31 + (i >> 8)) & 255)),
    "consolidated.safetensors": Buffer.from("x"),
    "pytorch_model.bin": Buffer.from("x"),
    "onnx/model.onnx": Buffer.from("x"),
  };
}

const weights = `/${id}/resolve/c0ffee/model.safetensors`;
const pulled = [
  "chat_template.jinja",
  "config.json",
  "generation_config.json",
  "model.safetensors",
  "tokenizer.json",
  "tokenizer_config.json",
];

async function setUp(options: Partial<FakeHubOptions> = {}) {
  const files = model();
  const hub = await fakeHub({ id, files, large: ["model.safetensors"], ...options });
  const cacheDir = await temporaryFolder();
  return { files, hub, cacheDir, pull: { endpoint: hub.endpoint, cacheDir, retryMilliseconds } };
}

test("fetches configuration, tokenizer and safetensors, and nothing that is there already", async () => {
  const { files, hub, cacheDir, pull } = await setUp();
  const seen: PullProgress[] = [];
  const folder = await pullModel(id, { ...pull, token: "secret", onProgress: (progress) => seen.push(progress) });
  expect(folder).toBe(join(cacheDir, "org--tiny", "main"));
  expect((await readdir(folder)).sort()).toEqual(pulled);
  for (const name of pulled) expect(await readFile(join(folder, name))).toEqual(files[name]);
  const total = pulled.reduce((sum, name) => sum + files[name]!.length, 0);
  expect(seen.at(-1)).toMatchObject({ file: "model.safetensors", done: total, total });
  expect(seen.at(-1)!.bytesPerSecond).toBeGreaterThan(0);
  expect([...hub.authorizations]).toEqual(["Bearer secret"]);
  const before = hub.requests.length;
  await pullModel(id, pull);
  expect(hub.requests.slice(before)).toEqual([`/api/models/${id}/revision/main`]);
});

test("a file damaged on disk is fetched again", async () => {
  const { files, hub, pull } = await setUp();
  const folder = await pullModel(id, pull);
  const damaged = Buffer.from(files["model.safetensors"]!);
  damaged[1000]! ^= 1;
  await writeFile(join(folder, "model.safetensors"), damaged);
  const before = hub.requests.length;
  await pullModel(id, pull);
  expect(hub.requests.slice(before)).toEqual([`/api/models/${id}/revision/main`, weights]);
  expect(await readFile(join(folder, "model.safetensors"))).toEqual(files["model.safetensors"]);
});

/** Cuts the first `times` connections of the weight file after `keep` bytes, once the client has them in its part. */
const cut = (times: number, keep: number, cacheDir: () => string): Behaviour => (request, response, earlier) => {
  if (request.url !== weights || earlier >= times) return false;
  const from = Number(/\d+/.exec(request.headers.range ?? "0")![0]);
  const bytes = model()["model.safetensors"]!;
  const range = { "content-range": `bytes ${from}-${bytes.length - 1}/${bytes.length}` };
  response.writeHead(from > 0 ? 206 : 200, { "content-length": bytes.length - from, ...(from > 0 ? range : {}) });
  response.write(bytes.subarray(from, from + keep));
  const part = join(cacheDir(), "org--tiny", "main", "model.safetensors.part");
  const poll = setInterval(() => {
    if ((statSync(part, { throwIfNoEntry: false })?.size ?? 0) < from + keep) return;
    clearInterval(poll);
    response.destroy();
  }, 5);
  return true;
};

test("a connection cut midway continues where it stopped", async () => {
  let folderOfCache = "";
  const { files, hub, cacheDir, pull } = await setUp({ behaviour: cut(2, 100_000, () => folderOfCache) });
  folderOfCache = cacheDir;
  const folder = await pullModel(id, pull);
  expect(await readFile(join(folder, "model.safetensors"))).toEqual(files["model.safetensors"]);
  expect(hub.requests.filter((request) => request.startsWith(weights))).toEqual([
    weights,
    `${weights} bytes=100000-`,
    `${weights} bytes=200000-`,
  ]);
});

test("a pull that was interrupted continues in the next one, if the part is of the same file", async () => {
  const { files, hub, cacheDir, pull } = await setUp();
  const folder = join(cacheDir, "org--tiny", "main");
  await mkdir(folder, { recursive: true });
  const part = join(folder, "model.safetensors.part");
  await writeFile(part, files["model.safetensors"]!.subarray(0, 123_456));
  await pullModel(id, pull);
  expect(hub.requests.at(-1)).toBe(`${weights} bytes=123456-`);
  expect(await readFile(join(folder, "model.safetensors"))).toEqual(files["model.safetensors"]);
  expect((await readdir(folder)).sort()).toEqual(pulled);
  const second = join(cacheDir, "second");
  await mkdir(join(second, "org--tiny", "main"), { recursive: true });
  await writeFile(join(second, "org--tiny", "main", "model.safetensors.part"), Buffer.alloc(200_000, 7));
  const other = await pullModel(id, { ...pull, cacheDir: second });
  expect(hub.requests.slice(-2)).toEqual([`${weights} bytes=200000-`, weights]);
  expect(await readFile(join(other, "model.safetensors"))).toEqual(files["model.safetensors"]);
});

test("a server without Range starts the file again", async () => {
  let folderOfCache = "";
  const behaviour: Behaviour = (request, response, earlier) => {
    delete request.headers.range;
    return cut(1, 50_000, () => folderOfCache)(request, response, earlier);
  };
  const { files, cacheDir, pull } = await setUp({ behaviour });
  folderOfCache = cacheDir;
  const seen: PullProgress[] = [];
  const folder = await pullModel(id, { ...pull, onProgress: (progress) => seen.push(progress) });
  expect(await readFile(join(folder, "model.safetensors"))).toEqual(files["model.safetensors"]);
  expect(seen.at(-1)!.done).toBe(seen.at(-1)!.total);
});

test("a wrong checksum is refused, and the bad bytes are not kept", async () => {
  const lie = "00".repeat(32);
  const { cacheDir, pull } = await setUp({ claims: { "model.safetensors": lie } });
  await expect(pullModel(id, pull)).rejects.toThrow(
    `model org/tiny at main: model.safetensors: expected sha256 ${lie}, got other content; it was discarded`,
  );
  expect((await readdir(join(cacheDir, "org--tiny", "main"))).filter((name) => name.startsWith("model"))).toEqual([]);
  const small = await setUp({ claims: { "tokenizer.json": "11".repeat(20) } });
  await expect(pullModel(id, small.pull)).rejects.toThrow(/tokenizer\.json: expected gitBlob 1111/);
});

test("more bytes than promised are refused", async () => {
  const behaviour: Behaviour = (request, response) => {
    if (!request.url!.endsWith("/config.json")) return false;
    response.end("x".repeat(1000));
    return true;
  };
  const { pull } = await setUp({ behaviour });
  await expect(pullModel(id, pull)).rejects.toThrow(/config\.json: expected gitBlob .*, got other content/);
});

test("servers that are busy are asked again; those that stay so are named after five attempts", async () => {
  const busy = (times: number): Behaviour => (_request, response, earlier) => {
    if (earlier >= times) return false;
    response.writeHead(earlier % 2 === 0 ? 503 : 429, { "retry-after": "0" }).end();
    return true;
  };
  const patient = await setUp({ behaviour: busy(2) });
  expect((await readdir(await pullModel(id, patient.pull))).length).toBe(pulled.length);
  const never = await setUp({ behaviour: busy(99) });
  const message = /at main: expected an answer from 127\.0\.0\.1:\d+, got HTTP 503 \(5 attempts\); check the network, or put .*org--tiny/;
  await expect(pullModel(id, never.pull)).rejects.toThrow(message);
  expect(never.hub.requests.length).toBe(5);
});

test("401, 403 and 404 are told at once, with what to do", async () => {
  const answer = (status: number): Behaviour => (_request, response) => {
    response.writeHead(status).end();
    return true;
  };
  const cases: [number, string | undefined, RegExp][] = [
    [401, "", /expected access, got HTTP 401; set HF_TOKEN, or check the name/],
    [403, "secret", /expected access, got HTTP 403; accept the model's terms on its page/],
    [404, "", /expected a model or file of that name, got HTTP 404; check the name and the revision/],
  ];
  for (const [status, token, message] of cases) {
    const { hub, pull } = await setUp({ behaviour: answer(status) });
    await expect(pullModel(id, { ...pull, token: token! })).rejects.toThrow(message);
    expect(hub.requests.length).toBe(1);
  }
});

test("no network, a malformed id, a malformed endpoint and an unwritable cache are one line each", async () => {
  const { hub, cacheDir, pull } = await setUp();
  const nowhere = pullModel(id, { ...pull, endpoint: "http://127.0.0.1:1" });
  await expect(nowhere).rejects.toThrow(/expected an answer from 127\.0\.0\.1:1, got .*\(5 attempts\)/);
  await expect(pullModel("../../etc", pull)).rejects.toThrow(/expected a hub id such as organisation\/name, got "\.\.\/\.\.\/etc"/);
  await expect(pullModel(id, { ...pull, revision: ".." })).rejects.toThrow(/expected a revision, got "\.\."/);
  await expect(pullModel(id, { ...pull, endpoint: "hub" })).rejects.toThrow(/endpoint: expected a URL/);
  await writeFile(join(cacheDir, "file"), "");
  await expect(pullModel(id, { ...pull, cacheDir: join(cacheDir, "file") })).rejects.toThrow(/expected a writable folder, got ENOTDIR/);
  expect(hub.requests).toEqual([`/api/models/${id}/revision/main`]);
});

test("a full disk is told as such", async () => {
  const { cacheDir, pull } = await setUp();
  const folder = join(cacheDir, "org--tiny", "main");
  await mkdir(folder, { recursive: true });
  await symlink("/dev/full", join(folder, "model.safetensors.part"));
  await expect(pullModel(id, pull)).rejects.toThrow(/expected room in .*main, got a full disk \(ENOSPC\); free some space and pull again/);
});

test("a pull that is cancelled stops, and keeps its part for the next", async () => {
  const stop = new AbortController();
  const behaviour: Behaviour = (request, response) => {
    if (request.url !== weights) return false;
    const bytes = model()["model.safetensors"]!;
    response.writeHead(200, { "content-length": bytes.length });
    response.write(bytes.subarray(0, 1000)); // and never the rest
    return true;
  };
  const { cacheDir, pull } = await setUp({ behaviour });
  const cancelling = pullModel(id, {
    ...pull,
    signal: stop.signal,
    onProgress: ({ file, done }) => {
      if (file === "model.safetensors" && done > 1000) stop.abort(new Error("stopped by hand"));
    },
  });
  await expect(cancelling).rejects.toThrow("stopped by hand");
  expect((await readFile(join(cacheDir, "org--tiny", "main", "model.safetensors.part"))).length).toBe(1000);
});

test("one named .gguf is fetched alone and opens by the id", async () => {
  const gguf = await readFile(join(golden, "smollm.gguf"));
  const files = { "model.gguf": gguf, "other.gguf": Buffer.from("x"), "config.json": Buffer.from("{}") };
  const { cacheDir, pull } = await setUp({ files, large: ["model.gguf", "other.gguf"] });
  await expect(pullModel(id, pull)).rejects.toThrow(/expected safetensors weights, got model\.gguf, other\.gguf; name one \.gguf file/);
  const absent = pullModel(id, { ...pull, gguf: "none.gguf" });
  await expect(absent).rejects.toThrow(/expected a file named none\.gguf, got model\.gguf, other\.gguf/);
  const folder = await pullModel(id, { ...pull, gguf: "model.gguf" });
  expect(await readdir(folder)).toEqual(["model.gguf"]);
  const opened = await openModelFiles(id, { cacheDir });
  expect([opened.name, opened.config["hidden_size"]]).toEqual([id, 16]);
  await opened.close();
});

test("names from a server never leave the folder", async () => {
  const { cacheDir, pull } = await setUp({ files: { "../../evil.safetensors": Buffer.from("x"), "config.json": Buffer.from("{}") } });
  await expect(pullModel(id, pull)).rejects.toThrow(/expected safetensors weights, got config\.json/);
  expect(await readdir(cacheDir)).toEqual([]);
});
