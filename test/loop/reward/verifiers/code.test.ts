import { afterAll, beforeAll, expect, test } from "vitest";
import { openSandbox } from "../../../../src/compute/sandbox/open.ts";
import type { Sandbox } from "../../../../src/compute/sandbox/sandbox.ts";
import { codeVerifier } from "../../../../src/loop/reward/verifiers/code.ts";
import {
  hostileJavaScript,
  hostilePython,
  javaScriptTests,
  nodeTestFile,
  pytestFile,
  pythonTests,
} from "../../../fakes/hostile/answers.ts";

// Without an isolation these tests fail with the sandbox's own message, which says what to install.
let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await openSandbox({ slots: 4 });
}, 60_000);
afterAll(() => sandbox.close());

const limits = { wallSeconds: 5, cpuSeconds: 2 };
const fenced = (language: string, code: string): string => `Here it is.\n\n\`\`\`${language}\n${code}\n\`\`\`\n`;

async function gradeAll(
  language: "python" | "javascript",
  answers: Readonly<Record<string, string>>,
  gold: { readonly [key: string]: string | string[] | Record<string, string> },
) {
  const verifier = codeVerifier({ language, sandbox, limits });
  const graded = await Promise.all(
    Object.entries(answers).map(async ([name, code]) => [name, await verifier.verify({ answer: fenced(language, code), gold })] as const),
  );
  return graded.map(([name, verdict]) =>
    verdict.type === "scored" ? `${name}: ${verdict.score}` : `${name}: ${verdict.type} ${verdict.reason}`,
  );
}

const zeros = (answers: Readonly<Record<string, string>>): string[] => Object.keys(answers).map((name) => `${name}: 0`);

test("Python: every trick scores 0 against plain assertions", { timeout: 300_000 }, async () => {
  expect(Object.keys(hostilePython).length).toBeGreaterThanOrEqual(25);
  expect(await gradeAll("python", hostilePython, { tests: pythonTests })).toEqual(zeros(hostilePython));
});

test("Python: every trick scores 0 against pytest", { timeout: 300_000 }, async () => {
  expect(await gradeAll("python", hostilePython, { tests: { "test_add.py": pytestFile } })).toEqual(zeros(hostilePython));
});

test("JavaScript: every trick scores 0 against plain assertions", { timeout: 300_000 }, async () => {
  expect(await gradeAll("javascript", hostileJavaScript, { tests: javaScriptTests })).toEqual(zeros(hostileJavaScript));
});

test("JavaScript: every trick scores 0 against node:test", { timeout: 300_000 }, async () => {
  expect(await gradeAll("javascript", hostileJavaScript, { tests: { "add.test.js": nodeTestFile } })).toEqual(zeros(hostileJavaScript));
});

test("right answers score 1", { timeout: 120_000 }, async () => {
  const right = { "an answer": "def add(a, b):\n    return a + b" };
  expect(await gradeAll("python", right, { tests: pythonTests })).toEqual(["an answer: 1"]);
  expect(await gradeAll("python", right, { tests: { "test_add.py": pytestFile } })).toEqual(["an answer: 1"]);
  const js = { "an answer": "export const add = (a, b) => a + b;" };
  expect(await gradeAll("javascript", js, { tests: javaScriptTests })).toEqual(["an answer: 1"]);
  expect(await gradeAll("javascript", js, { tests: { "add.test.js": nodeTestFile } })).toEqual(["an answer: 1"]);
});
