import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openSandbox, type OpenSandboxOptions, sandboxReport } from "../../../src/compute/sandbox/open.ts";
import { limitsWith, type Sandbox, type SandboxRun } from "../../../src/compute/sandbox/sandbox.ts";
import { Slots } from "../../../src/compute/sandbox/slots.ts";

const python = (source: string, more: Partial<SandboxRun> = {}): SandboxRun => ({ program: { language: "python", source }, ...more });
const javascript = (source: string, more: Partial<SandboxRun> = {}): SandboxRun => ({
  program: { language: "javascript", source },
  ...more,
});

// One suite for what every sandbox does the same; bubblewrap is opened here or the tests fail with what to install.
describe.each(["bubblewrap", "quickjs"] as const)("%s", (kind) => {
  let sandbox: Sandbox;
  beforeAll(async () => {
    sandbox = await openSandbox({ kind, slots: 3 });
  }, 60_000);
  afterAll(() => sandbox.close());

  test("output, exit code and errors of a program", { timeout: 60_000 }, async () => {
    expect(await sandbox.run(javascript("console.log(6 * 7)"))).toMatchObject({ exit: 0, stdout: "42\n", stderr: "", killedBy: null });
    const failed = await sandbox.run(javascript("console.log('before'); throw new TypeError('boom')"));
    expect(failed).toMatchObject({ exit: 1, stdout: "before\n", killedBy: null });
    expect(failed.stderr).toContain("TypeError: boom");
    expect(await sandbox.run(javascript("}{"))).toMatchObject({ exit: 1 });
  });

  test("a loop ends at the wall time", { timeout: 60_000 }, async () => {
    const { killedBy, exit, seconds } = await sandbox.run(javascript("for (;;);", { limits: { wallSeconds: 1, cpuSeconds: 30 } }));
    expect([killedBy, exit]).toEqual(["wall", null]);
    expect(seconds).toBeGreaterThan(0.9);
    expect(seconds).toBeLessThan(8);
  });

  test("memory has an end", { timeout: 60_000 }, async () => {
    const fill = "for (let i = 0; i < 2000; i++) held.push(new Array(131072).fill(i + 0.5));";
    const hungry = `const held = []; try { ${fill} console.log('held', held.length); } catch (e) { console.log('refused'); }`;
    const { stdout, killedBy, exit } = await sandbox.run(
      javascript(hungry, { limits: { memoryMegabytes: 64, wallSeconds: 30, cpuSeconds: 30 } }),
    );
    expect(stdout).not.toContain("held");
    expect(stdout === "refused\n" || killedBy !== null || exit !== 0).toBe(true);
  });

  test("output is cut where it is read, and a flood ends the run", { timeout: 60_000 }, async () => {
    const cut = await sandbox.run(javascript("console.log('x'.repeat(5000))", { limits: { outputBytes: 1000 } }));
    expect([cut.stdout.length, cut.truncated.stdout, cut.exit]).toEqual([1000, true, 0]);
    const flood = await sandbox.run(
      javascript("for (;;) console.log('x'.repeat(5000))", { limits: { outputBytes: 1000, wallSeconds: 20, cpuSeconds: 20 } }),
    );
    // Node keeps what it could not yet write, so its memory may be full first.
    expect(kind === "quickjs" ? ["output"] : ["output", "memory"]).toContain(flood.killedBy);
    expect(flood.stdout.length).toBe(1000);
  });

  test("an abort ends the run, and leaves the queue, with the signal's reason", { timeout: 60_000 }, async () => {
    const reason = new Error("enough");
    const controllers = Array.from({ length: 5 }, () => new AbortController());
    const runs = controllers.map(({ signal }) =>
      sandbox.run(javascript("for (;;);", { signal, limits: { wallSeconds: 30, cpuSeconds: 30 } })),
    );
    const settled = Promise.allSettled(runs);
    await sleep(500);
    for (const controller of controllers) controller.abort(reason);
    expect(await settled).toEqual(Array.from({ length: 5 }, () => ({ status: "rejected", reason })));
    expect(await sandbox.run(javascript("console.log(1)"))).toMatchObject({ exit: 0 });
  });

  test("time in the queue does not count: 12 runs of up to 2 s on 3 slots", { timeout: 120_000 }, async () => {
    const busy = "const end = Date.now() + 300; while (Date.now() < end); console.log('done')";
    const runs = await Promise.all(
      Array.from({ length: 12 }, () => sandbox.run(javascript(busy, { limits: { wallSeconds: 8, cpuSeconds: 8 } }))),
    );
    expect(runs.map(({ stdout }) => stdout)).toEqual(Array.from({ length: 12 }, () => "done\n"));
    expect(Math.min(...runs.map(({ seconds }) => seconds))).toBeGreaterThan(0.25);
  });

  test("wrong limits and files are refused before anything runs", async () => {
    await expect(sandbox.run(javascript("", { limits: { wallSeconds: 0 } }))).rejects.toThrow(
      "sandbox limit wallSeconds: expected a positive number, got 0",
    );
    await expect(sandbox.run(javascript("", { files: { "../x": "" } }))).rejects.toThrow(
      'expected a relative path without . and .., got "../x"',
    );
    expect(() => limitsWith({ memory: 3 } as object)).toThrow("sandbox limits: expected wallSeconds, cpuSeconds");
  });
});

