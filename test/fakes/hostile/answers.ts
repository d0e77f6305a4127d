/** Answers that try to be scored without solving `add(a, b)`, each by another trick; and the tests they are held against. */
import { readFileSync } from "node:fs";

/** Sections of a text: `=== name`, then the program. */
function sections(file: string): Readonly<Record<string, string>> {
  const text = readFileSync(new URL(file, import.meta.url), "utf8");
  const parts = text.split(/^=== (.+)\n/m).slice(1);
  return Object.fromEntries(parts.flatMap((name, at) => (at % 2 === 0 ? [[name, parts[at + 1]!]] : [])));
}

export const hostilePython = sections("python.txt");
export const hostileJavaScript = sections("javascript.txt");

export const pythonTests = "assert add(1, 2) == 3\nassert add(5, 5) == 10\nprint('OK')";

export const pytestFile = `
import pytest
from solution import add

def test_small():
    assert add(1, 2) == 3

def test_large():
    assert add(5, 5) == 10

@pytest.mark.parametrize("a,b,c", [(0, 0, 0), (-1, 1, 0)])
def test_more(a, b, c):
    assert add(a, b) == c
`;

export const javaScriptTests = ["assert.equal(add(1, 2), 3)", "assert.deepEqual([add(5, 5)], [10])"];

export const nodeTestFile = `
import test from "node:test";
import assert from "node:assert/strict";
import { add } from "./solution.js";
test("small", () => assert.equal(add(1, 2), 3));
test("large", () => assert.ok(add(5, 5) === 10));
test("loose", () => assert.deepEqual([add(1, 1)], [2]));
`;
