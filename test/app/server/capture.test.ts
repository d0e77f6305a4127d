/** Sessions: whatever a client does with its history, the rows are what the sampler saw, token by token, each sampled once. */
import { expect, test } from "vitest";
import type OpenAI from "openai";
import type { OpenedPolicy } from "../../../src/compute/policy/open.ts";
import { integer, rng } from "../../../src/random.ts";
import type { Row, SampledSpan, Trajectory } from "../../../src/types.ts";
import { difference } from "../../fakes/golden.ts";
import { trainRow } from "../../fakes/engines.ts";
import { deskPolicy, served, type Served } from "../../fakes/served.ts";

type Chat = OpenAI.Chat.Completions.ChatCompletionMessageParam[];

interface Sampled {
  readonly prompt: readonly number[];
  readonly span: SampledSpan;
}

/** Everything that the sampler is asked and answers, from now on. */
function watched(policy: OpenedPolicy): { readonly policy: OpenedPolicy; readonly seen: Sampled[] } {
  const seen: Sampled[] = [];
  const sample = policy.engine.sample.bind(policy.engine);
  policy.engine.sample = async (request) => {
    const spans = await sample(request);
    seen.push(...spans.map((span) => ({ prompt: request.prompt, span })));
    return spans;
  };
  return { policy, seen };
}

const tools: OpenAI.Chat.Completions.ChatCompletionFunctionTool[] = ["calculator", "lookup"].map((name) => ({
  type: "function",
  function: { name, description: `the ${name}`, parameters: { type: "object", properties: { expression: { type: "string" } } } },
}));

/** Asks for one turn, whole or as a stream put together by the client's own code. */
async function ask({ client }: Served, session: string, body: { messages: Chat; seed: number; n?: number }, stream: boolean) {
  const request = { model: "desk", tools, max_tokens: 20, ...body };
  const options = { headers: { "x-flywheel-session": session } };
  const done = stream
    ? await client.chat.completions.stream(request, options).finalChatCompletion()
    : await client.chat.completions.create(request, options);
  return done.choices.map(({ message }) => message);
}

/** A message as some clients send it back: other call ids, arguments written anew, null for no text, no extra fields. */
function rewritten(message: OpenAI.Chat.Completions.ChatCompletionMessage, style: number): Chat[number] {
  if (style === 0) return message;
  const calls = (message.tool_calls ?? []).map((call, i) => {
    if (call.type !== "function") throw new Error(call.type);
    return {
      id: `own-${i}`,
      type: "function" as const,
      function: { name: call.function.name, arguments: JSON.stringify(JSON.parse(call.function.arguments), null, 1) },
    };
  });
  const content = message.content === null && style === 2 ? "" : message.content;
  return { role: "assistant", content, ...(calls.length === 0 ? {} : { tool_calls: calls }) };
}

async function converse(server: Served, session: string, seed: number): Promise<{ changed: number }> {
  let drawn = 0;
  const key = rng(seed, "talk");
  const below = (bound: number): number => integer(key, bound, drawn++);
  let messages: Chat = [{ role: "user", content: `What is ${below(50)}+${below(50)}?` }];
  if (below(2) === 0) messages = [{ role: "system", content: "Use the tools." }, ...messages];
  let changed = 0;
  for (let turn = 0; turn < 4; turn++) {
    const n = below(4) === 0 ? 2 : 1;
    const answers = await ask(server, session, { messages, seed: seed * 100 + turn, n }, below(2) === 0);
    const branches = below(3) === 0 ? 2 : 1;
    const next = answers.flatMap((answer): Chat[] => {
      const said = rewritten(answer, below(3));
      const calls = "tool_calls" in said ? (said.tool_calls ?? []) : [];
      const results = calls.map(({ id }) => ({ role: "tool" as const, tool_call_id: id, content: `${below(100)}` }));
      return Array.from({ length: branches }, (_, i) => [...messages, said, ...results, { role: "user", content: `And ${i}? <|im_end|>` }]);
    });
    // Sub-agents go on side by side; one of them is followed further.
    if (next.length > 1)
      await Promise.all(next.map((branch, i) => ask(server, session, { messages: branch, seed: seed * 1000 + i }, i === 0)));
    messages = next[below(next.length)]!;
    if (below(5) === 0) {
      const other: Chat[number] = { role: "assistant", content: "Something else." };
      messages = messages.filter(({ role }) => role !== "tool").map((message) => (message.role === "assistant" ? other : message));
      changed++;
    }
  }
  return { changed };
}

const idsOf = ({ spans }: Row): number[] => spans.flatMap(({ ids }) => [...ids]);

/** Each sampled span with all that stands before it in its row. */
function recordedIn({ rows }: Trajectory): Sampled[] {
  return rows.flatMap(({ spans }) =>
    spans.flatMap((span, i) => (span.kind === "sampled" ? [{ prompt: spans.slice(0, i).flatMap(({ ids }) => [...ids]), span }] : [])),
  );
}

const keyOf = ({ prompt, span }: Sampled): string => JSON.stringify([prompt, span.ids, span.logprobs]);

