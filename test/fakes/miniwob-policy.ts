/** A scripted policy for MiniWoB++: reads the task and the page as an agent does, and says the calls. */
import { integer } from "../../src/random.ts";
import type { JsonObject, RandomKey } from "../../src/types.ts";

export type Call = readonly [name: string, args: JsonObject];

interface Seen {
  readonly ref: string;
  readonly role: string;
  readonly name: string;
  readonly value: string;
}

const ROLES = "button|link|tab|textbox|checkbox|radio|combobox|cell|rowheader|paragraph|heading|spinbutton";
const ELEMENT = new RegExp(`^ *((?:f\\d+)?e\\d+) (${ROLES})\\b ?(?:\\d )?(.*)$`);

const WORDS: readonly string[] = ["ONE", "TWO"];

/** Lines of an observation: `e5 button "Send" = "text"`, or `e5 text`, or text. */
export function linesOf(page: string): Seen[] {
  return page.split("\n").flatMap((line) => {
    const node = ELEMENT.exec(line);
    if (node !== null) {
      const name = /^"((?:[^"\\]|\\.)*)"/.exec(node[3]!)?.[1] ?? "";
      const value = /= "((?:[^"\\]|\\.)*)"$/.exec(node[3]!)?.[1] ?? "";
      return [{ ref: node[1]!, role: node[2]!, name: unescaped(name), value: unescaped(value) }];
    }
    const text = /^ *(?:((?:f\d+)?e\d+) )?(.+)$/.exec(line);
    return text === null ? [] : [{ ref: text[1] ?? "", role: "text", name: text[2]!, value: "" }];
  });
}

const unescaped = (text: string): string => JSON.parse(`"${text}"`) as string;

