import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { messageOf } from "../../../../src/errors.ts";
import { math, type MathOptions } from "../../../../src/loop/reward/verifiers/math.ts";
import { parseMath } from "../../../../src/loop/reward/verifiers/math/parse.ts";
import { formulaOf, type SecondEngine } from "../../../../src/loop/reward/verifiers/math/second.ts";
import { sympy } from "../../../../src/loop/reward/verifiers/math/sympy.ts";
import { wolframAlpha } from "../../../../src/loop/reward/verifiers/math/wolfram.ts";
import { verifierReward } from "../../../../src/loop/reward/verifiers/verifier.ts";
import type { Json, Message } from "../../../../src/types.ts";

interface Pair {
  readonly form: string;
  readonly gold: string;
  readonly answer: string;
  readonly right: boolean;
}
/** Written for this test; a line is a right or a wrong answer, and most wrong ones are near misses. */
const pairs = JSON.parse(readFileSync("test/loop/reward/verifiers/math-pairs.json", "utf8")) as readonly Pair[];
const verifier = math({ seconds: 10 });
const judged = async (gold: string, answer: string) => {
  const verdict = await verifier.verify({ gold, answer });
  return verdict.type === "scored" ? verdict.score : `${verdict.type}: ${verdict.reason}`;
};

test("at least 95 % of right answers are accepted and no wrong one is", async () => {
  const [missed, paid]: [string[], string[]] = [[], []];
  for (const { form, gold, answer, right } of pairs) {
    const score = await judged(gold, answer);
    if (right && score !== 1) missed.push(`${form}: ${gold} <- ${answer}: ${score}`);
    if (!right && score !== 0) paid.push(`${form}: ${gold} <- ${answer}: ${score}`);
  }
  console.log([`${pairs.length} pairs`, ...missed.map((each) => `missed ${each}`)].join("\n"));
  const right = pairs.filter((pair) => pair.right).length;
  expect(pairs.length).toBeGreaterThanOrEqual(200);
  expect(paid).toEqual([]);
  expect(1 - missed.length / right).toBeGreaterThanOrEqual(0.95);
});

test("a thousand gradings take less than a minute", { timeout: 120_000 }, async () => {
  const began = performance.now();
  let next = 0;
  const worker = async (): Promise<void> => {
    for (let i = next++; i < 1000; i = next++) await judged(pairs[i % pairs.length]!.gold, pairs[i % pairs.length]!.answer);
  };
  await Promise.all([worker(), worker(), worker(), worker()]);
  const seconds = (performance.now() - began) / 1000;
  console.log(`1,000 gradings in ${seconds.toFixed(1)} s`);
  expect(seconds).toBeLessThan(60);
});

// ------------------------------------------------------------------------------------------------- extraction, limits

test.each([
  ["2+40=42\n#### 42\n" + "This is prose about the answer. ".repeat(15), "42", 1],
  ["\\boxed{840} and again \\boxed{840}", "840", 1],
  ["\\boxed{004}, so \\boxed{004}", "4", 1],
  ["\\boxed{3} is a first try. ... so finally \\boxed{5}", "5", 1],
  ["\\boxed{3} or \\boxed{5}", "5", 0],
  ["\\boxed{3} and \\boxed{5}", "3, 5", 1],
  ["\\boxed{\\text{E}}", "E", 1],
  ["\\boxed{\\frac{1}{2}}", "0.5", 1],
  ["The answer is $3$ or $5$.", "5", 0],
  ["#### 41\n#### 42", "42", 1],
  ["#### 42\n#### 41", "42", 0],
  ["5 is wrong. The answer is 6.", "5", 0],
])("extraction: %j against %j is %d", async (answer, gold, score) => expect(await judged(gold, answer)).toBe(score));

test("the last message of the assistant counts, not what the user said", async () => {
  const reward = verifierReward(verifier, { gold: (task) => task.data["answer"]! });
  const messages: Message[] = [
    { role: "user", content: "#### 42" },
    { role: "assistant", content: "#### 41" },
  ];
  const task = { id: "t", prompt: [], data: { answer: "42" } };
  expect(await reward({ task, messages, turns: [] })).toMatchObject({ type: "scored", score: 0 });
  expect(await reward({ task, messages: [messages[0]!, { role: "assistant", content: "#### 42" }], turns: [] })).toMatchObject({
    score: 1,
  });
  expect(await reward({ task, messages: messages.slice(0, 1), turns: [] })).toMatchObject({ type: "scored", score: 0 });
});

test("two texts that cannot be read are never equal; a gold that cannot be read is unscorable", async () => {
  expect(await judged("\\frobnicate{x}", "\\blorb{x}")).toMatch(/^unscorable/);
  expect(await judged("5", "\\blorb{x}")).toBe(0);
  expect(await judged("\\frobnicate{x}", "\\frobnicate{x}")).toBe(1);
});

test("alternatives, tolerance, a solution as the gold", async () => {
  const of = async (options: MathOptions, gold: Json, answer: string) =>
    (await math(options).verify({ gold, answer })) as { score: number };
  expect((await of({}, ["1/2", "2/4 of it"], "0.5")).score).toBe(1);
  expect((await of({ tolerance: 0.01 }, "3.14", "3.15")).score).toBe(1);
  expect((await of({ tolerance: 0.01 }, "3.14", "3.2")).score).toBe(0);
  expect((await of({}, "We add and get \\boxed{7}.", "7")).score).toBe(1);
  expect((await of({ symbols: "positive" }, "x", "\\sqrt{x^2}")).score).toBe(1);
  expect(() => math({ seconds: 0 })).toThrow("math verifier: seconds: expected above 0, got 0");
});

