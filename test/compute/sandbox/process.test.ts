/** What happens to the runs of a process that is killed, and to a process that has no isolation. */
import { spawn } from "node:child_process";
import { chmodSync, cpSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, expect, test } from "vitest";
import { openSandbox } from "../../../src/compute/sandbox/open.ts";
import { transpiled } from "../../fakes/transpiled.ts";

const source = transpiled(["compute/sandbox", "errors.ts"]);
const root = dirname(source);
cpSync("guest", join(root, "guest"), { recursive: true });
chmodSync(root, 0o755);
afterAll(() => rmSync(root, { recursive: true, force: true }));

function alive(mark: string): number {
  return readdirSync("/proc").filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(mark);
    } catch {
      return false;
    }
  }).length;
}

test("when the process is killed, its runs die with it", { timeout: 60_000 }, async () => {
  const mark = `flywheel-orphan-${process.pid}`;
  const script = `
    import { openSandbox } from ${JSON.stringify(join(source, "compute/sandbox/open.js"))};
    const sandbox = await openSandbox({ slots: 4 });
    const daemon = "import os\\nif os.fork() == 0:\\n  os.setsid()\\n" +
      "os.execv('/usr/bin/python3', ['/usr/bin/python3', '-c', 'import time; time.sleep(60)', '${mark}'])";
    for (let i = 0; i < 4; i++) void sandbox.run({ program: { language: "python", source: daemon }, limits: { wallSeconds: 60 } });
    setTimeout(() => console.log("running"), 1500);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: ["ignore", "pipe", "inherit"] });
  await new Promise((resolve) => child.stdout.once("data", resolve));
  expect(alive(mark)).toBeGreaterThanOrEqual(4);
  child.kill("SIGKILL");
  for (let waited = 0; waited < 5000 && alive(mark) > 0; waited += 100) await sleep(100);
  expect(alive(mark)).toBe(0);
});

test("where nothing can be isolated, opening refuses and says why", { timeout: 60_000 }, async () => {
  // Inside an isolation there are no more user namespaces, so this is a machine without any.
  await using sandbox = await openSandbox({ slots: 1 });
  const script = `
    import { openSandbox } from "/package/src/compute/sandbox/open.js";
    await openSandbox().then(() => console.log("opened"), (error) => console.log(error.name, error.message));`;
  const { stdout, stderr } = await sandbox.run({
    program: { command: ["/runtime/node", "--input-type=module", "-e", script] },
    mounts: { "/package": root, "/runtime/node": process.execPath },
    limits: { memoryMegabytes: 2048, processes: 64 },
  });
  expect(stderr).toBe("");
  const [first, second] = [
    "sandbox: expected an isolation for untrusted code, got none: bubblewrap cannot isolate here: ",
    "; nothing is run without one\n",
  ];
  expect([stdout.startsWith(`SandboxError ${first}`), stdout.endsWith(second)]).toEqual([true, true]);
});
