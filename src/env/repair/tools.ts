/** The tools of a repair. */
import { z } from "zod";
import type { Sandbox } from "../../compute/sandbox/sandbox.ts";
import { defineTool } from "../../loop/rollout/tools.ts";
import type { Task, Tool, ToolContext } from "../../types.ts";
import type { Repair } from "./repository.ts";
import { runGit, runTests, write, type Files } from "./workspace.ts";

const repairOf = (task: Task): Repair => task.data as unknown as Repair;
const filesOf = ({ state, task }: ToolContext): Files => (state.get("files") as Files | undefined) ?? repairOf(task).files;

const path = z.string().min(1);
const nothing = z.strictObject({});

export function repairTools(sandbox: Sandbox): readonly Tool[] {
  return [
    defineTool({
      name: "list_files",
      description: "Lists the files.",
      parameters: nothing,
      run: (_args, context) => Object.keys(filesOf(context)).sort().join("\n"),
    }),
    defineTool({
      name: "read_file",
      description: "Reads a file.",
      parameters: z.strictObject({ path }),
      run: (args, context) => {
        const files = filesOf(context);
        const found = Object.hasOwn(files, args.path) ? files[args.path] : undefined;
        if (found !== undefined) return found;
        throw new Error(`no file ${args.path}; files: ${Object.keys(files).join(", ")}`);
      },
    }),
    defineTool({
      name: "write_file",
      description: "Writes a file whole.",
      parameters: z.strictObject({ path, content: z.string().max(20_000) }),
      run: (args, context) => {
        const { files, told } = write(filesOf(context), args.path, args.content);
        context.state.set("files", files);
        return told;
      },
    }),
    defineTool({
      name: "run_tests",
      description: "Runs the public tests.",
      parameters: nothing,
      run: (_args, context) => runTests(repairOf(context.task), filesOf(context), { sandbox, signal: context.signal }),
    }),
    defineTool({
      name: "git",
      description: "Runs git; what it changes is not kept.",
      parameters: z.strictObject({ args: z.array(z.string()).min(1).max(16) }),
      run: ({ args }, context) => runGit(repairOf(context.task), { files: filesOf(context), args, sandbox, signal: context.signal }),
    }),
  ];
}
