/** Texts with columns in braces, such as "{question}\n\nChoices: {choices}"; "{{" and "}}" are braces. */
import { ConfigError, expected } from "../../../errors.ts";
import type { Json, JsonObject } from "../../../types.ts";

export interface Template {
  /** Names of the columns, without what stands behind a dot. */
  readonly columns: readonly string[];
  /** Throws a ConfigError that names the row and the column. */
  text(row: JsonObject, where: string): string;
  /** The value as it is where the template is one column alone, else the text. */
  value(row: JsonObject, where: string): Json;
}

/** Reads a template; `where` names the option that holds it. "{a.b}" goes into an object, "{a.0}" into a list. */
export function template(source: string, where: string): Template {
  const parts: (string | readonly string[])[] = [];
  for (const [piece, name] of source.matchAll(/\{\{|\}\}|\{([^{}]*)\}|[{}]|[^{}]+/g)) {
    if (piece === "{" || piece === "}" || name === "") {
      throw new ConfigError(expected(where, "columns in braces", JSON.stringify(source), 'write "{{" and "}}" for braces'));
    }
    if (name !== undefined) parts.push(name.trim().split("."));
    else parts.push(piece === "{{" ? "{" : piece === "}}" ? "}" : piece);
  }
  const paths = parts.filter((part) => typeof part !== "string");
  const [only] = paths;
  return {
    columns: [...new Set(paths.map(([column]) => column!))],
    text: (row, at) => parts.map((part) => (typeof part === "string" ? part : asText(valueAt(row, part, at)))).join(""),
    value(row, at) {
      return parts.length === 1 && only !== undefined ? valueAt(row, only, at) : this.text(row, at);
    },
  };
}

const asText = (value: Json): string => (typeof value === "string" ? value : JSON.stringify(value));

function valueAt(row: JsonObject, path: readonly string[], where: string): Json {
  let value: Json | undefined = row;
  for (const key of path) {
    value = typeof value === "object" && value !== null && Object.hasOwn(value, key) ? (value as JsonObject)[key] : undefined;
  }
  if (value !== undefined && value !== null && value !== "") return value;
  const got = value === undefined ? `columns ${Object.keys(row).join(", ") || "none"}` : JSON.stringify(value);
  const want = value === undefined ? "to be there" : "a value";
  throw new ConfigError(expected(`${where} column "${path.join(".")}"`, want, got));
}
