/** An agent that is a command: a process of its own for each episode, told of it by environment variables. */
import { spawn } from "node:child_process";
import { agentRollouts, type Agent, type AgentRollouts } from "./agent.ts";

/** Characters of its last words that a failure is told with. */
const lastWords = 400;

interface CommandOptions {
  /** Where it runs. */
  readonly cwd: string;
  /** What it finds besides what it is told. */
  readonly environment: NodeJS.ProcessEnv;
}

/**
 * Runs `command` in a shell. OPENAI_BASE_URL and OPENAI_API_KEY lead a client of OpenAI's to its session; FLYWHEEL_TASK is the task as
 * JSON (id, messages, data), FLYWHEEL_SESSION the session, FLYWHEEL_REWARD_URL where it may post a reward. Exit code 0 ends the
 * episode; any other is its failure. With the episode the command's whole process group ends.
 */
export function commandAgent(command: string, { cwd, environment }: CommandOptions): Agent {
  return ({ baseURL, apiKey, session, rewardURL, task, signal }) =>
    new Promise((resolve, reject) => {
      const child = spawn(command, {
        cwd,
        shell: true,
        detached: true,
        stdio: ["ignore", "ignore", "pipe"],
        env: {
          ...environment,
          OPENAI_BASE_URL: baseURL,
          OPENAI_API_KEY: apiKey,
          FLYWHEEL_SESSION: session,
          FLYWHEEL_REWARD_URL: rewardURL,
          FLYWHEEL_TASK: JSON.stringify({ id: task.id, messages: task.prompt, data: task.data }),
        },
      });
      let words = "";
      child.stderr.on("data", (chunk: Buffer) => (words = (words + chunk.toString()).slice(-lastWords)));
      const kill = (): void => endGroup(child.pid);
      signal.addEventListener("abort", kill, { once: true });
      child.on("error", reject);
      child.on("close", (code, by) => {
        kill(); // what it left behind
        signal.removeEventListener("abort", kill);
        if (code === 0) resolve();
        else
          reject(new Error(`${command}: ${code === null ? `ended by ${by}` : `exit code ${code}`}: ${words.trim().replaceAll("\n", " ")}`));
      });
    });
}

/** Rollouts in which the command plays. */
export function commandRollouts(command: string, options: CommandOptions): AgentRollouts {
  return agentRollouts(commandAgent(command, options));
}

function endGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It has ended already.
  }
}
