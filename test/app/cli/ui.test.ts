import { expect, test } from "vitest";
import { visible } from "../../../src/errors.ts";
import { pad, painter, wantsColour, width } from "../../../src/app/cli/ui/colour.ts";
import { type ProgressOptions, duration, progress, shortNumber } from "../../../src/app/cli/ui/progress.ts";
import { bar, beforeAfter, spark } from "../../../src/app/cli/ui/spark.ts";
import { table } from "../../../src/app/cli/ui/table.ts";

const plain = painter(false);

function recorded(options: Partial<ProgressOptions> & { isTTY: boolean; columns?: number }): {
  text: () => string;
  run: ReturnType<typeof progress>;
  wait: (ms: number) => void;
} {
  let text = "";
  let clock = 0;
  const stream = { isTTY: options.isTTY, columns: options.columns ?? 120, write: (part: string) => (text += part) };
  const run = progress({ label: "train", total: 10, environment: { NO_COLOR: "1" }, now: () => clock, ...options, stream });
  return { text: () => text, run, wait: (ms) => (clock += ms) };
}

test("a pipe gets one plain line a step, with rate, ETA, reward and KL", () => {
  const { text, run, wait } = recorded({ isTTY: false });
  wait(2000);
  run.update(1, { reward: 0.25, kl: 0.0012 });
  wait(2000);
  run.update(2, { reward: 0.5, kl: Number.NaN });
  run.end();
  expect(text()).toBe("train   1/10  reward 0.250  kl 0.001  2 s each  ETA 0:18\ntrain   2/10  reward 0.500  kl NaN  2 s each  ETA 0:16\n");
});

test("a terminal gets one redrawn line that never wraps", () => {
  const { text, run, wait } = recorded({ isTTY: true, columns: 60 });
  wait(500);
  run.update(5, { reward: 0.5 });
  run.note("checkpoint written");
  run.end();
  const line = "train  ██████████░░░░░░░░░░   5/10  reward 0.500";
  expect(text()).toBe(`\r${line}\u001b[K\r\u001b[Kcheckpoint written\n${line}\n`);
  const wide = recorded({ isTTY: true });
  wide.wait(500);
  wide.run.update(5, { reward: 0.5 });
  expect(wide.text()).toBe(`\r${line}  10/s  ETA 0:01  ▄\u001b[K`);
});

test("--json gives one object a step, with NaN as a string", () => {
  const { text, run, wait } = recorded({ isTTY: true, json: true, start: 4 });
  wait(1000);
  run.update(6, { reward: Number.NaN });
  expect(JSON.parse(text())).toEqual({
    event: "progress",
    label: "train",
    done: 6,
    total: 10,
    seconds: 1,
    rate: 2,
    eta: 2,
    values: { reward: "NaN" },
  });
});

test("--json leaves out a time that is not known: nothing is done yet", () => {
  const { text, run } = recorded({ isTTY: false, json: true });
  run.update(0);
  expect(JSON.parse(text())).toMatchObject({ done: 0, rate: 0, eta: null });
});

test("colour follows NO_COLOR, FORCE_COLOR and the stream", () => {
  expect(wantsColour({ isTTY: true }, {})).toBe(true);
  expect(wantsColour({ isTTY: true }, { NO_COLOR: "1", FORCE_COLOR: "1" })).toBe(false);
  expect(wantsColour({ isTTY: true }, { NO_COLOR: "" })).toBe(true);
  expect(wantsColour({ isTTY: false }, { FORCE_COLOR: "1" })).toBe(true);
  expect(wantsColour({ isTTY: true }, { TERM: "dumb" })).toBe(false);
  expect(painter(true)("x", "bold", "red")).toBe("\u001b[1m\u001b[31mx\u001b[39m\u001b[22m");
});

test("widths count columns, and model text cannot drive the terminal", () => {
  expect([width("ab"), width("\u001b[1mab\u001b[22m"), width("日本"), width("e\u0301"), width("😀")]).toEqual([2, 2, 4, 1, 2]);
  expect(pad("日", 4, "left")).toBe("  日");
  expect(visible("a\u001b[31m\tb\nc\u009b")).toBe("a␛[31m→b\nc\ufffd");
});

test("drawings", () => {
  expect(spark([0, 1, 2, 3, 4, 5, 6, 7])).toBe("▁▂▃▄▅▆▇█");
  expect(spark([1, 1, Number.NaN])).toBe("▄▄ ");
  expect(spark([0, 0, 7, 7], 2)).toBe("▁█");
  expect([bar(0.5, 4), bar(0, 4), bar(1, 4), bar(0.28125, 4), bar(Number.NaN, 2)]).toEqual(["██░░", "░░░░", "████", "█▏░░", "░░"]);
  expect(beforeAfter("held-out success", { before: 0.48, after: 0.912 }, plain)).toBe(
    "held-out success   48.0 %  ███████▋░░░░░░░░  →   91.2 %  ██████████████▋░",
  );
  expect(
    table(
      [{ title: "name" }, { title: "n", align: "right" }],
      [
        ["a", "1"],
        ["long name", "20"],
      ],
    ),
  ).toEqual(["name        n", "─────────  ──", "a           1", "long name  20"]);
  expect([0, 1234, 12.34, 1.234, 0.0004, 2e7].map(shortNumber)).toEqual(["0", "1234", "12.3", "1.23", "4.0e-4", "2.0e+7"]);
  expect([65, 7384, Number.POSITIVE_INFINITY].map(duration)).toEqual(["1:05", "2:03:04", "--:--"]);
});
