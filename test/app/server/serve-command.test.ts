/** `flywheel serve` as a person runs it: in this process, until the signal. */
import { join } from "node:path";
import OpenAI from "openai";
import { expect, test } from "vitest";
import { runFlywheel } from "../../fakes/cli.ts";
import { temporaryFolder, writeTinyModel, writeTinyRun } from "../../fakes/model-folders.ts";

/** Starts the command on a free port; `use` gets its address, and then the command is told to end. */
async function serving(args: readonly string[], cwd: string, use: (url: string) => Promise<void>): Promise<{ code: number; err: string }> {
  const interrupt = new AbortController();
  let err = "";
  let patience = 0;
  const used = new Promise<void>((resolve, reject) => {
    const listen = (text: string): void => {
      err += text;
      const url = /http:\S+\/v1/.exec(text)?.[0];
      if (url !== undefined)
        use(url)
          .then(resolve, reject)
          .finally(() => interrupt.abort(new Error("interrupted")));
    };
    void runFlywheel(["serve", "--port", "0", ...args], {
      cwd,
      signal: interrupt.signal,
      allowToStop: (milliseconds) => (patience = milliseconds),
      stderr: { write: listen, columns: 100 },
    })
      .then(({ code }) => (ended = code))
      .finally(resolve);
  });
  let ended = -1;
  await used;
  for (let i = 0; ended < 0 && i < 500; i++) await new Promise((resolve) => setTimeout(resolve, 10));
  if (err.includes("http")) expect(patience).toBe(35_000);
  return { code: ended, err };
}

test("a run and an adapter under names of their own, with a key, until it is interrupted", async () => {
  const cwd = await temporaryFolder();
  const model = await writeTinyModel(join(cwd, "base"), "llama", { max_position_embeddings: 128 });
  await writeTinyRun(join(cwd, "run"), model);
  const exported = await runFlywheel(["export", "run", "--to", "adapter", "--format", "peft"], { cwd });
  expect(exported.code).toBe(0);
  const { code, err } = await serving(["-m", "base", "--name", "own", "-a", "tuned=adapter", "--api-key", "k"], cwd, async (baseURL) => {
    const client = new OpenAI({ baseURL, apiKey: "k", maxRetries: 0 });
    const ids: string[] = [];
    for await (const { id } of await client.models.list()) ids.push(id);
    expect(ids).toEqual(["own", "tuned"]);
    const say = async (name: string) =>
      (await client.chat.completions.create({ model: name, messages: [{ role: "user", content: "hi" }], temperature: 0, max_tokens: 12 }))
        .choices[0]!.message.content;
    const [own, tuned] = await Promise.all([say("own"), say("tuned")]);
    expect(tuned).not.toBe(own);
    // The adapter's answer is the run's: the same words as `flywheel chat` says.
    expect((await runFlywheel(["chat", "run", "-t", "0", "-n", "12"], { cwd, input: "hi" })).out.trim()).toBe(tuned!.trim());
    await expect(new OpenAI({ baseURL, apiKey: "wrong", maxRetries: 0 }).models.list()).rejects.toThrow(/401/);
  });
  expect(code).toBe(130);
  expect(err).toContain("own, tuned at http://127.0.0.1:");
  expect(err).toContain("with a key");
});

test("what cannot be served is said in one line", async () => {
  const cwd = await temporaryFolder();
  await writeTinyModel(join(cwd, "base"), "llama");
  const open = await serving(["-m", "base", "--host", "0.0.0.0"], cwd, async () => undefined);
  expect(open).toMatchObject({ code: 1, err: expect.stringContaining("give --api-key, or listen on 127.0.0.1") as string });
  const twice = await serving(["-m", "base", "-a", "base=base"], cwd, async () => undefined);
  expect(twice.err).toContain("--adapter: expected a name that is not taken, got base");
  const bad = await serving(["-m", "base", "-a", "noname"], cwd, async () => undefined);
  expect(bad.err).toContain("--adapter: expected name=folder");
});
