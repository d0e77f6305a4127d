/** Chat completions over HTTP with OpenAI's client: whole and streamed, with tools, and everything that is refused. */
import { expect, test } from "vitest";
import { deskPolicy, served } from "../../fakes/served.ts";
import { scriptedPolicy } from "../../fakes/scripted-policy.ts";
import type { Engine } from "../../../src/types.ts";
import type { ServedPolicy } from "../../../src/app/server/service.ts";

const tools = [
  {
    type: "function" as const,
    function: {
      name: "calculator",
      description: "Works out a sum",
      parameters: { type: "object", properties: { expression: { type: "string" } }, required: ["expression"] },
    },
  },
];

/** A policy that says what it is told, token by token. */
function saying(...texts: readonly string[]): ServedPolicy {
  const policy = scriptedPolicy((turn) => texts[Math.min(turn, texts.length - 1)]!);
  const sample: Engine["sample"] = async (request) => {
    const spans = await policy.engine.sample(request);
    spans.forEach(({ ids, logprobs }, index) =>
      ids.forEach((id, t) => request.onToken?.({ id, logprob: logprobs[t]!, sample: index, top: [] })),
    );
    return spans;
  };
  return { renderer: policy.renderer, engine: { info: policy.engine.info, version: 3 as Engine["version"], sample } };
}

test("whole and streamed answers of one seed are the same, with usage, version and fingerprint", async () => {
  const { client } = await served({ policy: await deskPolicy() });
  const request = { model: "desk", messages: [{ role: "user" as const, content: "What is 3+4?" }], seed: 7, max_tokens: 24 };
  const { data: whole, response } = await client.chat.completions.create(request).withResponse();
  expect(response.headers.get("x-flywheel-policy-version")).toBe("0");
  expect(whole.system_fingerprint).toBe("flywheel-v0");
  expect(whole.usage!.completion_tokens).toBeGreaterThan(0);
  let text = "";
  let finish: string | null = null;
  let usage: unknown;
  for await (const chunk of await client.chat.completions.create({ ...request, stream: true, stream_options: { include_usage: true } })) {
    text += chunk.choices[0]?.delta.content ?? "";
    finish = chunk.choices[0]?.finish_reason ?? finish;
    usage = chunk.usage ?? usage;
  }
  expect(text).toBe(whole.choices[0]!.message.content ?? "");
  expect(finish).toBe(whole.choices[0]!.finish_reason);
  expect(usage).toEqual(whole.usage);
});

test("a call is read, streamed as deltas, and its result goes back in", async () => {
  const call = 'Let me see.\n<tool_call>\n{"name": "calculator", "arguments": {"expression": "3+4"}}\n</tool_call>';
  const { client } = await served({ policy: saying(call, call, "It is 7.") });
  const messages = [{ role: "user" as const, content: "What is 3+4?" }];
  const whole = await client.chat.completions.create({ model: "desk", messages, tools });
  const { message, finish_reason } = whole.choices[0]!;
  expect(finish_reason).toBe("tool_calls");
  expect(message.content).toBe("Let me see.");
  expect(message.tool_calls).toMatchObject([{ type: "function", function: { name: "calculator", arguments: '{"expression":"3+4"}' } }]);
  const stream = client.chat.completions.stream({ model: "desk", messages, tools });
  const pieces: string[] = [];
  stream.on("content", (delta) => pieces.push(delta));
  const final = await stream.finalChatCompletion();
  expect(pieces.length).toBeGreaterThan(1);
  expect(pieces.join("")).toBe("Let me see.");
  expect(final.choices[0]!.message.tool_calls![0]).toMatchObject({ function: { name: "calculator", arguments: '{"expression":"3+4"}' } });
  const id = message.tool_calls![0]!.id;
  const next = await client.chat.completions.create({
    model: "desk",
    messages: [...messages, message, { role: "tool", tool_call_id: id, content: "7" }],
    tools,
  });
  expect(next.choices[0]!.message.content).toBe("It is 7.");
});

