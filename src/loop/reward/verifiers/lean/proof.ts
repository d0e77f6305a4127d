/**
 * The proof in an answer, and the file that is checked. The statement in that file is the task's own; the answer gives what follows ":="
 * and nothing else. A proof that could run code while it is checked, add an axiom or change what a command means is refused before.
 */
import { fencedBlocks } from "../code/answer.ts";

/** Words that are no part of a proof: commands, metaprograms, and ways around the kernel. */
const FORBIDDEN = new Set(
  `
sorry sorryAx admit stop native_decide axiom axioms unsafe unsafeCast opaque implemented_by extern csimp initialize builtin_initialize
macro macro_rules syntax declare_syntax_cat elab elab_rules notation notation3 infix infixl infixr prefix postfix
run_cmd run_tac run_elab run_meta by_elab run_conv simproc dsimproc simproc_decl set_option debug.skipKernelTC skipKernelTC dbg_trace
theorem lemma def abbrev instance structure inductive class namespace section end mutual private protected attribute export universe
variable import deriving local scoped include omit seal unseal example noncomputable partial alias irreducible_def
ofReduceBool ofReduceNat reduceBool reduceNat trustCompiler lcProof lcUnreachable lcAny ptrAddrUnsafe unsafeIO unsafeBaseIO dbgTrace
`
    .trim()
    .split(/\s+/),
);

interface LeanGold {
  readonly statement: string;
  /** Imports and `open` lines before it. */
  readonly header: string;
}

/** The proof, from ":=" (or "|") on, or why the answer has none. */
export function proofIn(answer: string, { statement, header }: LeanGold): { readonly proof: string } | { readonly none: string } {
  const blocks = fencedBlocks(answer);
  const code = blocks === null ? answer : blocks.filter(({ info }) => /^(?:|lean4?\b.*)$/i.test(info)).at(-1)?.code;
  if (code === undefined || code.trim() === "")
    return { none: blocks === null ? "the answer is empty" : "the answer has no lean code block" };
  const known = new Set(header.split("\n").map((line) => line.trim()));
  const lines = code.split("\n");
  while (lines.length > 0 && (lines[0]!.trim() === "" || known.has(lines[0]!.trim()))) lines.shift();
  const text = lines.join("\n").trim();
  const restated = afterStatement(text, statement);
  const proof =
    restated ?? (/^(?::=|\|)/.test(text) ? text : /^(?:theorem|lemma|example|import|open|def)\b/.test(text) ? null : `:= ${text}`);
  if (proof === null) return { none: "the answer does not restate the theorem word for word" };
  const problem = refusal(proof);
  return problem === null ? { proof } : { none: problem };
}

/** What follows the statement, if the text begins with it up to white space. */
function afterStatement(text: string, statement: string): string | null {
  const words = bareStatement(statement).split(/\s+/);
  let at = 0;
  for (const word of words) {
    while (/\s/.test(text[at] ?? "")) at++;
    if (!text.startsWith(word, at)) return null;
    at += word.length;
  }
  const rest = text.slice(at).trimStart();
  return /^(?::=|\|)/.test(rest) ? rest : null;
}

/** A statement without ":= by sorry" or a part of that at its end. */
function bareStatement(statement: string): string {
  return statement
    .trim()
    .replace(/:=\s*(?:by\s*)?(?:sorry\s*)?$/, "")
    .trim();
}

/** Why a proof text is not checked, or null. Comments and strings are not read; guillemets do not hide a word. */
function refusal(proof: string): string | null {
  if (proof.length > 100_000) return `the proof has ${proof.length} characters; at most 100000 are checked`;
  const bare = withoutComments(proof);
  if (bare === null) return "the proof has a comment or a string that does not end, or ends none";
  // A part of a longer name ("Polynomial.end") is no command; what it may name, the axioms tell.
  const words = bare.replace(/[«»]/g, "").match(/(?<![\p{L}\p{N}_!?'₀-₉.])[\p{L}_][\p{L}\p{N}_!?'₀-₉]*/gu) ?? [];
  const found = words.find((word) => FORBIDDEN.has(word));
  if (found !== undefined) return `the proof uses "${found}", which is no part of a proof`;
  if (/\b(?:eval|decl_name)%/.test(bare)) return "the proof runs code while it is checked";
  if (/#[\p{L}_]/u.test(bare.replace(/#v\[/g, ""))) return "the proof has a # command";
  if (bare.includes("@[")) return "the proof has an attribute";
  return null;
}

/** The text with spaces for comments (which nest) and strings; null where one does not end. */
function withoutComments(text: string): string | null {
  let out = "";
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const two = text.slice(at, at + 2);
    if (two === "/-") {
      depth++;
      at++;
    } else if (two === "-/") {
      if (--depth < 0) return null;
      at++;
      out += " ";
    } else if (depth > 0) continue;
    else if (two === "--") {
      while (at < text.length && text[at] !== "\n") at++;
      out += "\n";
    } else if (text[at] === '"') {
      const end = stringEnd(text, at);
      if (end === null) return null;
      // An interpolated string holds code.
      if (/[sfm]!$/.test(text.slice(Math.max(0, at - 2), at))) out += text.slice(at, end);
      at = end - 1;
      out += " ";
    } else out += text[at];
  }
  return depth === 0 ? out : null;
}

function stringEnd(text: string, start: number): number | null {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === '"') return at + 1;
  }
  return null;
}

export interface ProofFile {
  readonly text: string;
  /** Full name of the theorem; unknown to the answer. */
  readonly name: string;
  /** Line, from 1, of the command that prints its axioms. */
  readonly axiomsLine: number;
  /** Lines of the header, from 1. */
  readonly headerLines: number;
}

/** The file to check. `space` is a name that the answer cannot know. */
export function proofFile({ statement, header }: LeanGold, proof: string, space: string): ProofFile | null {
  const match = /^(?:theorem|lemma)\s+([^\s({[:⦃]+)/.exec(bareStatement(statement));
  if (match === null) return null;
  const head = header.trim() === "" ? [] : header.trim().split("\n");
  const before = [
    ...head,
    `namespace ${space}`,
    ...`theorem${bareStatement(statement).replace(/^(?:theorem|lemma)/, "")} ${proof}`.split("\n"),
    "",
  ];
  const name = `${space}.${match[1]!.replace(/\.$/, "")}`;
  return { text: [...before, `#print axioms ${name}`, ""].join("\n"), name, axiomsLine: before.length + 1, headerLines: head.length };
}