/** The calls that solve a page. */
export function solve(family: string, opening: string): Call[] {
  const [asked = "", ...rest] = opening.split("\n");
  const goal = asked.replace(/^Task: /, "");
  const seen = linesOf(rest.join("\n"));
  const of = (role: string): Seen[] => seen.filter((node) => node.role === role);
  const quoted = [...goal.matchAll(/"([^"]*)"/g)].map((match) => match[1]!);
  const click = (ref: string | undefined): Call => ["click", { ref: ref ?? "e0" }];
  const named = (name: string): Call => click(seen.find((node) => node.name.toLowerCase() === name.toLowerCase() && node.ref !== "")?.ref);
  const type = (index: number, text: string): Call => ["type", { ref: of("textbox")[index]?.ref ?? "e0", text }];
  const nth = /(\d+)(?:st|nd|rd|th)/.exec(goal)?.[1];
  const after = (label: string): string => seen[seen.findIndex(({ name }) => name.replace(/:$/, "") === label) + 1]?.name ?? "";
  switch (family) {
    case "click-test-2":
      return [named("ONE")];
    case "click-button":
      return [click(of("button").find(({ name }) => name === quoted[0])?.ref)];
    case "unicode-test":
      return [click(of("button").find(({ name }) => name === quoted[0])?.ref)];
    case "click-dialog":
      return [named("Close")];
    case "click-dialog-2":
      return [named(quoted[0] === "x" ? "Close" : quoted[0]!)];
    case "click-option":
      return [named(/Select (.*) and click/.exec(goal)![1]!), named("Submit")];
    case "click-checkboxes":
    case "click-checkboxes-large":
    case "click-checkboxes-transfer": {
      const wanted = /Select (.*) and click/.exec(goal)![1]!.split(", ");
      return [...of("checkbox").filter(({ name }) => wanted.includes(name)).map(({ ref }) => click(ref)), named("Submit")];
    }
    case "click-tab":
      return [click(of("link").find(({ name }) => name === /on (Tab #\d)/.exec(goal)?.[1])?.ref)];
    case "click-button-sequence":
      return WORDS.map(named);
    case "click-widget": {
      const kind = quoted[0]!;
      const roles: Readonly<Record<string, string>> = { text: "textbox", textarea: "textbox" };
      const found = of(roles[kind] ?? kind);
      // A text field and an area look alike; an area is the one with text in it.
      const area = found.find(({ value }) => value !== "");
      const field = kind === "text" ? found.find((node) => node !== area) : undefined;
      return [click((kind === "textarea" ? area : field)?.ref ?? found[0]?.ref)];
    }
    case "click-collapsible-nodelay":
      return [click(of("tab")[0]?.ref), named("Submit")];
    case "choose-list":
      return [["select", { ref: of("combobox")[0]!.ref, option: /Select (.*) from the list/.exec(goal)![1]! }], named("Submit")];
    case "enter-text":
    case "enter-text-dynamic":
      return [type(0, quoted[0]!), named("Submit")];
    case "enter-text-2":
      return [type(0, /upper/.test(goal) ? quoted[0]!.toUpperCase() : quoted[0]!.toLowerCase()), named("Submit")];
    case "enter-password":
      return [type(0, quoted[0]!), type(1, quoted[0]!), named("Submit")];
    case "enter-date":
      return [type(0, /Enter (\S+) as/.exec(goal)![1]!.replace(/^(\d+)\/(\d+)\/(\d+)$/, "$3-$1-$2")), named("Submit")];
    case "enter-time":
      return [type(0, twentyFour(/Enter (.*) as/.exec(goal)![1]!)), named("Submit")];
    case "focus-text-2":
      return [click(of("textbox")[Number(nth) - 1]?.ref)];
    case "login-user":
      return [type(0, quoted[0]!), type(1, quoted[1]!), named("Login")];
    case "read-table":
      return [type(0, after(/value of (.*) into/.exec(goal)![1]!)), named("Submit")];
    case "read-table-2": {
      const labels = seen.filter(({ role, name }) => role === "text" && name.endsWith(":")).map(({ name }) => name.slice(0, -1));
      return [...labels.map((label, i) => type(i, after(label))), named("Submit")];
    }
    case "copy-paste":
      return [type(0, of("textbox")[1]!.value), named("Submit")];
    case "copy-paste-2":
      return [type(of("textbox").length - 1, of("textbox")[Number(nth) - 1]!.value), named("Submit")];
    case "find-word":
      return [type(0, of("paragraph")[0]!.value.split(" ")[Number(nth) - 1]!.replace(/[.,]/g, "")), named("Submit")];
    case "simple-arithmetic": {
      const [, a, operator, b] = /(\d+) ([-+x]) (\d+) =/.exec(rest.join("\n"))!;
      const [x, y] = [Number(a), Number(b)];
      return [type(0, String(operator === "+" ? x + y : operator === "-" ? x - y : x * y)), named("Submit")];
    }
    case "simple-algebra":
      return [type(0, String(unknownOf(rest.join("\n")))), named("Submit")];
    case "multi-layouts":
    case "multi-orderings": {
      const [, genre, director, year] = /for (.*) movies directed by (.*) from year (\d+)/.exec(goal)!;
      const answers: Readonly<Record<string, string>> = { genre: genre!, director: director!, year: year! };
      const labels = seen.flatMap(({ name }) => /^(genre|director|year):?$/i.exec(name)?.[1]?.toLowerCase() ?? []);
      const send = seen.some(({ name }) => name === "Search") ? "Search" : "Submit";
      return [...labels.map((label, i) => type(i, answers[label]!)), named(send)];
    }
    case "odd-or-even": {
      const parts = seen.filter(({ role, name }) => role === "button" || /^-?\d+$/.test(name));
      return [
        ...parts.flatMap(({ name }, i) => (/^-?\d+$/.test(name) ? [click(parts[i + (Number(name) % 2 === 0 ? 1 : -1)]?.ref)] : [])),
        named("Submit"),
      ];
    }
    case "buy-ticket": {
      const offers = of("button").map((button) => ({ button, around: seen.slice(0, seen.indexOf(button)).at(-1)! }));
      const cost = ({ button, around }: (typeof offers)[number]): number =>
        /duration/.test(goal) ? minutes(around.name) : Number(/\$(\d+)/.exec(button.name)![1]);
      const best = offers.reduce((a, b) => (/longest|most expensive/.test(goal) === cost(b) > cost(a) ? b : a));
      return [click(best.button.ref)];
    }
    case "ascending-numbers":
      return seen
        .filter(({ name }) => /^\d+$/.test(name))
        .sort((a, b) => Number(a.name) - Number(b.name))
        .map(({ ref }) => click(ref));
    case "form-sequence-2": {
      const [, mark, number, field] = /the (\d)\w+ (?:checkbox|radio button) and enter the number "(-?\d+)" into the (\d)/.exec(goal)!;
      const marks = [...of("radio"), ...of("checkbox")];
      return [click(marks[Number(mark) - 1]?.ref), type(Number(field) - 1, number!), named("Submit")];
    }
    default:
      throw new Error(`no script for ${family}`);
  }
}

function twentyFour(text: string): string {
  const [, hour, minute, half] = /(\d+):(\d+) ([AP])M/.exec(text)!;
  return `${String((Number(hour) % 12) + (half === "P" ? 12 : 0)).padStart(2, "0")}:${minute}`;
}

function minutes(text: string): number {
  const [, hours = "0", rest = "0"] = /(?:(\d+)h)? ?(?:(\d+)m)?/.exec(text)!;
  return 60 * Number(hours) + Number(rest);
}

/** `x + 3 = 5`, `3 - x = 5` and the like. */
function unknownOf(page: string): number {
  const [, left, operator, right, result] = /(x|-?\d+) ([-+]) (x|-?\d+) = (-?\d+)/.exec(page)!;
  const total = Number(result);
  if (left === "x") return operator === "+" ? total - Number(right) : total + Number(right);
  return operator === "+" ? total - Number(left) : Number(left) - total;
}

/** A call drawn from what the page shows: a click anywhere, or a word of the task into a field. */
export function randomCall(page: string, key: RandomKey, turn: number): Call {
  const places = linesOf(page).filter(({ ref }) => ref !== "");
  const place = places[integer(key, Math.max(1, places.length), 2 * turn)];
  const words = page.split(/[^A-Za-z0-9]+/).filter((word) => word !== "");
  if (place?.role === "textbox") return ["type", { ref: place.ref, text: words[integer(key, words.length, 2 * turn + 1)] ?? "x" }];
  return ["click", { ref: place?.ref ?? "e1" }];
}