test("text that only looks like the beginning of a call is sent, and a turn that is no call stays text", async () => {
  for (const text of ["a <tool", "a\n<tool_call>{broken", "x\n\ny\n", "<thing> 5 < 6"]) {
    const { client } = await served({ policy: saying(text) });
    const request = { model: "desk", messages: [{ role: "user" as const, content: "?" }], tools };
    expect((await client.chat.completions.create(request)).choices[0]!.message.content).toBe(text);
    let streamed = "";
    for await (const { choices } of await client.chat.completions.create({ ...request, stream: true }))
      streamed += choices[0]?.delta.content ?? "";
    expect(streamed).toBe(text);
  }
});

test("stop strings are cut off, in streams too; n answers; log-probs with alternatives", async () => {
  const policy = await deskPolicy();
  const { client } = await served({ policy });
  const base = { model: "desk", messages: [{ role: "user" as const, content: "What is 12+5?" }], seed: 3, max_tokens: 24 };
  const free = (await client.chat.completions.create(base)).choices[0]!.message.content!;
  const stop = free.slice(2, 4);
  const cut = await client.chat.completions.create({ ...base, stop });
  expect(cut.choices[0]).toMatchObject({ finish_reason: "stop", message: { content: free.slice(0, free.indexOf(stop)) } });
  let streamed = "";
  for await (const { choices } of await client.chat.completions.create({ ...base, stop, stream: true }))
    streamed += choices[0]?.delta.content ?? "";
  expect(streamed).toBe(cut.choices[0]!.message.content);
  const several = await client.chat.completions.create({ ...base, n: 3, logprobs: true, top_logprobs: 4 });
  expect(several.choices.map(({ index }) => index)).toEqual([0, 1, 2]);
  for (const { logprobs } of several.choices) {
    for (const { logprob, top_logprobs: top, token, bytes } of logprobs!.content!) {
      expect(top).toHaveLength(4);
      expect(top.map((one) => one.logprob)).toEqual(top.map((one) => one.logprob).sort((a, b) => b - a));
      expect(logprob).toBeLessThanOrEqual(top[0]!.logprob + 1e-6);
      const same = top.find((one) => one.token === token);
      if (same !== undefined) expect(same.logprob).toBeCloseTo(logprob, 5);
      expect(bytes!.length).toBeGreaterThan(0);
    }
  }
  const total = several.choices[0]!.logprobs!.content!.map(({ token }) => token).join("");
  expect(total).toBe(several.choices[0]!.message.content);
});

const user = { role: "user", content: "hi" };
const refusals: readonly (readonly [string, unknown, number, string, RegExp])[] = [
  ["an unknown model", { model: "gpt", messages: [user] }, 404, "model", /one of desk, got gpt/],
  ["no messages", { model: "desk", messages: [] }, 400, "messages", /messages/],
  ["a role of its own", { model: "desk", messages: [{ role: "boss", content: "x" }] }, 400, "messages.0.role", /role/],
  ["an image", { model: "desk", messages: [{ role: "user", content: [{ type: "image_url" }] }] }, 400, "messages.0.content.0", /text/],
  ["a wrong type", { model: "desk", messages: [user], temperature: "hot" }, 400, "temperature", /number/],
  ["top_p", { model: "desk", messages: [user], top_p: 0.5 }, 400, "top_p", /whole distribution/],
  ["a penalty", { model: "desk", messages: [user], frequency_penalty: 1 }, 400, "frequency_penalty", /not supported/],
  ["an unknown field", { model: "desk", messages: [user], top_k: 3 }, 400, "top_k", /supported field/],
  ["a tool of no schema", { model: "desk", messages: [user], tools: [{ type: "web" }] }, 400, "tools.0.type", /function/],
  ["a forced call without tools", { model: "desk", messages: [user], tool_choice: "required" }, 400, "tool_choice", /tools/],
  [
    "a result of no call",
    { model: "desk", messages: [{ role: "tool", tool_call_id: "x", content: "" }] },
    400,
    "messages.0.tool_call_id",
    /earlier/,
  ],
  ["a prompt that is too long", { model: "desk", messages: [{ role: "user", content: "word ".repeat(2000) }] }, 400, "messages", /context/],
];

test.each(refusals)("%s is refused in OpenAI's form", async (_, body, status, param, message) => {
  const { post } = await served({ policy: await deskPolicy() });
  const response = await post("/v1/chat/completions", body);
  expect(response.status).toBe(status);
  expect(await response.json()).toMatchObject({ error: { type: "invalid_request_error", param, message: expect.stringMatching(message) } });
});
