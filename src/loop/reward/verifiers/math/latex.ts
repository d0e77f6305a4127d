/** LaTeX and Unicode to one plain notation: what only changes how a formula looks goes away. */

const SYMBOLS: Readonly<Record<string, string>> = {
  "−": "-",
  "–": "-",
  "—": "-",
  "×": "\\times ",
  "·": "\\cdot ",
  "⋅": "\\cdot ",
  "∙": "\\cdot ",
  "÷": "/",
  "∕": "/",
  "⁄": "/",
  "≤": "\\le ",
  "⩽": "\\le ",
  "≥": "\\ge ",
  "⩾": "\\ge ",
  "≠": "\\ne ",
  "≈": "\\approx ",
  "±": "\\pm ",
  "∓": "\\mp ",
  "∞": "\\infty ",
  π: "\\pi ",
  "√": "\\sqrt ",
  "∪": "\\cup ",
  "∩": "\\cap ",
  "∈": "\\in ",
  "∉": "\\notin ",
  "∅": "\\emptyset ",
  ℝ: "\\mathbb{R}",
  ℤ: "\\mathbb{Z}",
  ℕ: "\\mathbb{N}",
  ℚ: "\\mathbb{Q}",
  ℂ: "\\mathbb{C}",
  "°": "^{\\circ}",
  "∀": "\\forall ",
  "∃": "\\exists ",
  "→": "\\to ",
  "⇒": "\\implies ",
  "∨": "\\vee ",
  "∧": "\\wedge ",
  "½": "\\frac{1}{2}",
  "¼": "\\frac{1}{4}",
  "¾": "\\frac{3}{4}",
  "⅓": "\\frac{1}{3}",
  "⅔": "\\frac{2}{3}",
  "⅛": "\\frac{1}{8}",
  α: "\\alpha ",
  β: "\\beta ",
  γ: "\\gamma ",
  δ: "\\delta ",
  ε: "\\epsilon ",
  θ: "\\theta ",
  λ: "\\lambda ",
  μ: "\\mu ",
  ρ: "\\rho ",
  σ: "\\sigma ",
  τ: "\\tau ",
  φ: "\\phi ",
  ω: "\\omega ",
  "∑": "\\sum ",
  "∏": "\\prod ",
  "⌊": "\\lfloor ",
  "⌋": "\\rfloor ",
  "⌈": "\\lceil ",
  "⌉": "\\rceil ",
  "⟨": "\\langle ",
  "⟩": "\\rangle ",
  "’": "'",
  "′": "'",
};
const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ";
const RAISED_AS = "0123456789+-n";
const LOWERED = "₀₁₂₃₄₅₆₇₈₉";

