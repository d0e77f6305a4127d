/** The program in an answer: its fenced code blocks, as files. */

export type CodeLanguage = "python" | "javascript" | "typescript";

const NAMES: Readonly<Record<CodeLanguage, readonly string[]>> = {
  python: ["python", "python3", "py"],
  javascript: ["javascript", "js", "mjs", "cjs", "jsx", "node"],
  typescript: ["typescript", "ts", "mts", "tsx"],
};

export const ENDING: Readonly<Record<CodeLanguage, string>> = { python: "py", javascript: "js", typescript: "ts" };

interface Block {
  readonly info: string;
  readonly code: string;
}

/** What an answer may not bring: whatever changes how tests are found or run. Its code could not reach them; that it tried is told. */
const PROTECTED = /^(?:conftest\.py|(?:site|user)customize\.py|(?:pytest|tox)\.ini|setup\.cfg|pyproject\.toml|package\.json|.*\.pth)$/;

export interface AnswerCode {
  readonly files: Readonly<Record<string, string>>;
  /** Files that were dropped because they are the tests' own or would change how tests run. */
  readonly dropped: readonly string[];
}

/**
 * The files of an answer, or why there are none. Blocks that name a file (```` ```python shop/cart.py ````) are a project; of those that
 * do not, the last in the language is the one module `<module>.<ending>`. Without any fence the whole text is the module.
 */
export function answerCode(
  answer: string,
  { language, module, testFiles }: { readonly language: CodeLanguage; readonly module: string; readonly testFiles: readonly string[] },
): AnswerCode | { readonly none: string } {
  const blocks = fencedBlocks(answer);
  const main = `${module}.${ENDING[language]}`;
  if (blocks === null) return answer.trim() === "" ? { none: "the answer is empty" } : { files: { [main]: answer }, dropped: [] };
  const own = blocks.filter(({ info }) => {
    const [first = ""] = info.toLowerCase().split(/[\s:{]/);
    return first === "" || NAMES[language].includes(first) || first.includes(".");
  });
  const files: Record<string, string> = {};
  const dropped: string[] = [];
  for (const { info, code } of own) {
    const path = fileIn(info);
    if (path === null) continue;
    if (isProtected(path) || testFiles.includes(path)) dropped.push(path);
    else files[path] = code;
  }
  const last = own.filter(({ info }) => fileIn(info) === null).at(-1);
  if (last !== undefined && !Object.hasOwn(files, main)) files[main] = last.code;
  if (Object.keys(files).length > 0) return { files, dropped };
  return {
    none: dropped.length > 0 ? `the answer has only files of the tests: ${dropped.join(", ")}` : `the answer has no ${language} code block`,
  };
}

/** Blocks between lines of three or more backticks or tildes, read by line; one that is never closed ends with the text. Null: none. */
export function fencedBlocks(text: string): Block[] | null {
  const blocks: Block[] = [];
  let open: { readonly fence: string; readonly info: string; readonly lines: string[] } | null = null;
  for (const line of text.split("\n")) {
    const mark = /^\s{0,3}(`{3,}|~{3,})([^`]*)$/.exec(line);
    if (open !== null && mark !== null && mark[1]!.startsWith(open.fence) && mark[2]!.trim() === "") {
      blocks.push({ info: open.info, code: `${open.lines.join("\n")}\n` });
      open = null;
    } else if (open !== null) open.lines.push(line);
    else if (mark !== null) open = { fence: mark[1]!, info: mark[2]!.trim(), lines: [] };
  }
  if (open !== null) blocks.push({ info: open.info, code: `${open.lines.join("\n")}\n` });
  return blocks.length === 0 ? null : blocks;
}

function isProtected(path: string): boolean {
  const parts = path.split("/");
  return PROTECTED.test(parts.at(-1)!) || parts.includes("node_modules");
}

function fileIn(info: string): string | null {
  const words = info.split(/\s+/).map((word) => word.replace(/^(?:path|file|title|filename)=/, "").replace(/^["'{]+|["'}]+$/g, ""));
  const named = words.find((word) => /^[\w@-][\w@./-]*\.\w{1,8}$/.test(word) || /^[\w@./-]+\/[\w@./-]+$/.test(word));
  return named === undefined ? null : named.replace(/^\.\//, "");
}
