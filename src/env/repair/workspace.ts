/** What an agent does in a repository: reads, writes, runs. All that runs is in the sandbox, each time in a fresh copy. */
import { checkFiles, type Sandbox, type SandboxResult } from "../../compute/sandbox/sandbox.ts";
import { expected } from "../../errors.ts";
import type { Turn } from "../../types.ts";
import { historyOf, type Repair } from "./repository.ts";

export type Files = Readonly<Record<string, string>>;

const WRITTEN = "written: ";
const limits = { wallSeconds: 10, outputBytes: 4000 } as const;

/** The files with one written; a path that leaves the folder, or is git's own, is refused. */
export function write(files: Files, path: string, content: string): { readonly files: Files; readonly told: string } {
  if (path.split("/").some((part) => part.toLowerCase() === ".git")) throw new Error(expected("path", "a file of the project", path));
  const after = { ...files, [path]: content };
  checkFiles(after);
  return { files: after, told: `${WRITTEN}${path}` };
}

/** The files after these turns: what was told to be written is. */
export function filesAfter({ files }: Repair, turns: readonly Turn[]): Files {
  const calls = turns.flatMap(({ message, replies }) =>
    (message.toolCalls ?? []).filter(({ id, name, arguments: { path } }) => {
      const reply = replies.find(({ toolCallId }) => toolCallId === id);
      return name === "write_file" && reply?.content === `${WRITTEN}${path as string}`;
    }),
  );
  return calls.reduce<Files>((before, { arguments: { path, content } }) => ({ ...before, [path as string]: content as string }), files);
}

interface Place {
  readonly sandbox: Sandbox;
  readonly signal: AbortSignal;
}

/** Runs the public tests as they were at first, whatever has become of their file. */
export async function runTests(repair: Repair, files: Files, { sandbox, signal }: Place): Promise<string> {
  const { language, publicTest } = repair;
  const test = repair.files[publicTest]!;
  const program = language === "python" ? { command: ["/usr/bin/python3", publicTest] } : ({ language, source: test } as const);
  return told(await sandbox.run({ files: { ...files, [publicTest]: test }, program, limits, signal }));
}

const HISTORY = ".flywheel-history";
/** Makes the repository anew: three commits and nothing else, no reflog, no remote; the files stand in the working tree. */
const SCRIPT = [
  "git init -q -b main",
  "git config core.logAllRefUpdates false",
  `git fast-import --quiet < ${HISTORY}`,
  `rm ${HISTORY}`,
  "git read-tree HEAD",
  'exec git --no-pager "$@"',
].join(" && ");

/** Runs git on the repository; what it changes is gone afterwards. */
export async function runGit(
  repair: Repair,
  { files, args, sandbox, signal }: Place & { readonly files: Files; readonly args: readonly string[] },
): Promise<string> {
  const program = { command: ["/bin/sh", "-c", SCRIPT, "sh", ...args] };
  return told(await sandbox.run({ files: { ...files, [HISTORY]: historyOf(repair) }, program, limits, signal }));
}

function told({ exit, stdout, stderr, killedBy }: SandboxResult): string {
  const end = killedBy !== null ? `[ended by ${killedBy}]` : exit === 0 ? "" : `[exit code ${exit}]`;
  const text = [stdout.trimEnd(), stderr.trimEnd(), end].filter((part) => part !== "").join("\n");
  return text === "" ? "[no output]" : text;
}
