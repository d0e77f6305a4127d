/** SVG as text: one element, one line of writing, and escaping. */

type Attributes = Readonly<Record<string, string | number | undefined>>;

/** `<name a="1">content</name>`; attributes that are undefined are left out, numbers keep one decimal. */
export function element(name: string, attributes: Attributes, content = ""): string {
  const written = Object.entries(attributes).map(([key, value]) => {
    if (value === undefined) return "";
    return ` ${key}="${typeof value === "number" ? Math.round(value * 10) / 10 : escapeXml(value)}"`;
  });
  return `<${name}${written.join("")}${content === "" ? "/>" : `>${content}</${name}>`}`;
}

interface TextPlace {
  readonly x: number;
  readonly y: number;
  readonly fill: string;
  readonly anchor?: "start" | "middle" | "end";
  readonly size?: number;
  readonly weight?: 400 | 700;
}

/** One line of writing; sizes in px. */
export function text({ x, y, fill, anchor = "start", size = 12, weight = 400 }: TextPlace, content: string): string {
  return element("text", { x, y, fill, "font-size": size, "font-weight": weight, "text-anchor": anchor }, escapeXml(content));
}

/** For text and for attribute values, in SVG and in HTML. Characters that XML forbids become U+FFFD. */
export function escapeXml(content: string): string {
  const entities: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
  const escaped = content.replace(/[&<>"']/g, (character) => entities[character] ?? character);
   
  return escaped.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
}
