import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { fakeHub } from "../../compute/models/files/fake-hub.ts";
import { Interrupted } from "../../../src/app/cli/services.ts";
import { runFlywheel } from "../../fakes/cli.ts";
import { temporaryFolder } from "../../fakes/model-folders.ts";

const files = {
  "config.json": Buffer.from("{}"),
  "tokenizer.json": Buffer.from("{}"),
  "model.safetensors": Buffer.alloc(2_000_000, 7),
  "tiny-Q8_0.gguf": Buffer.alloc(1_000_000, 3),
};

async function setUp(behaviour?: Parameters<typeof fakeHub>[0]["behaviour"]) {
  const { endpoint, requests } = await fakeHub({
    id: "org/tiny",
    files,
    large: ["model.safetensors", "tiny-Q8_0.gguf"],
    ...(behaviour === undefined ? {} : { behaviour }),
  });
  const cache = await temporaryFolder();
  return { cache, requests, environment: { HF_ENDPOINT: endpoint, FLYWHEEL_CACHE: cache } };
}

test("the last lines say where the model is and how to use it; a second pull fetches nothing", async () => {
  const { cache, environment } = await setUp();
  const first = await runFlywheel(["pull", "org/tiny"], { environment, cwd: cache });
  expect(first.code).toBe(0);
  expect(first.out).toMatch(/^model {2}org--tiny\/main {2}\(2\.00 MB fetched in 0:0\d\)\nuse {4}flywheel chat org\/tiny\n$/);
  expect(first.err.split("\n").at(-2)).toMatch(/^org\/tiny {2}2\.00 MB of 2\.00 MB {2}\d[\d.]* [kMG]B\/s {2}ETA 0:00$/);
  const second = await runFlywheel(["pull", "org/tiny"], { environment, cwd: cache });
  expect(second).toEqual({ code: 0, out: "model  org--tiny/main  (already complete)\nuse    flywheel chat org/tiny\n", err: "" });
});

test("a terminal gets a bar with sizes, rate and time left", async () => {
  const { cache, environment } = await setUp();
  const { err } = await runFlywheel(["pull", "org/tiny"], { environment: { ...environment, NO_COLOR: "1" }, cwd: cache, terminal: 80 });
  const last = err.split("\r").at(-1)!;
  expect(last).toMatch(/^org\/tiny {2}█{20} {2}2\.00 MB of 2\.00 MB {2}\d[\d.]* [kMG]B\/s {2}ETA 0:00\u001b\[K\n$/);
});

test("one GGUF file, and another cache folder, are named by path", async () => {
  const { cache, environment } = await setUp();
  const gguf = await runFlywheel(["pull", "org/tiny", "--gguf", "tiny-Q8_0.gguf", "--cache", join(cache, "here")], {
    environment,
    cwd: cache,
  });
  expect(gguf.out).toContain("use    flywheel chat here/org--tiny/main/tiny-Q8_0.gguf\n");
  expect(readdirSync(join(cache, "here/org--tiny/main"))).toEqual(["tiny-Q8_0.gguf"]);
});

test("Ctrl-C keeps what has arrived, exits with 130, and the next pull goes on from there", async () => {
  const interrupt = new AbortController();
  const half = files["model.safetensors"].subarray(0, 1_000_000);
  const { cache, requests, environment } = await setUp((request, response, earlier) => {
    if (!request.url!.endsWith("model.safetensors") || earlier > 0) return false;
    response.writeHead(200, { "content-length": 2_000_000 });
    response.write(half);
    return true;
  });
  const part = join(cache, "org--tiny/main/model.safetensors.part");
  const watch = setInterval(() => {
    if (existsSync(part) && statSync(part).size === half.length) interrupt.abort(new Interrupted());
  }, 20);
  const stopped = await runFlywheel(["pull", "org/tiny"], { environment, cwd: cache, signal: interrupt.signal });
  clearInterval(watch);
  expect(stopped.code).toBe(130);
  expect(stopped.out).toBe("");
  expect(stopped.err).toMatch(/\nstopped at 1\.00 MB of 2\.00 MB; run it again to continue\n$/);
  expect(existsSync(part)).toBe(true);
  expect((await runFlywheel(["pull", "org/tiny"], { environment, cwd: cache })).code).toBe(0);
  expect(requests.at(-1)).toBe("/org/tiny/resolve/c0ffee/model.safetensors bytes=1000000-");
});

test("what is not there is one line", async () => {
  const { cache, environment } = await setUp();
  const run = (...args: string[]) => runFlywheel(["pull", ...args], { environment, cwd: cache });
  expect(await run("org/other")).toEqual({
    code: 1,
    out: "",
    err: "error: model org/other at main: expected a model or file of that name, got HTTP 404; check the name and the revision\n",
  });
  expect((await run("org/tiny", "--gguf", "x.gguf")).err).toBe(
    "error: org/tiny at main: expected a file named x.gguf, got tiny-Q8_0.gguf\n",
  );
  expect((await run("not an id")).err).toContain('expected a hub id such as organisation/name, got "not an id"');
});
