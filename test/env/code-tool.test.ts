import { afterAll, beforeAll, expect, test } from "vitest";
import { openSandbox } from "../../src/compute/sandbox/open.ts";
import type { Sandbox } from "../../src/compute/sandbox/sandbox.ts";
import { codeTool, type CodeToolOptions } from "../../src/env/tools/code.ts";
import { runToolCalls } from "../../src/loop/rollout/tools.ts";
import type { JsonObject, Task } from "../../src/types.ts";

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await openSandbox({ slots: 3 });
}, 60_000);
afterAll(() => sandbox.close());

const task: Task = { id: "t", prompt: [], data: {} };
async function call(tool: ReturnType<typeof codeTool>, args: JsonObject, deadlineMs = 30_000) {
  const { records } = await runToolCalls([tool], [{ id: "1", name: tool.spec.name, arguments: args }], {
    task,
    state: new Map(),
    signal: new AbortController().signal,
    deadlineMs,
  });
  return [records[0]!.outcome, records[0]!.resultText];
}

const of = (options: CodeToolOptions): ReturnType<typeof codeTool> => codeTool({ sandbox, ...options });

test("a tool of one language asks for the code alone, one of several for the language too", { timeout: 60_000 }, async () => {
  const python = codeTool({ sandbox });
  expect(python.spec).toMatchObject({ name: "run_code", parameters: { required: ["code"], additionalProperties: false } });
  expect(python.spec.description).toBe(
    "Runs a program in Python 3 and returns what it prints. No network, and nothing is kept between calls.",
  );
  expect(await call(python, { code: "print(6 * 7)" })).toEqual(["ok", "42\n"]);
  const three = of({ languages: ["python", "javascript", "typescript"] });
  expect(await call(three, { language: "javascript", code: "console.log([1, 2].map((n) => n * 2))" })).toEqual(["ok", "[ 2, 4 ]\n"]);
  expect(await call(three, { language: "typescript", code: "const n: number = 5; console.log(n)" })).toEqual(["ok", "5\n"]);
  expect(await call(three, { language: "ruby", code: "1" })).toEqual([
    "bad-arguments",
    'error: "language" must be one of "python", "javascript", "typescript", got "ruby"',
  ]);
});

test("what went wrong is told: errors, silence, exit codes, limits", { timeout: 60_000 }, async () => {
  const tool = codeTool({ sandbox, limits: { wallSeconds: 2, outputBytes: 100 } });
  const [outcome, text] = await call(tool, { code: "print(1)\n1 / 0" });
  expect(outcome).toBe("ok");
  expect(text).toMatch(/^1\n\n\[stderr\]\nTraceback[^]*\[cut: only the first 100 bytes are kept\]\n\[exit code 1\]$/);
  expect(await call(tool, { code: "x = 1" })).toEqual(["ok", "[no output; print what you want to see]"]);
  expect(await call(tool, { code: "import sys\nsys.exit(3)" })).toEqual(["ok", "[exit code 3]"]);
  expect(await call(tool, { code: "import time\ntime.sleep(60)" })).toEqual(["ok", "[the program was ended: it took longer than 2 s]"]);
  expect(await call(tool, { code: "print('x' * 300)" })).toEqual(["ok", `${"x".repeat(100)}\n[cut: only the first 100 bytes are kept]`]);
});

test("the deadline of a call ends its run", { timeout: 60_000 }, async () => {
  const tool = codeTool({ sandbox, limits: { wallSeconds: 50 } });
  expect(await call(tool, { code: "import time\ntime.sleep(60)" }, 1000)).toEqual([
    "timeout",
    "error: run_code took longer than 1000 ms and was stopped",
  ]);
  expect(await call(tool, { code: "print(1)" })).toEqual(["ok", "1\n"]);
});

test("wrong options are refused, and a language that a sandbox lacks is an error to the model", async () => {
  expect(() => codeTool({ languages: [] })).toThrow("code tool: languages: expected some of python, javascript, typescript, got []");
  await using small = await openSandbox({ kind: "quickjs", slots: 1 });
  expect(await call(codeTool({ sandbox: small }), { code: "print(1)" })).toEqual(["error", "error: no Python 3 on this machine"]);
  expect(await call(codeTool({ sandbox: small, languages: ["javascript"] }), { code: "print(6 * 7)" })).toEqual(["ok", "42\n"]);
});