test("random conversations with tools, branches and streams: rows are what was sampled, and the trainer agrees to 1e-4", async () => {
  const { policy, seen } = watched(await deskPolicy());
  const server = await served({ policy });
  let changed = 0;
  for (let seed = 0; seed < 12; seed++) {
    const before = seen.length;
    changed += (await converse(server, `s${seed}`, seed)).changed;
    const { trajectory } = server.server.sessions.get(`s${seed}`, "anonymous").scored();
    expect(recordedIn(trajectory).map(keyOf).sort()).toEqual(seen.slice(before).map(keyOf).sort());
    const rows = trajectory.rows.map((row) => {
      const trained: number[] = [];
      let at = 0;
      for (const span of row.spans) {
        if (span.kind === "sampled") trained.push(...span.ids.map((_, t) => at + t));
        at += span.ids.length;
      }
      return trainRow(idsOf(row), trained, { temperature: 1 });
    });
    const scores = await policy.engine.logprobs(rows);
    trajectory.rows.forEach(({ spans }, i) => {
      const sampled = spans.flatMap((span) => (span.kind === "sampled" ? [...span.logprobs] : []));
      expect(difference(scores[i]!, sampled).max).toBeLessThan(1e-4);
    });
    expect(trajectory.turns).toHaveLength(seen.length - before);
  }
  expect(changed).toBeGreaterThan(0);
  // Rows that go on are used: there are fewer rows than turns.
  const all = Array.from({ length: 12 }, (_, seed) => server.server.sessions.get(`s${seed}`, "anonymous").scored().trajectory);
  expect(all.reduce((sum, { rows }) => sum + rows.length, 0)).toBeLessThan(all.reduce((sum, { turns }) => sum + turns.length, 0));
  const metrics = await (await server.fetch("/metrics")).text();
  const counted = all.reduce((sum, { measures }) => sum + measures["changedHistories"]!, 0);
  expect(counted).toBeGreaterThan(0);
  expect(metrics).toContain(`flywheel_history_changed_total ${counted}`);
}, 120_000);

test("a plain conversation is one row; a parallel branch is a sibling in which what came before is context", async () => {
  const server = await served({ policy: await deskPolicy() });
  const start: Chat = [{ role: "user", content: "What is 3+4?" }];
  const [first] = await ask(server, "a", { messages: start, seed: 1 }, false);
  const answered: Chat = [...start, rewritten(first!, 1)];
  const results: Chat = (first!.tool_calls ?? []).map((_, i) => ({ role: "tool", tool_call_id: `own-${i}`, content: "7" }));
  await ask(server, "a", { messages: [...answered, ...results, { role: "user", content: "Thanks." }], seed: 2 }, true);
  const session = server.server.sessions.get("a", "anonymous");
  expect(session.scored().trajectory.rows.map(({ spans }) => spans.map(({ kind }) => kind))).toEqual([
    ["context", "sampled", "context", "sampled"],
  ]);
  expect(session.scored().trajectory.turns[0]!.replies.at(-1)).toEqual({ role: "user", content: "Thanks." });
  await ask(server, "a", { messages: [...answered, ...results, { role: "user", content: "Again?" }], seed: 3 }, false);
  const { rows, measures } = session.scored().trajectory;
  expect(rows.map(({ spans }) => spans.map(({ kind }) => kind))).toEqual([
    ["context", "sampled", "context", "sampled"],
    ["context", "sampled"],
  ]);
  expect(measures).toMatchObject({ branches: 1, changedHistories: 0 });
  const [shared] = [rows[0]!.spans.slice(0, 2).flatMap(({ ids }) => [...ids])];
  expect(idsOf(rows[1]!).slice(0, shared.length)).toEqual(shared);
});

interface RewardAnswer {
  readonly verdict: { readonly type: string; readonly score: number };
  readonly error: { readonly param: string; readonly type: string; readonly code: string };
}
interface SessionAnswer {
  readonly feedback: readonly unknown[];
  readonly verdict: { readonly score: number };
  readonly trajectory: Trajectory;
}

test("rewards: a number, a thumb, a turn, words, an order; and what is refused", async () => {
  const server = await served({ policy: await deskPolicy() });
  for (const id of ["a", "b", "c"])
    await server.post(`/s/${id}/v1/chat/completions`, { model: "desk", messages: [{ role: "user", content: "hi" }], max_tokens: 4 });
  const reward = async (id: string, body: unknown) =>
    (await server.post(`/v1/sessions/${id}/reward`, body)).json() as Promise<RewardAnswer>;
  expect((await reward("a", { reward: 0.25 })).verdict).toMatchObject({ type: "scored", score: 0.25 });
  expect((await reward("a", { good: true })).verdict).toMatchObject({ score: 1 });
  await reward("a", { text: "shorter, please" });
  await reward("a", { reward: -1, turn: 0 });
  const view = (await (await server.fetch("/v1/sessions/a")).json()) as SessionAnswer;
  expect(view.feedback).toEqual([
    { type: "binary", good: true },
    { type: "text", text: "shorter, please" },
  ]);
  expect(view.trajectory.turns[0]).toMatchObject({ row: 0, span: 1, reward: -1 });
  expect(view.trajectory.rows[0]!.spans[1]).toMatchObject({ kind: "sampled", version: 0 });
  await reward("a", { order: ["b", "c", "a"] });
  const scores = await Promise.all(
    ["a", "b", "c"].map(async (id) => ((await (await server.fetch(`/v1/sessions/${id}`)).json()) as SessionAnswer).verdict.score),
  );
  expect(scores).toEqual([0, 1, 0.5]);
  expect((await reward("a", { reward: 1, turn: 5 })).error.param).toBe("turn");
  expect((await reward("a", { reward: "high" })).error.type).toBe("invalid_request_error");
  expect((await reward("none", { reward: 1 })).error.code).toBe("session_not_found");
  expect((await reward("a", { order: ["a", "gone"] })).error.code).toBe("session_not_found");
  const made = await server.post("/v1/sessions", { task: { id: "t1", data: { gold: 7 } } });
  const { id } = (await made.json()) as { id: string };
  expect(made.status).toBe(201);
  expect((await server.post("/v1/sessions", { id })).status).toBe(409);
  expect((await server.fetch(`/v1/sessions/${id}`, { method: "DELETE" })).status).toBe(200);
  expect((await server.fetch(`/v1/sessions/${id}`)).status).toBe(404);
});