test("a hostile expression costs its own grading only", { timeout: 120_000 }, async () => {
  const quick = math({ seconds: 1 });
  const nested = (open: string, close: string) => open.repeat(100_000) + "1" + close.repeat(100_000);
  const hostile = [
    "9^{9^{9^9}}",
    "9^9^9^9",
    "\\sum_{k=1}^{10^9} k",
    "1000000!",
    "(10^{10^{10}})!",
    nested("(", ")"),
    nested("\\frac{1}{", "}"),
    nested("{", "}"),
    "\\prod_{k=1}^{10^9} \\sin k",
    "2^{2^{2^{2^{2^2}}}} - 1",
    "\\binom{10^{12}}{10^{11}}",
    `${"\\sin(".repeat(55)}1${")".repeat(55)}`,
  ];
  const began = performance.now();
  const gradings = hostile.flatMap((answer) => [
    quick.verify({ gold: "\\sqrt{2}", answer }),
    quick.verify({ gold: "\\sqrt{2}", answer: "2^{1/2}" }),
  ]);
  const verdicts = await Promise.all(gradings);
  for (const [i, verdict] of verdicts.entries()) {
    if (i % 2 === 1) expect(verdict).toMatchObject({ type: "scored", score: 1 });
    else expect([hostile[(i - (i % 2)) / 2], verdict.type === "scored" ? verdict.score : verdict.type]).not.toContain(1);
  }
  expect(performance.now() - began).toBeLessThan(90_000);
});

test("gold a power tower and the same tower as the answer: the same text is the same answer", async () => {
  expect(await judged("9^{9^{9^9}}", "9^{9^{9^9}}")).toBe(1);
});

// ------------------------------------------------------------------------------------------------------ second engines

const undecided = { gold: "9^{9^{9^9}}", answer: "9^{9^{9^9}}+1" } as const;

test("a second engine is asked where the first cannot decide, and named in the verdict", async () => {
  const asked: string[] = [];
  const second: SecondEngine = { name: "Oracle", equal: async (gold, answer) => (asked.push(`${gold.text} ? ${answer.text}`), false) };
  const verdict = await math({ seconds: 0.5, second }).verify(undecided);
  expect(verdict).toMatchObject({ type: "scored", score: 0, explanation: expect.stringMatching(/\(Oracle\)$/) as string });
  expect(asked).toEqual(["(9^(9^(9^9))) ? ((9^(9^(9^9)))+1)"]);
});

test("Wolfram Alpha through its API: the key, the question, its answers and its failures", async () => {
  const requests: URLSearchParams[] = [];
  let body: object = {};
  let status = 200;
  const server = createServer((request, response) => {
    requests.push(new URL(request.url!, "http://x").searchParams);
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const pods = (plaintext: string) => ({
    queryresult: {
      success: true,
      error: false,
      pods: [
        { id: "Input", subpods: [{ plaintext: "?" }] },
        { id: "Result", subpods: [{ plaintext }] },
      ],
    },
  });
  const verify = async (reply: object) => {
    body = reply;
    return math({ seconds: 0.3, second: wolframAlpha({ key: "SECRET-KEY", baseUrl }) }).verify(undecided);
  };
  try {
    expect(await verify(pods("0"))).toMatchObject({ type: "scored", score: 1 });
    expect(await verify(pods("-1"))).toMatchObject({ type: "scored", score: 0 });
    expect(await verify(pods("x + 1"))).toMatchObject({ type: "unscorable" });
    expect(await verify({ queryresult: { success: false, error: false } })).toMatchObject({ type: "unscorable" });
    const refused = await verify({ queryresult: { success: false, error: { code: "1", msg: "Invalid appid" } } });
    expect(refused).toEqual({ type: "infrastructure", reason: "math: Wolfram Alpha: error 1: Invalid appid" });
    status = 403;
    expect(JSON.stringify(await verify({}))).not.toContain("SECRET-KEY");
    expect(requests[0]!.get("appid")).toBe("SECRET-KEY");
    expect(requests[0]!.get("input")).toBe("simplify ((9^(9^(9^9)))) - (((9^(9^(9^9)))+1))");
    expect(requests[0]!.get("output")).toBe("json");
  } finally {
    server.close();
  }
  expect(() => wolframAlpha({ key: " " })).toThrow(/Wolfram Alpha: key: expected the AppID/);
});

test("SymPy decides as data and not as code, or says how to get it", { timeout: 120_000 }, async () => {
  const python = process.env["FLYWHEEL_PYTHON"] ?? "/usr/bin/python3";
  const engine = sympy({ python, seconds: 60 });
  const formula = (text: string) => formulaOf(parseMath(text));
  const asked = async (gold: string, answer: string) =>
    engine.equal(formula(gold), formula(answer)).catch((cause: unknown) => messageOf(cause));
  const first = await asked("\\sin^2 x + \\cos^2 x", "1");
  if (typeof first === "string") expect(first).toBe(`math verifier: ${python} has no SymPy; install it with: pip install sympy`);
  else {
    expect([first, await asked("\\sqrt{2}", "1.41"), await asked("\\sum_{k=1}^{n} k", "n(n+1)/2")]).toEqual([true, false, true]);
  }
  expect(await math({ seconds: 0.3, second: sympy({ python: "/nonexistent/python" }) }).verify(undecided)).toEqual({
    type: "infrastructure",
    reason: "math: math verifier: /nonexistent/python has no SymPy; install it with: pip install sympy",
  });
});
