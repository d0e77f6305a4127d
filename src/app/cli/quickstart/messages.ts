/** What the quickstart says before and after training. */
import { visible } from "../../../errors.ts";
import type { Evaluation } from "../../../train/evaluate/evaluate.ts";
import type { Scored, ToolCall } from "../../../types.ts";
import type { Paint } from "../ui/colour.ts";
import { outcomeLines } from "../ui/train-view.ts";

export function opening(paint: Paint): string[] {
  return [
    paint("Flywheel quickstart", "bold"),
    "A one-million-parameter model answers office questions. Some need a calculator, some a look-up, some both in sequence, some",
    "no tool at all. It is rewarded for a right final answer and for nothing else; how it uses tools is measured beside that.",
    "",
  ];
}

interface Closing {
  readonly before: Evaluation;
  readonly after: Evaluation;
  readonly seconds: number;
  readonly folder: string;
  readonly command: string;
  readonly paint: Paint;
}

export function closing({ before, after, seconds, folder, command, paint }: Closing): string[] {
  const flipped = after.samples.findIndex(
    (sample, i) => succeeded(sample) && !succeeded(before.samples[i]!) && sample.trajectory.turns.length > 1,
  );
  const example = flipped < 0 ? [] : ["", ...sideBySide(before.samples[flipped]!, after.samples[flipped]!, paint)];
  return [
    "",
    ...outcomeLines(before, after, paint),
    ...example,
    "",
    `${paint("time", "dim")}   ${Math.round(seconds)} s`,
    `${paint("look", "dim")}   ${paint(`${command} inspect ${folder}`, "cyan")}   every rollout, token by token`,
    `${paint("curves", "dim")} ${paint(`${command} report ${folder}`, "cyan")}    one HTML file`,
  ];
}

const succeeded = ({ verdict }: Scored): boolean => verdict.type === "scored" && verdict.score >= 1;

/** One held-out question, as it was answered before and after. */
function sideBySide(before: Scored, after: Scored, paint: Paint): string[] {
  const question = after.trajectory.task.prompt.at(-1)!.content;
  const turns = ({ trajectory }: Scored): string[] =>
    trajectory.messages.slice(trajectory.task.prompt.length).map((message) => {
      const calls = (message.toolCalls ?? []).map(shownCall).join(" ");
      return `    ${message.role === "tool" ? "→ " : ""}${visible(calls === "" ? message.content : calls)}`;
    });
  return [
    `${paint("a held-out question", "dim")}  ${visible(question)}`,
    paint("  before", "red"),
    ...turns(before),
    paint("  after", "green"),
    ...turns(after),
  ];
}

function shownCall({ name, arguments: given }: ToolCall): string {
  const values = Object.values(given).map((value) => (typeof value === "string" ? value : JSON.stringify(value)));
  return `${name}(${values.join(", ")})`;
}
