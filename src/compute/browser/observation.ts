/** A page as text: its accessibility tree, one line an element, without the boxes that hold nothing but others. */
import { z } from "zod";
import { EnvError, expected } from "../../errors.ts";

/** A node of the tree as Playwright writes it; a string is text. */
type PageNode =
  | string
  | {
      readonly role: string;
      readonly name?: string | undefined;
      readonly ref?: string | undefined;
      /** Text inside, or the value of a field. */
      readonly text?: string | undefined;
      readonly url?: string | undefined;
      readonly level?: number | undefined;
      readonly children?: readonly PageNode[] | undefined;
      /** States: checked, disabled and the like. */
      readonly [state: string]: unknown;
    };

const states = ["checked", "disabled", "expanded", "invalid", "pressed", "selected"] as const;

const nodeSchema: z.ZodType<PageNode> = z.union([
  z.string(),
  z.looseObject({
    role: z.string(),
    name: z.string().optional(),
    ref: z.string().optional(),
    text: z.string().optional(),
    url: z.string().optional(),
    level: z.number().optional(),
    get children() {
      return z.array(nodeSchema).optional();
    },
  }),
]);

/** Roles that say nothing where there is neither a name nor anything inside. */
const boxes = new Set(["generic", "group", "list", "listitem", "paragraph", "region", "row", "rowgroup", "table"]);

/** Reads what `ariaSnapshotJSON` returns. */
export function readTree(snapshot: unknown): readonly PageNode[] {
  const read = z.array(nodeSchema).safeParse(snapshot);
  if (read.success) return read.data;
  throw new EnvError(expected("browser: accessibility tree", "nodes with a role", z.prettifyError(read.error).split("\n")[0]!));
}

/**
 * The tree as lines. `e5 button "Send"` is an element with its reference, its name and what state it is in; text stands alone; the value
 * of a field or a box's own text follows `=`. Indentation is one space a level of what is shown.
 */
export function describe(nodes: readonly PageNode[], { depth = 0 }: { readonly depth?: number } = {}): string[] {
  return nodes.flatMap((node, place) => {
    const before = nodes[place - 1];
    // The label beside a field is its name already.
    if (typeof node === "string" && typeof before === "object" && before.name === node.trim()) return [];
    const line = typeof node === "string" ? node.trim() : lineOf(node);
    const children = typeof node === "string" ? [] : (node.children ?? []);
    // A name that is made of the text inside says it already.
    const inside = typeof node !== "string" && children.every((child) => typeof child === "string" && child === node.name) ? [] : children;
    const below = describe(inside, { depth: line === "" ? depth : depth + 1 });
    return line === "" ? below : [" ".repeat(depth) + line, ...below];
  });
}

function lineOf(node: Exclude<PageNode, string>): string {
  const { role, name, ref, text, url, level } = node;
  if (boxes.has(role) && !name && !text && (node.children ?? []).length === 0) return "";
  const place = ref === undefined ? "" : `${ref} `;
  // A box of its own text keeps its reference, because it may be what there is to click on.
  if (role === "generic" && name === undefined) return text === undefined || text === "" ? "" : `${place}${text}`;
  const named = name === undefined || name === "" ? "" : ` ${JSON.stringify(name)}`;
  const shown = states.flatMap((state) => {
    const value = node[state];
    return value === undefined || value === false ? [] : [value === true ? ` ${state}` : ` ${state}=${JSON.stringify(value)}`];
  });
  const own = text === undefined || text === name ? "" : ` = ${JSON.stringify(text)}`;
  const target = url === undefined || url === "#" ? "" : ` -> ${url}`;
  return `${place}${role}${level === undefined ? "" : ` ${level}`}${named}${shown.join("")}${own}${target}`;
}

/** At most `limit` characters from `from` on; what is left out is stated, and how to see it. */
export function part(text: string, { from, limit }: { readonly from: number; readonly limit: number }): string {
  const shown = text.slice(from, from + limit);
  const end = from + shown.length;
  return end >= text.length ? shown : `${shown}\n[characters ${from} to ${end} of ${text.length}; read from ${end} shows more]`;
}
