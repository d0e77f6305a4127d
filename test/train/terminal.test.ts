import { expect, test } from "vitest";
import { terminal } from "../../src/train/terminal.ts";

test("lines of an observer: figures of a step, notes without control characters, reading at most every two seconds", () => {
  const lines: string[] = [];
  const observer = terminal({ stream: { write: (text: string) => lines.push(text) } });
  observer.onRead?.(50, 200);
  observer.onRead?.(100, 200);
  observer.onStep?.({ step: 3, "reward/mean": 0.51234, "kl/old": 2e-9, loss: 7, fracZeroStd: 0.25 });
  observer.onStep?.({ step: 4, loss: 0.5 });
  observer.onNote?.("a\u001b[31mred");
  expect(lines.map((line) => line.replace(/\d+\.\d s\n/, "0.0 s\n"))).toEqual([
    "reading data: 25 %\n",
    "step 3/0  reward 0.512  kl 2.00e-9  no-signal 0.250  0.0 s\n",
    "step 4/0  loss 0.500  0.0 s\n",
    "note: a\u241b[31mred\n",
  ]);
});
