import { expect, test } from "vitest";
import { dumpJson, encodeMetrics, parseJsonPrefix, parseJsonStrict } from "../src/json.ts";

test("ordinary JSON reads as JSON.parse reads it", () => {
  const object = '{"a":[1,2.5,-3e2,0.1,1e-7],"b":{"c":null,"d":true,"e":false}}';
  for (const text of [object, '"\\u00e9\\ud83c\\udf89\\n\\/"', " [ ] ", "{}", "-0", "1.50", "100"]) {
    expect(parseJsonStrict(text)).toEqual(JSON.parse(text));
  }
});

test("a number that a double would change keeps its text", () => {
  expect(parseJsonStrict('{"id":12345678901234567891}')).toEqual({ id: "12345678901234567891" });
  expect(parseJsonStrict("9007199254740993")).toBe("9007199254740993");
  expect(parseJsonStrict("9007199254740992")).toBe(9007199254740992);
  expect(parseJsonStrict("0.10000000000000000001")).toBe("0.10000000000000000001");
  expect(parseJsonStrict("1e999")).toBe("1e999");
  expect(parseJsonStrict("1e22")).toBe(1e22);
});

test("what is not exactly one JSON value is refused with its place", () => {
  const refused: readonly [string, RegExp][] = [
    ['{"a":1,"a":2}', /key "a" is there twice at offset 7/],
    ['{"__proto__":{"x":1}}', /"__proto__" is not allowed/],
    ['{"a":{"constructor":1}}', /"constructor" is not allowed/],
    ['{"prototype":1}', /"prototype" is not allowed/],
    ["{} x", /expected the end of the text, got "x" at offset 3/],
    ["{'a':1}", /expected a key in double quotes/],
    ['{"a":1,}', /expected a key in double quotes/],
    ['"abc', /expected the end of a string, got the end of the text/],
    ['"a\nb"', /expected the end of a string/],
    ['"\\x41"', /expected an escape sequence/],
    ["01", /expected the end of the text/],
    ["NaN", /expected a JSON value/],
    ["", /expected a JSON value, got the end of the text/],
    ["[".repeat(100) + "]".repeat(100), /at most 64 levels/],
  ];
  for (const [text, message] of refused) expect(() => parseJsonStrict(text)).toThrow(message);
});

test("a prefix is read up to its end", () => {
  expect(parseJsonPrefix('x{"a":"</tool_call>"} rest', 1)).toEqual({ value: { a: "</tool_call>" }, end: 22 });
});

test("dumpJson writes what Python's json.dumps writes", () => {
  expect(dumpJson({ name: "é🎉", list: [1, 2.5, null, true], empty: {}, none: [] })).toBe(
    '{"name": "é🎉", "list": [1, 2.5, null, true], "empty": {}, "none": []}',
  );
  expect(dumpJson([1e-5, 1.5e-7, 0.0001, 1e21, 123456789012345680000, -0, 1e-10])).toBe(
    "[1e-05, 1.5e-07, 0.0001, 1e+21, 123456789012345680000, -0.0, 1e-10]",
  );
  expect(dumpJson({ a: [1, {}], b: [] }, 4)).toBe('{\n    "a": [\n        1,\n        {}\n    ],\n    "b": []\n}');
  expect(dumpJson('a"b\\c\n\t\u0001/')).toBe('"a\\"b\\\\c\\n\\t\\u0001/"');
  expect(() => dumpJson(NaN)).toThrow(/finite/);
});

test("metrics never turn into null", () => {
  expect(encodeMetrics({ loss: NaN, kl: Infinity, low: -Infinity, ok: 0.5, nested: { x: NaN } })).toBe(
    '{"loss":"NaN","kl":"Infinity","low":"-Infinity","ok":0.5,"nested":{"x":"NaN"}}',
  );
});