describe("bubblewrap alone", () => {
  let sandbox: Sandbox;
  beforeAll(async () => {
    sandbox = await openSandbox({ slots: 2 });
  }, 60_000);
  afterAll(() => sandbox.close());

  test("files and standard input reach the program, in three languages", { timeout: 60_000 }, async () => {
    const files = { "data/words.txt": "one two", "util.ts": "export const twice = (n: number): number => 2 * n;" };
    const read = await sandbox.run(python("import sys\nprint(open('data/words.txt').read(), sys.stdin.read())", { files, stdin: "three" }));
    expect(read.stdout).toBe("one two three\n");
    const typed = await sandbox.run({
      program: {
        language: "typescript",
        source:
          "import { twice } from './util.ts'; import { readFileSync } from 'node:fs';\n" +
          "enum N { A = 4 } console.log(twice(N.A), readFileSync(0, 'utf8') as string);",
      },
      files,
      stdin: "in",
    });
    expect(typed.stdout).toBe("8 in\n");
  });

  test("processor time and signals are told apart", { timeout: 60_000 }, async () => {
    expect((await sandbox.run(python("while True: pass", { limits: { cpuSeconds: 1, wallSeconds: 40 } }))).killedBy).toBe("cpu");
    expect((await sandbox.run(python("import os\nos.kill(os.getpid(), 11)"))).killedBy).toBe("signal");
    expect(await sandbox.run(python("import sys\nsys.exit(3)"))).toMatchObject({ exit: 3, killedBy: null });
  });

  test("a program that does not exist is a result, and so is a text that is no program", { timeout: 60_000 }, async () => {
    expect((await sandbox.run({ program: { command: ["/no/such/program"] } })).exit).toBe(127);
    expect((await sandbox.run(python("if if"))).exit).toBe(1);
  });
});

test("a closed sandbox refuses, and its runs are ended", { timeout: 60_000 }, async () => {
  const sandbox = await openSandbox({ slots: 1 });
  const runs = [1, 2].map(() => sandbox.run(python("import time\ntime.sleep(60)", { limits: { wallSeconds: 60 } })));
  const settled = Promise.allSettled(runs);
  await sleep(500);
  await sandbox.close();
  const [running, waiting] = await settled;
  expect(running).toMatchObject({ status: "fulfilled", value: { killedBy: "signal" } });
  expect(waiting).toMatchObject({ status: "rejected", reason: { message: "sandbox: it is closed" } });
  await expect(sandbox.run(python(""))).rejects.toThrow("sandbox: it is closed");
});

test("quickjs refuses what it cannot do, by name", async () => {
  await using sandbox = await openSandbox({ kind: "quickjs", slots: 1 });
  await expect(sandbox.run(python(""))).rejects.toThrow(
    "quickjs sandbox: expected a program in javascript, got python; use the bubblewrap sandbox on Linux",
  );
  await expect(sandbox.run(javascript("", { files: { a: "" } }))).rejects.toThrow("quickjs sandbox: expected no files, got a");
  const seen = await sandbox.run(
    javascript("console.log(typeof process, typeof require, typeof fetch, typeof setTimeout, stdin)", { stdin: "in" }),
  );
  expect(seen.stdout).toBe("undefined undefined undefined undefined in\n");
  const promise = await sandbox.run(javascript("Promise.resolve(5).then((n) => console.log(n, { a: [1] }))"));
  expect(promise.stdout).toBe('5 {"a":[1]}\n');
});

test("the report names both, what is not isolated, and a remedy only where it is needed", { timeout: 60_000 }, async () => {
  const report = await sandboxReport();
  expect(report.map(({ name }) => name)).toEqual(["bubblewrap", "quickjs"]);
  for (const { available, isolated, notIsolated, remedy } of report) {
    expect(available).toBe(true);
    expect(remedy).toBe(null);
    expect(isolated.join(" ")).toContain("network (none)");
    expect(notIsolated.length).toBeGreaterThan(0);
  }
});

test("wrong options are refused", async () => {
  const none: OpenSandboxOptions = { slots: 0 };
  await expect(openSandbox(none)).rejects.toThrow("sandbox slots: expected 1 to 256, got 0");
  await expect(openSandbox({ python: "/opt/python" })).rejects.toThrow("sandbox python: expected a program under /usr");
});

test("slots go to those that wait in the order of their arrival", async () => {
  const slots = new Slots(1);
  const order: number[] = [];
  await Promise.all(
    [1, 2, 3].map((n) =>
      slots.use(undefined, async () => {
        await sleep(1);
        order.push(n);
      }),
    ),
  );
  expect(order).toEqual([1, 2, 3]);
});
