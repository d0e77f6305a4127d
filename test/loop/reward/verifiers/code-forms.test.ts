/** What tests and answers may look like, and what a verdict says. Tricks are in code.test.ts. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { openSandbox } from "../../../../src/compute/sandbox/open.ts";
import type { Sandbox } from "../../../../src/compute/sandbox/sandbox.ts";
import { type CodeOptions, codeReward, codeVerifier } from "../../../../src/loop/reward/verifiers/code.ts";
import { answerCode } from "../../../../src/loop/reward/verifiers/code/answer.ts";
import type { Json } from "../../../../src/types.ts";

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await openSandbox({ slots: 4 });
}, 60_000);
afterAll(() => sandbox.close());

const timeout = 120_000;
const limits = { wallSeconds: 20 };

async function grade(answer: string, gold: Json, options: Partial<CodeOptions> = {}): Promise<readonly [number | string, string]> {
  const verdict = await codeVerifier({ language: "python", sandbox, limits, ...options }).verify({ answer, gold });
  return verdict.type === "scored" ? [verdict.score, verdict.explanation] : [verdict.type, verdict.reason];
}

const shop = `
import asyncio
from collections import Counter, namedtuple

class Stack:
    def __init__(self, items=()): self.items = list(items)
    def push(self, item):
        self.items.append(item)
        return self
    def pop(self):
        if not self.items: raise IndexError("empty")
        return self.items.pop()
    def __len__(self): return len(self.items)
    def __iter__(self): return iter(self.items)
    def __contains__(self, item): return item in self.items
    def __eq__(self, other): return isinstance(other, Stack) and self.items == other.items
    def __enter__(self): return self
    def __exit__(self, *exc): self.items.clear()

class SoldOut(ValueError):
    def __init__(self, item):
        super().__init__("no %s left" % item)
        self.item = item

Point = namedtuple("Point", "x y")
def buy(item): raise SoldOut(item)
async def later(x):
    await asyncio.sleep(0.001)
    return x * 2
def apply(f, items): return [f(item) for item in items]
def sort_it(items): items.sort()
def count(n):
    for i in range(n): yield i
def reverse(node):
    before = None
    while node: node.next, before, node = before, node, node.next
    return before
def hello():
    print("hi")
    return {"a": (1, 2.5, None), 3: {4, 5}, "big": 2**100, "p": Point(1, 2), "c": Counter("aab")}
def add(a, b): return a + b
if __name__ == "__main__":
    print(add(int(input()), 1))
`;

const shopTests = `
import asyncio, collections, pytest
from solution import *
from solution import SoldOut, Stack
from candidate import run

@pytest.mark.parametrize("n", [1, 2])
def test_stack(n):
    stack = Stack()
    stack.push(n).push(2)
    assert len(stack) == 2 and list(stack) == [n, 2] and n in stack and 9 not in stack and isinstance(stack, Stack)
    assert stack == Stack([n, 2]) and stack != Stack([n]) and stack != [n, 2]
    assert stack.pop() == 2
    stack.pop()
    with pytest.raises(IndexError, match="empty"): stack.pop()
    with Stack([1]) as other: assert other.items == [1]
    assert other.items == []
    other.items = [5]
    assert other.pop() == 5

def test_own_exception():
    with pytest.raises(SoldOut) as caught: buy("figs")
    assert caught.value.item == "figs" and str(caught.value) == "no figs left"
    with pytest.raises(ValueError): buy("figs")

def test_coroutine(): assert asyncio.run(later(4)) == 8

def test_callbacks():
    assert apply(lambda item: item + 1, [1, 2]) == [2, 3]
    assert apply(str, [1]) == ["1"]
    class Own(Exception): pass
    def fails(item): raise Own("x")
    with pytest.raises(Own): apply(fails, [1])

def test_changed_argument():
    items = [3, 1, 2]
    assert sort_it(items) is None and items == [1, 2, 3]

def test_own_objects_are_the_tests_own():
    class Node:
        def __init__(self, value, next=None): self.value, self.next = value, next
    first = Node(1, Node(2))
    last = reverse(first)
    assert last.value == 2 and last.next is first and first.next is None and type(last) is Node

def test_generator(): assert list(count(3)) == [0, 1, 2]

def test_plain_data(capsys):
    assert hello() == {"a": (1, 2.5, None), 3: {4, 5}, "big": 2**100, "p": (1, 2), "c": {"a": 2, "b": 1}}
    assert hello()["p"].y == 2
    assert capsys.readouterr().out == "hi\\nhi\\n"

def test_as_a_program():
    done = run(["python", "solution.py"], stdin="4")
    assert (done.returncode, done.stdout) == (0, "5\\n"), done.stderr
`;

test("Python: classes, exceptions, coroutines, callbacks, generators, output and programs reach the tests", { timeout }, async () => {
  expect(await grade(shop, { tests: { "test_shop.py": shopTests } })).toEqual([1, "10 of 10 tests passed"]);
  const wrong = shop.replace("return a + b", "return a - b").replace("items.sort()", "pass");
  const told =
    "8 of 10 tests passed; failed: test_shop.py::test_changed_argument (assert (None is None and [3, 1, 2] == [1, 2, 3]) and 1 more";
  expect(await grade(wrong, { tests: { "test_shop.py": shopTests } })).toEqual([0, told]);
  expect((await grade(wrong, { tests: { "test_shop.py": shopTests } }, { grade: "fraction" }))[0]).toBeCloseTo(8 / 10, 12);
});

const tasks = `
export const add = (a: number, b: number): number => a + b;
export class Queue<T> {
  private items: T[] = [];
  push(item: T): this { this.items.push(item); return this; }
  shift(): T { if (this.items.length === 0) throw new RangeError("empty"); return this.items.shift()!; }
  get size(): number { return this.items.length; }
  *[Symbol.iterator]() { yield* this.items; }
}
export class Late extends Error { code = "LATE"; }
export const fail = (): never => { throw new Late("too late"); };
export const later = async (n: number): Promise<number> => { await new Promise((done) => setTimeout(done, 5)); return n * 2; };
export const map = <T, U>(items: T[], change: (item: T) => U): U[] => items.map((item) => change(item));
export const visit = (node: any): number => { const n = node.value + node.more(1); node.seen = true; return n; };
export const pollute = (node: any): string => {
  try { return String(node.constructor) + node.__defineGetter__("x", () => 1); } catch (error) { return (error as Error).message; }
};
export const sort = (items: number[]): void => void items.sort((a, b) => a - b);
export default function data() {
  return { a: [undefined, NaN, -0, 10n], m: new Map([[1, new Set([2])]]), d: new Date(5), b: new Uint8Array([1, 2]) }; }
if (require.main === module) console.log("as a program");
`;

const tasksTests = `
import test, { describe, it } from "node:test";
import assert from "node:assert/strict";
import data, { add, fail, Late, later, map, pollute, Queue, sort, visit } from "./solution.ts";
import { run } from "candidate";
test("add", () => assert.equal(add(1, 2), 3));
describe("queue", () => {
  it("is first in, first out", () => {
    const queue = new Queue<number>().push(1).push(2);
    assert.equal(queue.size, 2);
    assert.ok(queue instanceof Queue);
    assert.deepEqual([...queue], [1, 2]);
    assert.equal(queue.shift(), 1);
    queue.shift();
    assert.throws(() => queue.shift(), RangeError);
    assert.throws(() => queue.shift(), { message: "empty" });
  });
});
test("own error", () => { assert.throws(fail, Late); assert.throws(fail, /too late/); assert.throws(fail, { code: "LATE" }); });
test("promise", async () => { assert.equal(await later(4), 8); await assert.rejects(async () => fail(), Late); });
test("callback", () => {
  assert.deepEqual(map([1, 2], (n: number) => n + 1), [2, 3]);
  assert.throws(() => map([1], () => { throw new TypeError("mine"); }), { name: "TypeError", message: "mine" });
});
class Node { seen = false; constructor(readonly value: number) {} more(n: number) { return this.value + n; } }
test("own objects", () => {
  const node = new Node(4);
  assert.equal(visit(node), 9);
  assert.equal(node.seen, true);
  assert.equal(pollute(node), "not allowed");
});
test("changed argument", () => { const items = [3, 1]; sort(items); assert.deepEqual(items, [1, 3]); });
const wanted = { a: [undefined, NaN, -0, 10n], m: new Map([[1, new Set([2])]]), d: new Date(5), b: new Uint8Array([1, 2]) };
test("data", () => assert.deepStrictEqual(data(), wanted));
test("program", () => assert.equal(run(["node", "solution.ts"]).stdout, "as a program\\n"));
`;

test("TypeScript: the same with node:test", { timeout }, async () => {
  const options = { language: "typescript" } as const;
  expect(await grade(tasks, { tests: tasksTests }, options)).toEqual([1, "9 of 9 tests passed"]);
  const [score, told] = await grade(tasks.replace("a + b", "a * b"), { tests: tasksTests }, options);
  expect([score, told.startsWith("8 of 9 tests passed; failed: add (Expected values to be strictly equal: 2 !== 3")]).toEqual([0, true]);
  const plain = { tests: ["const n: number = add(1, 2); assert.equal(n, 3);", "assert.equal(await later(2), 4)"] };
  expect(await grade(tasks, plain, options)).toEqual([1, "2 of 2 tests passed"]);
});

const add = "def add(a, b):\n    return a + b";

test("plain Python tests: asserts, functions, set-up, a check with an entry point", { timeout }, async () => {
  expect(await grade(add, { tests: ["assert add(1, 2) == 3", "assert add(2, 2) == 4"] })).toEqual([1, "2 of 2 tests passed"]);
  const functions =
    "import math\nK = 2\ndef helper(n): return add(n, K)\n" +
    "def test_one(): assert helper(1) == 3\ndef test_two(): assert math.pi > add(1, 1)";
  expect(await grade(add, { tests: functions })).toEqual([1, "2 of 2 tests passed"]);
  expect(await grade(add, { setup: "base = 10", tests: ["assert add(base, 1) == 11"] })).toEqual([1, "1 of 1 tests passed"]);
  const check = { tests: "def check(candidate):\n    assert candidate(1, 2) == 3\n    assert candidate(0, 0) == 0", check: "add" };
  expect(await grade(add, check)).toEqual([1, "1 of 1 tests passed"]);
  const told = "1 of 2 tests passed; failed: test 1:2 assert add(1, 1) == 3 (AssertionError)";
  expect(await grade(add, { tests: "assert add(1, 2) == 3\nassert add(1, 1) == 3" })).toEqual([0, told]);
});

test("a test that was skipped, expected to fail, or never found has not passed", { timeout }, async () => {
  const head = "import pytest\nfrom solution import add\ndef test_a(): assert add(1, 2) == 3\n";
  expect((await grade(add, { tests: `${head}@pytest.mark.skip\ndef test_b(): pass` }))[0]).toBe(0);
  expect((await grade(add, { tests: `${head}@pytest.mark.xfail\ndef test_b(): assert False` }))[0]).toBe(0);
  expect(await grade(add, { tests: head, expected: 2 })).toEqual([0, "1 of 2 tests passed; 2 tests were expected, 1 were found"]);
  expect((await grade("def add(:", { tests: head }))[1]).toContain("SyntaxError");
});

test("a gold that shows nothing is unscorable", { timeout }, async () => {
  const reasons = await Promise.all(
    [
      null,
      {},
      { tests: "" },
      { tests: {} },
      { tests: "x = 1" },
      { tests: "assert (" },
      { cases: [{ stdin: "", stdout: " \n" }] },
      { tests: "assert 1", cases: [] },
    ].map((gold) => grade(add, gold)),
  );
  expect(reasons.map(([type]) => type)).toEqual(Array.from({ length: 8 }, () => "unscorable"));
  expect(reasons[4]![1]).toBe("code: the tests hold no test");
  const js = { language: "javascript" } as const;
  expect((await grade("export const a = 1;", { tests: { "a.test.js": "import 'node:test';" } }, js))[0]).toBe("unscorable");
  expect((await grade("export const a = 1;", { tests: { "checks.js": "" } }, js))[0]).toBe("unscorable");
});

test("programs by their output: equal text, exit code 0, within the time", { timeout }, async () => {
  const gold = {
    cases: [
      { stdin: "2 3\n", stdout: "5\n" },
      { stdin: "1 1\n", stdout: "2" },
    ],
  };
  const sum = "a, b = map(int, input().split())\nprint(a + b)";
  expect(await grade(sum, gold)).toEqual([1, "2 of 2 cases passed"]);
  expect(await grade("print(5)", gold)).toEqual([0, '1 of 2 cases passed; case 2: expected "2", got "5\\n"']);
  expect(await grade("print(5)", gold, { grade: "fraction" })).toEqual([0.5, '1 of 2 cases passed; case 2: expected "2", got "5\\n"']);
  expect((await grade(`${sum}\nraise SystemExit(1)`, gold))[1]).toMatch(/^0 of 2 cases passed; case 1: exit code 1/);
  expect((await grade("raise ValueError", { cases: [{ stdout: "" }, { stdout: "1" }] }))[0]).toBe(0);
  const js = "const [a, b] = require('node:fs').readFileSync(0, 'utf8').split(' ').map(Number);\nconsole.log(a + b);";
  expect(await grade(js, gold, { language: "javascript" })).toEqual([1, "2 of 2 cases passed"]);
});

test("a project of several files; files of the tests are dropped, and that is told", { timeout }, async () => {
  const block = (info: string, code: string): string => `\`\`\`python ${info}\n${code}\n\`\`\`\n`;
  const answer =
    block("shop/cart.py", "from .price import price\ndef total(items): return sum(price(i) for i in items)") +
    block("shop/price.py", "def price(i): return 2") +
    block("shop/__init__.py", "");
  const gold = { tests: { "test_cart.py": "from shop.cart import total\ndef test_total(): assert total(['a', 'b']) == 4" } };
  expect(await grade(answer, gold, { module: "shop" })).toEqual([1, "1 of 1 tests passed"]);
  const cheat =
    block("solution.py", "def add(a, b): return 0") +
    block("conftest.py", "collect_ignore = ['test_1.py']") +
    block("test_1.py", "def test(): pass");
  const [score, told] = await grade(cheat, { tests: "import pytest\nfrom solution import add\ndef test_add(): assert add(1, 2) == 3" });
  expect(score).toBe(0);
  expect(told).toContain("the answer tried to bring files of the tests, which were ignored: conftest.py, test_1.py");
  const given = { tests: "assert add(1, 2) == 3", files: { "numbers_given.py": "ONE = 1" } };
  expect((await grade("from numbers_given import ONE\ndef add(a, b): return a + b * ONE", given))[0]).toBe(1);
});

test("the block that counts", () => {
  const of = (answer: string) => answerCode(answer, { language: "python", module: "solution", testFiles: [] });
  expect(of("x = 1")).toEqual({ files: { "solution.py": "x = 1" }, dropped: [] });
  expect(of("```py\na\n```\ntext\n```python\nb\n```\n```bash\nls\n```")).toEqual({ files: { "solution.py": "b\n" }, dropped: [] });
  expect(of("````python\n```\nnested\n````")).toEqual({ files: { "solution.py": "```\nnested\n" }, dropped: [] });
  expect(of("```python\nopen to the end")).toEqual({ files: { "solution.py": "open to the end\n" }, dropped: [] });
  expect(of("```rust\nfn\n```")).toEqual({ none: "the answer has no python code block" });
  expect(of("  \n")).toEqual({ none: "the answer is empty" });
  expect(of('```python title="a/b.py"\nx\n```')).toEqual({ files: { "a/b.py": "x\n" }, dropped: [] });
});

test("a file outside its folder, too many files, and a sandbox that cannot: said", { timeout }, async () => {
  expect(await grade("```python ../x.py\n1\n```", { tests: "assert 1" })).toEqual([0, "the answer names a file outside its folder"]);
  await using small = await openSandbox({ kind: "quickjs", slots: 1 });
  const [type, reason] = await grade(add, { tests: "assert add(1, 2) == 3" }, { sandbox: small });
  expect([type, reason]).toEqual([
    "infrastructure",
    "code: quickjs sandbox: expected a single program, got a pair to examine; grade code with the bubblewrap sandbox on Linux",
  ]);
});

test("an abort rejects with its reason", { timeout }, async () => {
  const reason = new Error("enough");
  const stop = new AbortController();
  const graded = codeVerifier({ language: "python", sandbox, limits }).verify({
    answer: "while True: pass",
    gold: { tests: "assert add(1, 2) == 3" },
    signal: stop.signal,
  });
  setTimeout(() => stop.abort(reason), 300);
  await expect(graded).rejects.toBe(reason);
});

test("as a reward: the final answer against the task's data", { timeout }, async () => {
  const reward = codeReward({ language: "python", sandbox, limits });
  const task = { id: "t", prompt: [], data: { question: "add", tests: ["assert add(1, 2) == 3"] } };
  const messages = [{ role: "assistant", content: `\`\`\`python\n${add}\n\`\`\`` }] as const;
  expect(await reward({ task, messages, turns: [] })).toMatchObject({ type: "scored", score: 1 });
  expect(await reward({ task, messages: [{ role: "user", content: add }], turns: [] })).toMatchObject({ type: "scored", score: 0 });
});
