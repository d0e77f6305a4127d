/** Terminal colour: a few styles, off for NO_COLOR, for pipes and for dumb terminals. */

type Style = "bold" | "dim" | "red" | "green" | "yellow" | "blue" | "cyan" | "onGreen" | "onRed";

const CODES: Readonly<Record<Style, readonly [string, string]>> = {
  bold: ["1", "22"],
  dim: ["2", "22"],
  red: ["31", "39"],
  green: ["32", "39"],
  yellow: ["33", "39"],
  blue: ["34", "39"],
  cyan: ["36", "39"],
  // With black text: readable on light and dark terminals.
  onGreen: ["30;42", "39;49"],
  onRed: ["30;41", "39;49"],
};

export type Paint = (text: string, ...styles: readonly Style[]) => string;

/** Where text goes, as far as its form is concerned. */
export interface Terminal {
  readonly isTTY?: boolean;
  readonly columns?: number;
}

/** FORCE_COLOR and NO_COLOR (no-color.org: any value that is not empty) come before what the stream is. */
export function wantsColour(stream: Terminal, environment: NodeJS.ProcessEnv = process.env): boolean {
  if ((environment.NO_COLOR ?? "") !== "") return false;
  if ((environment.FORCE_COLOR ?? "") !== "") return environment.FORCE_COLOR !== "0";
  return stream.isTTY === true && environment.TERM !== "dumb";
}

export function painter(on: boolean): Paint {
  if (!on) return (text) => text;
  return (text, ...styles) => {
    if (text === "") return text;
    const open = styles.map((style) => `\u001b[${CODES[style][0]}m`).join("");
    const close = styles
      .map((style) => `\u001b[${CODES[style][1]}m`)
      .reverse()
      .join("");
    return `${open}${text}${close}`;
  };
}

/** Columns a text takes; colour codes take none, wide characters (CJK, emoji) two, combining marks none. */
export function width(text: string): number {
  let columns = 0;
  for (const character of withoutColour(text)) {
    if (/\p{Mark}/u.test(character) || character === "\u200d") continue;
    columns += /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u.test(
      character,
    )
      ? 2
      : 1;
  }
  return columns;
}

export function withoutColour(text: string): string {
   
  return text.replace(/\u001b\[[0-9;]*m/g, "");
}

export function pad(text: string, columns: number, side: "left" | "right" = "right"): string {
  const space = " ".repeat(Math.max(0, columns - width(text)));
  return side === "right" ? text + space : space + text;
}
