import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { byteSize } from "../../../src/app/cli/ui/places.ts";
import { runFlywheel } from "../../fakes/cli.ts";
import { temporaryFolder } from "../../fakes/model-folders.ts";

async function setUp() {
  const cache = await temporaryFolder();
  const model = join(cache, "org--tiny", "main");
  mkdirSync(model, { recursive: true });
  writeFileSync(join(model, "model.safetensors"), Buffer.alloc(123_456));
  mkdirSync(join(cache, "half", "v1%2F2"), { recursive: true });
  writeFileSync(join(cache, "half", "v1%2F2", "model.safetensors.part"), Buffer.alloc(10));
  return cache;
}

test("as JSON: this machine, its measured limits, the cache and the hub", async () => {
  const cache = await setUp();
  const server = createServer((_, response) => response.end());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const environment = { FLYWHEEL_CACHE: cache, HF_ENDPOINT: endpoint };
  const { code, out } = await runFlywheel(["doctor", "--json", "--seconds", "0.05"], { environment });
  expect(code).toBe(0);
  const found = JSON.parse(out);
  expect(found.node).toBe(process.version);
  expect(found.cpu.cores).toBeGreaterThan(0);
  expect(found.memory.totalBytes).toBeGreaterThan(1e8);
  expect(found.runtime.providers).toContain("cpu");
  // A broken measurement shows as a rate that no machine has.
  expect(found.rates.gigaflops).toBeGreaterThan(0.5);
  expect(found.rates.gigaflops).toBeLessThan(100_000);
  expect(found.rates.gigabytes).toBeGreaterThan(0.1);
  expect(found.rates.gigabytes).toBeLessThan(10_000);
  expect(found.cache).toEqual({
    folder: cache,
    models: [
      { id: "half", revision: "v1/2", bytes: 10, complete: false },
      { id: "org/tiny", revision: "main", bytes: 123_456, complete: true },
    ],
  });
  expect(found.hub).toMatchObject({ endpoint, reachable: true });
});

test("as text: one row a subject, at most 80 columns; a hub that is away is no error", async () => {
  const cache = await setUp();
  const environment = { FLYWHEEL_CACHE: cache, HF_ENDPOINT: "http://127.0.0.1:9" };
  const { code, out } = await runFlywheel(["doctor", "--seconds", "0.05"], { environment, cwd: cache });
  expect(code).toBe(0);
  expect(out).toContain("org/tiny  123 kB\n");
  expect(out).toContain("half at v1/2  10 B  unfinished: pull again\n");
  expect(out).toMatch(/^hub {9}– 127\.0\.0\.1:9: .+$/m);
  expect(out).toMatch(/^speed {7}\d+ GFLOP\/s in float32 matrix products$/m);
});

test("a wrong number is refused", async () => {
  expect(await runFlywheel(["doctor", "--seconds", "0"])).toMatchObject({
    code: 2,
    err: expect.stringContaining("more than 0 and at most 60"),
  });
});

test("sizes have three significant digits", () => {
  expect([0, 999, 1000, 12_345, 999_499, 999_500, 538e6, 1.54e9, 2e15].map(byteSize)).toEqual([
    "0 B", "999 B", "1.00 kB", "12.3 kB", "999 kB", "1.00 MB", "538 MB", "1.54 GB", "2000 TB",
  ]);
});
