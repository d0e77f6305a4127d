/** Aligned columns for the terminal. */
import { pad, width } from "./colour.ts";

interface Column {
  readonly title: string;
  readonly align?: "left" | "right";
}

/** Lines of a table: titles, a rule, rows. Cells may be coloured; columns are as wide as their widest cell. */
export function table(columns: readonly Column[], rows: readonly (readonly string[])[]): string[] {
  const widths = columns.map(({ title }, i) => Math.max(width(title), ...rows.map((row) => width(row[i] ?? ""))));
  const line = (cells: readonly string[]): string =>
    columns
      .map(({ align = "left" }, i) => pad(cells[i] ?? "", widths[i] ?? 0, align === "left" ? "right" : "left"))
      .join("  ")
      .trimEnd();
  return [line(columns.map(({ title }) => title)), widths.map((columnsWide) => "─".repeat(columnsWide)).join("  "), ...rows.map(line)];
}
