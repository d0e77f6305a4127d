import { join } from "node:path";
import { expect, test } from "vitest";
import { decoderFor } from "../../../src/app/cli/decoder.ts";
import { openModelFiles } from "../../../src/compute/models/files/model-folder.ts";
import { openTokenizer } from "../../../src/compute/text/tokenizer.ts";
import { runFlywheel } from "../../fakes/cli.ts";
import { temporaryFolder, writeTinyModel, writeTinyRun } from "../../fakes/model-folders.ts";

async function setUp() {
  const cwd = await temporaryFolder();
  const model = await writeTinyModel(join(cwd, "base"), "llama");
  await writeTinyRun(join(cwd, "run"), model);
  return { cwd, model, flywheel: (...args: string[]) => runFlywheel(args, { cwd }) };
}

test("says what was written, from what, and how to open it; paths are relative to the working folder", async () => {
  const { flywheel } = await setUp();
  expect(await flywheel("export", "run", "--to", "out", "--checkpoint", "best")).toEqual({
    code: 0,
    out: [
      "wrote  out  (safetensors F32, 160 kB)",
      "from   base, step-000001",
      "use    flywheel chat out",
      '       AutoModelForCausalLM.from_pretrained("out")',
      "",
    ].join("\n"),
    err: "",
  });
  expect((await flywheel("export", "run", "-t", "a/out.gguf", "--type", "Q8_0")).out).toMatch(/^wrote {2}a\/out\.gguf {2}\(gguf Q8_0, \d/);
  expect((await flywheel("export", "out", "-t", "out.onnx")).out).toContain("from   out\n");
  const { out } = await flywheel("export", "run", "-t", "adapter", "-f", "peft", "--json");
  expect(JSON.parse(out)).toMatchObject({ format: "peft", type: "F32", checkpoint: { name: "step-000002", step: 2 } });
});

test("a wrong request is refused in one line", async () => {
  const { flywheel } = await setUp();
  expect(await flywheel("export", "run", "--to", "base")).toMatchObject({
    code: 1,
    err: expect.stringContaining("base: expected a path that is free"),
  });
  expect(await flywheel("export", "nothing", "--to", "out")).toMatchObject({
    code: 1,
    err: expect.stringContaining("run flywheel pull nothing"),
  });
  expect((await flywheel("export", "run", "--to", "b.safetensors")).err).toBe(
    "error: export as safetensors: expected the name of a folder, got b.safetensors; " +
      "the folder then holds model.safetensors, configuration and tokenizer\n",
  );
  expect(await flywheel("export", "run", "--to", "out", "-f", "pickle")).toMatchObject({
    code: 2,
    err: expect.stringContaining("Allowed choices are safetensors, peft, gguf, onnx"),
  });
  expect(await flywheel("export", "run")).toMatchObject({
    code: 2,
    err: expect.stringContaining("required option '-t, --to <path>' not specified"),
  });
  expect(await flywheel("export", "run", "--to", "out", "-c", "newest")).toMatchObject({
    code: 2,
    err: expect.stringContaining("latest, best or a step"),
  });
});

test("a run's tokens are read with the tokenizer of its model, or not at all", async () => {
  const { cwd, model } = await setUp();
  const files = await openModelFiles(model);
  await files.close();
  const ids = openTokenizer(files.tokenizer, files.tokenizerConfig).encode("The answer is 42.");
  const decode = await decoderFor({ model: { path: "base" } }, { cwd, environment: {} });
  expect(decode?.(ids)).toBe("The answer is 42.");
  for (const config of [{}, { model: "base" }, { model: { path: "gone" } }])
    expect(await decoderFor(config, { cwd, environment: {} })).toBeNull();
});
