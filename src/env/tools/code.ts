/** A tool that runs code of the model in the sandbox and tells it what came out. */
import { z } from "zod";
import { openSandbox } from "../../compute/sandbox/open.ts";
import { limitsWith, type Sandbox, type SandboxLanguage, type SandboxLimits, type SandboxResult } from "../../compute/sandbox/sandbox.ts";
import { expected, ToolError } from "../../errors.ts";
import { defineTool } from "../../loop/rollout/tools.ts";
import type { Tool } from "../../types.ts";

export interface CodeToolOptions {
  /** Default "run_code". */
  readonly name?: string;
  /** Languages that the model may choose from; with one, it is not asked. Default Python. */
  readonly languages?: readonly SandboxLanguage[];
  /** Default: one of its own, opened at the first call. */
  readonly sandbox?: Sandbox;
  /** Of one call; default 5 s and 4,000 bytes of output each. Keep the tool deadline of the environment above the wall time. */
  readonly limits?: Partial<SandboxLimits>;
}

const TITLES: Readonly<Record<SandboxLanguage, string>> = {
  python: "Python 3",
  javascript: "JavaScript (Node.js)",
  typescript: "TypeScript (Node.js)",
};

/** Each call is a run of its own: no file, variable or process stays for the next. Without an isolation a call is an error, never a run. */
export function codeTool({ name = "run_code", languages = ["python"], sandbox, limits }: CodeToolOptions = {}): Tool {
  const [first, ...others] = languages;
  if (first === undefined || languages.some((language) => !Object.hasOwn(TITLES, language))) {
    throw new ToolError(expected("code tool: languages", `some of ${Object.keys(TITLES).join(", ")}`, JSON.stringify(languages)));
  }
  const bounds = limitsWith({ wallSeconds: 5, outputBytes: 4000, ...limits });
  let opened: Promise<Sandbox> | null = null;
  const run = async (source: string, language: SandboxLanguage, signal: AbortSignal): Promise<string> => {
    const place = sandbox ?? (await (opened ??= openSandbox()));
    if (!place.languages.includes(language)) throw new ToolError(`no ${TITLES[language]} on this machine`);
    return told(await place.run({ program: { language, source }, limits: bounds, signal }), bounds);
  };
  const code = z.string().min(1).max(100_000).describe("The whole program; print what you want to see.");
  const titles = languages.map((language) => TITLES[language]).join(" or ");
  const description = `Runs a program in ${titles} and returns what it prints. No network, and nothing is kept between calls.`;
  if (others.length === 0)
    return defineTool({
      name,
      description,
      parameters: z.strictObject({ code }),
      run: (args, { signal }) => run(args.code, first, signal),
    });
  return defineTool({
    name,
    description,
    parameters: z.strictObject({ language: z.enum(languages as [SandboxLanguage, ...SandboxLanguage[]]), code }),
    run: (args, { signal }) => run(args.code, args.language, signal),
  });
}

const ENDED = {
  wall: (limits: SandboxLimits) => `it took longer than ${limits.wallSeconds} s`,
  cpu: (limits: SandboxLimits) => `it used more than ${limits.cpuSeconds} s of processor time`,
  memory: (limits: SandboxLimits) => `it used more than ${limits.memoryMegabytes} MiB`,
  output: () => "it printed too much",
  signal: () => "it was ended by a signal",
} as const;

function told({ exit, stdout, stderr, truncated, killedBy }: SandboxResult, limits: SandboxLimits): string {
  const cut = (text: string, was: boolean): string => (was ? `${text}\n[cut: only the first ${limits.outputBytes} bytes are kept]` : text);
  const parts = [stdout === "" ? "" : cut(stdout, truncated.stdout), stderr === "" ? "" : `[stderr]\n${cut(stderr, truncated.stderr)}`];
  if (killedBy !== null) parts.push(`[the program was ended: ${ENDED[killedBy](limits)}]`);
  else if (exit !== 0) parts.push(`[exit code ${exit}]`);
  const text = parts.filter((part) => part !== "").join("\n");
  return text === "" ? "[no output; print what you want to see]" : text;
}
