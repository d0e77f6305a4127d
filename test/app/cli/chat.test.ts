import { join, resolve } from "node:path";
import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { openPolicy } from "../../../src/compute/policy/open.ts";
import { Conversation } from "../../../src/app/cli/chat/conversation.ts";
import { runFlywheel } from "../../fakes/cli.ts";
import { temporaryFolder, writeTinyModel, writeTinyRun } from "../../fakes/model-folders.ts";

async function setUp() {
  const cwd = await temporaryFolder();
  const model = await writeTinyModel(join(cwd, "base"), "llama", { max_position_embeddings: 128 });
  await writeTinyRun(join(cwd, "run"), model);
  return { cwd, model };
}
const signal = new AbortController().signal;

test("piped input is answered once: the answer on standard output, its speed on standard error", async () => {
  const { cwd } = await setUp();
  const ask = (...args: string[]) => runFlywheel(["chat", ...args, "-t", "0", "-n", "20"], { cwd, input: "hi\n" });
  const first = await ask("base");
  expect(first.code).toBe(0);
  expect(first.out.length).toBeGreaterThan(1);
  expect(first.err).toMatch(/^\[\d+ tokens, [\d.]+ tokens\/s(, cut at the limit)?\]\n$/);
  expect((await ask("base")).out).toBe(first.out);
  // The trained weights answer otherwise, by either way of naming them.
  const trained = await ask("run");
  expect(trained.out).not.toBe(first.out);
  expect(await ask("base", "--adapter", "run")).toMatchObject({ code: 0, out: trained.out });
});

test("pieces join to the answer, and each turn goes on from the ids of those before", async () => {
  const { model } = await setUp();
  await using policy = await openPolicy(model);
  const prompts: (readonly number[])[] = [];
  const sample = policy.engine.sample.bind(policy.engine);
  policy.engine.sample = (request) => {
    prompts.push(request.prompt);
    return sample(request);
  };
  const conversation = new Conversation(policy, { system: "Be brief.", temperature: 1, maxTokens: 20, seed: 3 });
  const pieces: string[] = [];
  const first = await conversation.say("hello", { onText: (piece) => pieces.push(piece), signal });
  expect(pieces.join("")).toBe(first.text);
  expect(first.tokens).toBeGreaterThan(8);
  const before = prompts.at(-1)!;
  await conversation.say("again", { onText: () => undefined, signal });
  const next = prompts.find((prompt) => prompt.length > before.length + 8)!;
  expect(next.slice(0, before.length)).toEqual(before);
  // The same seed and words give the same answer; a reset begins with the system message again.
  const again = new Conversation(policy, { system: "Be brief.", temperature: 1, maxTokens: 20, seed: 3 });
  expect((await again.say("hello", { onText: () => undefined, signal })).text).toBe(first.text);
  again.reset();
  await again.say("hello", { onText: () => undefined, signal });
  expect(prompts.at(-1)!.slice(0, prompts[0]!.length)).toEqual(prompts[0]);
});

test("the conversation that has outgrown the context says so and can begin again", async () => {
  const { model } = await setUp();
  await using policy = await openPolicy(model);
  const conversation = new Conversation(policy, { temperature: 0, maxTokens: 5 });
  const say = (text: string) => conversation.say(text, { onText: () => undefined, signal });
  await expect(say("word ".repeat(200))).rejects.toThrow("conversation: expected at most 127 tokens, the model's context, got ");
  expect((await say("hi")).tokens).toBeGreaterThan(0);
});

test("in a terminal: commands, answers with control characters made visible, and /exit", async () => {
  const { cwd } = await setUp();
  const input = "hello\n/what\n/reset\nhello\n/exit\nnever\n";
  const { code, out, err } = await runFlywheel(["chat", "base", "-n", "6", "--seed", "5"], {
    cwd,
    input,
    terminal: 80,
    environment: { NO_COLOR: "1" },
  });
  expect(code).toBe(0);
  expect(err).toContain("base  0.0 M parameters, context 128\n/reset begins again, /exit or Ctrl-D leaves, Ctrl-C stops an answer\n");
  expect(err).toContain("/what: no such command; there are /reset and /exit\n");
  expect(err.match(/tokens\/s/g)).toHaveLength(2);
  expect(out).not.toContain("\u001b");
});

test("an interrupted chat ends with 130", async () => {
  const { cwd } = await setUp();
  const interrupt = new AbortController();
  const stdin = Object.assign(new PassThrough(), { isTTY: true });
  setTimeout(() => interrupt.abort(), 500);
  expect((await runFlywheel(["chat", "base"], { cwd, stdin, terminal: 80, signal: interrupt.signal })).code).toBe(130);
});

test("what cannot be talked to is one line", async () => {
  const { cwd } = await setUp();
  const ask = (input: string, ...args: string[]) => runFlywheel(["chat", ...args], { cwd, input });
  expect((await ask("hi", "./gone")).err).toBe(
    `error: model ./gone: expected a folder, a .gguf or .safetensors file, or a hub id, got nothing at ${resolve("gone")}\n`,
  );
  expect((await ask("", "base")).err).toContain("standard input: expected a message, got nothing");
  expect((await ask("hi", "base", "-a", "base")).err).toContain("expected a run folder (with config.json and ledger.jsonl), got none");
  await writeTinyModel(join(cwd, "wide"), "llama", { intermediate_size: 96 });
  expect((await ask("hi", "wide", "-a", "run")).err).toContain("it was trained on another base model");
  expect((await ask("hi", "base", "-n", "99999")).err).toMatch(/^error: --max-tokens: expected 1 to \d+, .* context, got 99999\n$/);
  expect(await ask("hi", "base", "-t", "warm")).toMatchObject({ code: 2, err: expect.stringContaining("expected a number from 0 to 10") });
});
