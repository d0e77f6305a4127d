/** How the user would start this program again. */
import { basename, sep } from "node:path";
import { shownPath } from "./ui/places.ts";

interface Started {
  /** `process.argv[1]`. */
  readonly script: string;
  readonly cwd: string;
  readonly environment: NodeJS.ProcessEnv;
}

/** npx and npm scripts put a package's commands on the path only while they run; a link of a global installation is there always. */
export function ownCommand({ script, cwd, environment }: Started): string {
  const isLocal = script.includes(`${sep}node_modules${sep}.bin${sep}`);
  if (isLocal || ["exec", "run-script", "run"].includes(environment.npm_command ?? "")) return "npx flywheel";
  return basename(script) === "flywheel" ? "flywheel" : `node ${shownPath(cwd, script)}`;
}