/** Spacing, sizes and styles; each stands for nothing. */
const NOTHING = new RegExp(
  String.raw`\\(?:left|right|middle|[bB]igg?[lrm]?|displaystyle|textstyle|scriptstyle|limits|nolimits|nonumber|hfill|quad|qquad` +
    String.raw`|phantom\{[^{}]*\})(?![A-Za-z])\.?`,
  "g",
);
const SPACES = /\\[,;:! ]|~|\\(?:enspace|thinspace|medspace|thickspace)(?![A-Za-z])|[\u00a0\u2000-\u200b\u202f\u205f\u3000]/g;
const STYLES = /\\(?:mathbf|boldsymbol|bm|mathit|mathsf|mathtt|mathcal|mathscr|mathfrak|vec|hat|tilde|underline|ensuremath)(?![A-Za-z])/g;
const TEXTS = /\\(?:text|textbf|textit|textrm|textsf|texttt|textnormal|mbox|hbox|mathrm|operatorname\*?)\s*\{/g;
/** Words that stand for a relation, in one spelling. */
const SPELLINGS: readonly (readonly [RegExp, string])[] = [
  [/\\[dtc]frac(?![A-Za-z])/g, "\\frac"],
  [/\\[dt]binom(?![A-Za-z])/g, "\\binom"],
  [/\\(?:leq|leqslant|leqq)(?![A-Za-z])/g, "\\le "],
  [/\\(?:geq|geqslant|geqq)(?![A-Za-z])/g, "\\ge "],
  [/\\(?:neq|not\s*=)(?![A-Za-z])/g, "\\ne "],
  [/\\lt(?![A-Za-z])/g, "<"],
  [/\\gt(?![A-Za-z])/g, ">"],
  [/<=/g, "\\le "],
  [/>=/g, "\\ge "],
  [/!=(?!=)/g, "\\ne "],
  [/==/g, "="],
  [/\*\*/g, "^"],
  [/\+\/?-(?=\s*[\d\\(])/g, "\\pm "],
  [/\\(?:varnothing|O)(?![A-Za-z])/g, "\\emptyset "],
  [/\\(?:dots|ldots|cdots|dotsc|dotsb)(?![A-Za-z])/g, "\\ldots "],
  [/\\colon(?![A-Za-z])/g, ":"],
  [/\\(?:lbrace|\{)/g, "\\{"],
  [/\\(?:rbrace|\})/g, "\\}"],
  [/\\(?:lvert|rvert|vert|mid)(?![A-Za-z])|\\\|/g, "|"],
  [/\\(?:degree|deg)(?![A-Za-z])/g, "^{\\circ}"],
  [/\\(?:mathbb|mathbf|Bbb)\s*\{?\s*([RZNQC])\s*\}?/g, "\\mathbb{$1}"],
  [/\\(?:dollar|pounds|euro)(?![A-Za-z])/g, ""],
];

/** One notation for what means the same; linear in the length of the text. */
export function cleanLatex(source: string): string {
  let text = "";
  for (const character of source) text += oneCharacter(character);
  text = text
    .replace(/\\\\(?:\[[^\]]{0,20}\])?/g, "\\cr ")
    .replace(/\^\{?\s*\\circ\s*\}?/g, "^{\\circ}")
    .replace(/[⟨⟩]/g, "")
    .replace(/\\\$|[$€£¥]/g, " ")
    .replace(/\\%/g, "%")
    .replace(/\{,\}/g, "")
    .replace(/(\d)\\[,! ](?=\d{3}(?!\d))/g, "$1")
    .replace(/\\\(|\\\)|\\\[|\\\]/g, " ")
    .replace(SPACES, " ")
    .replace(NOTHING, " ");
  for (const [pattern, spelling] of SPELLINGS) text = text.replace(pattern, spelling);
  text = text
    .replace(STYLES, " ")
    .replace(TEXTS, "\\text{")
    .replace(/\*\*|__|`/g, " ");
  return trimEnds(text);
}

function oneCharacter(character: string): string {
  if (character <= "~") return character;
  const symbol = Object.hasOwn(SYMBOLS, character) ? SYMBOLS[character] : undefined;
  if (symbol !== undefined) return symbol;
  const raised = RAISED.indexOf(character);
  if (raised >= 0) return `^{${RAISED_AS[raised]}}`;
  const lowered = LOWERED.indexOf(character);
  return lowered >= 0 ? `_{${lowered}}` : character;
}

/** Without white space at either end, and without a full stop, comma, colon or semicolon at the end. */
function trimEnds(text: string): string {
  let end = text.length;
  while (end > 0 && /[\s.,;:]/.test(text[end - 1]!)) end--;
  // "5!" ends in a factorial and stays.
  return text.slice(0, end).trimStart();
}

/** The text between the brace at `open` and its partner; null if it has none. */
export function braced(text: string, open: number): { readonly inside: string; readonly end: number } | null {
  let depth = 0;
  for (let at = open; at < text.length; at++) {
    const character = text[at];
    if (character === "\\") at++;
    else if (character === "{") depth++;
    else if (character === "}" && --depth === 0) return { inside: text.slice(open + 1, at), end: at + 1 };
  }
  return null;
}
