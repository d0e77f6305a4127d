/** Constrained decoding over HTTP: whatever the model, the answer has the form that was asked for. */
import { join } from "node:path";
import { Ajv } from "ajv";
import { expect, test } from "vitest";
import { openPolicy } from "../../../src/compute/policy/open.ts";
import { difference } from "../../fakes/golden.ts";
import { trainRow } from "../../fakes/engines.ts";
import { temporaryFolder, writeTinyModel } from "../../fakes/model-folders.ts";
import { randomSchema } from "../../fakes/schemas.ts";
import { deskPolicy, served } from "../../fakes/served.ts";

const messages = [{ role: "user" as const, content: "What is 3+4?" }];
const jsonSchema = (schema: object) => ({
  type: "json_schema" as const,
  json_schema: { name: "answer", schema: schema as Record<string, unknown> },
});

/** A model of random weights. */
async function untrained(context = 512) {
  const folder = await writeTinyModel(join(await temporaryFolder(), "model"), "llama", { max_position_embeddings: context });
  return openPolicy(folder);
}

test("200 random schemas: the answers of an untrained model parse and satisfy them", async () => {
  await using policy = await untrained();
  const { client } = await served({ policy });
  const ajv = new Ajv({ strict: false });
  const finishes = new Set<string>();
  const seeds = Array.from({ length: 200 }, (_, seed) => seed);
  for (let from = 0; from < seeds.length; from += 25) {
    await Promise.all(
      seeds.slice(from, from + 25).map(async (seed) => {
        const schema = randomSchema(seed);
        const answer = await client.chat.completions.create({
          model: "desk",
          messages,
          seed,
          max_tokens: 160,
          response_format: jsonSchema(schema),
        });
        const { message, finish_reason } = answer.choices[0]!;
        finishes.add(finish_reason);
        expect(ajv.compile(schema)(JSON.parse(message.content!)), `${JSON.stringify(schema)}: ${message.content}`).toBe(true);
      }),
    );
  }
  expect([...finishes].sort()).toEqual(["length", "stop"]); // some were closed by the token limit, and say so
}, 120_000);

test("json_object, a schema that is not supported, and a limit that is too small", async () => {
  await using policy = await untrained();
  const { client } = await served({ policy });
  const base = { model: "desk", messages, max_tokens: 60 };
  const free = await client.chat.completions.create({ ...base, response_format: { type: "json_object" } });
  expect(typeof JSON.parse(free.choices[0]!.message.content!)).toBe("object");
  const odd = client.chat.completions.create({
    ...base,
    response_format: jsonSchema({ type: "object", properties: { a: { pattern: "x", type: "string" } } }),
  });
  await expect(odd).rejects.toThrow(/response_format\.json_schema\.schema\.properties\.a\.pattern/);
  const long = client.chat.completions.create({ ...base, max_tokens: 5, response_format: jsonSchema({ const: "seven letters" }) });
  await expect(long).rejects.toThrow(/max_tokens: expected at least 16 tokens/);
});

const calculator = {
  name: "calculator",
  description: "sums",
  parameters: { type: "object", properties: { expression: { type: "string" } }, required: ["expression"] },
};
const lookup = {
  name: "lookup",
  description: "finds",
  parameters: { type: "object", properties: { id: { type: "integer" } }, required: ["id"], additionalProperties: false },
};
const tools = [calculator, lookup].map((tool) => ({ type: "function" as const, function: { ...tool, strict: true } }));

test.each(["desk", "untrained"])(
  "%s: tool_choice, strict arguments and parallel calls are kept to",
  async (which) => {
    await using policy = which === "desk" ? await deskPolicy() : await untrained();
    const { client } = await served({ policy });
    const ajv = new Ajv();
    for (let seed = 0; seed < 8; seed++) {
      const base = { model: "desk", messages, tools, seed, max_tokens: 120 };
      const named = await client.chat.completions.create({ ...base, tool_choice: { type: "function", function: { name: "lookup" } } });
      const calls = named.choices[0]!.message.tool_calls ?? [];
      // Closed by the token limit: a turn that was cut is no call.
      if (named.choices[0]!.finish_reason === "tool_calls") {
        expect(calls).toHaveLength(1);
        expect(calls[0]).toMatchObject({ function: { name: "lookup" } });
      } else expect(named.choices[0]).toMatchObject({ finish_reason: "length" });
      const required = await client.chat.completions.create({ ...base, tool_choice: "required", parallel_tool_calls: false });
      if (required.choices[0]!.finish_reason !== "length") expect(required.choices[0]!.message.tool_calls).toHaveLength(1);
      for (const { choices } of [named, required]) {
        for (const call of choices[0]!.message.tool_calls ?? []) {
          if (call.type !== "function") throw new Error(call.type);
          const { parameters } = [calculator, lookup].find(({ name }) => name === call.function.name)!;
          expect(ajv.validate(parameters, JSON.parse(call.function.arguments))).toBe(true);
        }
      }
      const none = await client.chat.completions.create({ ...base, tool_choice: "none" });
      expect(none.choices[0]!.message.tool_calls).toBeUndefined();
      expect(none.choices[0]!.message.content).not.toContain("<tool_call>");
    }
  },
  120_000,
);

test("log-probs of constrained answers are of the whole distribution: the trainer's", async () => {
  const policy = await deskPolicy();
  const { server, post } = await served({ policy });
  const response_format = jsonSchema({
    type: "object",
    properties: { a: { type: "string", maxLength: 5 }, b: { type: "integer" } },
    required: ["a", "b"],
  });
  await post("/s/one/v1/chat/completions", { model: "desk", messages, seed: 1, temperature: 0.7, response_format });
  await post("/s/one/v1/chat/completions", { model: "desk", messages, seed: 2, temperature: 0, response_format });
  const { trajectory } = server.sessions.get("one", "anonymous").scored();
  expect(trajectory.rows).toHaveLength(2);
  for (const { spans } of trajectory.rows) {
    const [context, sampled] = spans;
    if (sampled?.kind !== "sampled") throw new Error("no sampled span");
    const ids = [...context!.ids, ...sampled.ids];
    const row = trainRow(
      ids,
      sampled.ids.map((_, t) => context!.ids.length + t),
      { temperature: sampled.temperature === 0 ? 1 : sampled.temperature },
    );
    const [scores] = await policy.engine.logprobs([row]);
    expect(difference(scores!, sampled.logprobs).max).toBeLessThan(1e-4);
    expect(Math.min(...sampled.logprobs)).toBeLessThan(-5); // the model would hardly have written JSON here
  }
});
