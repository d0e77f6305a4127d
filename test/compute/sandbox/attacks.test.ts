import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openSandbox } from "../../../src/compute/sandbox/open.ts";
import type { Sandbox, SandboxRun } from "../../../src/compute/sandbox/sandbox.ts";

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await openSandbox({ slots: 32 });
}, 60_000);
afterAll(() => sandbox.close());

const limits = { wallSeconds: 12, cpuSeconds: 4 };
const python = (source: string, more: Partial<SandboxRun> = {}): Promise<Awaited<ReturnType<Sandbox["run"]>>> =>
  sandbox.run({ program: { language: "python", source }, limits, ...more });

/** Processes of this machine whose command line holds `mark`, from outside. */
function alive(mark: string): number {
  return readdirSync("/proc").filter((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(mark);
    } catch {
      return false;
    }
  }).length;
}

const attacks: Readonly<Record<string, (mark: string) => string>> = {
  "fork bomb": (mark) => `
import os, time
made = 0
for _ in range(300):
    try:
        if os.fork() == 0:
            time.sleep(30); os._exit(0)
        made += 1
    except OSError: break
print("made", made, "${mark}"[:0])`,
  "memory bomb": () => `
held = []
try:
    for _ in range(1024): held.append(bytearray(b"x" * (1 << 20)))
except MemoryError: pass
print("held", len(held))`,
  "memory of many processes": () => `
import os, time
r, w = os.pipe()
for _ in range(8):
    if os.fork() == 0:
        x = []
        for _ in range(128): x.append(bytearray(b"x" * (1 << 20)))
        os.write(w, b"a"); time.sleep(20); os._exit(0)
os.close(w)
print("all", len(os.read(r, 1)), flush=True)
time.sleep(2)
n = 0
while n < 8:
    got = os.read(r, 8)
    if not got: break
    n += len(got)
print("full", n + 1)`,
  "endless loop": () => "while True: pass",
  daemon: (mark) => `
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(s, signal.SIG_IGN)
    if os.fork() == 0:
        for fd in (0, 1, 2): os.close(fd)
        os.execv("/usr/bin/python3", ["/usr/bin/python3", "-c", "import time; time.sleep(40)", "${mark}"])
    os._exit(0)
time.sleep(0.3)
print("started")`,
  "file read": () => `
import os
for p in ("/etc/passwd", "/etc/shadow", "${homedir()}", "/root", "/home", "/var", "/proc/1/root/etc/passwd", "/sys", "/etc/hostname"):
    try: print("read", p, len(os.listdir(p) if os.path.isdir(p) else open(p, "rb").read()))
    except OSError: pass
print("done")`,
  "output flood": () => "import os\nwhile True: os.write(1, b'x' * 65536)",
  "file flood": () => `
import os
total = 0
for d in ("/job", "/tmp", "/dev/shm", "/dev", "/", "/box", "/usr", "/guest", "/proc"):
    for n in range(40):
        try:
            with open("%s/f%d" % (d, n), "wb") as f:
                for _ in range(40): total += f.write(b"x" * (1 << 20))
        except OSError: pass
print("wrote", total >> 20)`,
  privileges: () => `
import os, ctypes
libc = ctypes.CDLL(None, use_errno=True)
got = []
for name, f in (("setuid", lambda: os.setuid(0)), ("chroot", lambda: os.chroot("/tmp")),
    ("mount", lambda: libc.mount(b"x", b"/tmp", b"tmpfs", 0, None) == 0 or 1 / 0),
    ("unshare", lambda: libc.unshare(0x10000000) == 0 or 1 / 0), ("nice", lambda: os.nice(-5)), ("kill", lambda: os.kill(-1, 0) or 1 / 0)):
    try: f(); got.append(name)
    except (OSError, ZeroDivisionError): pass
print("got", got)`,
};

const outcome: Readonly<Record<string, (result: Awaited<ReturnType<Sandbox["run"]>>) => unknown>> = {
  "fork bomb": ({ stdout, killedBy }) => killedBy !== null || Number(/made (\d+)/.exec(stdout)?.[1]) < 24,
  "memory bomb": ({ stdout, killedBy }) => killedBy !== null || Number(/held (\d+)/.exec(stdout)?.[1]) < 512,
  // 8 x 128 MiB is more than the run has; without control groups each process stays within its own limit.
  "memory of many processes": ({ stdout, killedBy }) => killedBy !== null || !stdout.includes("full 8") || process.getuid?.() !== 0,
  "endless loop": ({ killedBy }) => killedBy === "cpu" || killedBy === "wall",
  daemon: ({ stdout }) => stdout === "started\n",
  "file read": ({ stdout }) => stdout === "done\n",
  "output flood": ({ killedBy, stdout, truncated }) => killedBy !== null && stdout.length === 65_536 && truncated.stdout,
  "file flood": ({ stdout, killedBy }) => killedBy !== null || Number(/wrote (\d+)/.exec(stdout)?.[1]) <= 32,
  privileges: ({ stdout }) => stdout === "got []\n",
};

test("each attack, 32 at once: none gets through, nothing is left, and the machine still answers", { timeout: 240_000 }, async () => {
  const names = Object.keys(attacks);
  const mark = `flywheel-test-${process.pid}-mark`;
  const before = Date.now();
  const runs = Array.from({ length: 32 }, async (_, index) => {
    const name = names[index % names.length]!;
    const result = await python(attacks[name]!(mark));
    return outcome[name]!(result) === true ? "held" : `${name}: ${JSON.stringify({ ...result, stdout: result.stdout.slice(0, 200) })}`;
  });
  expect(await Promise.all(runs)).toEqual(Array.from({ length: 32 }, () => "held"));
  expect(alive(mark)).toBe(0);
  expect(execFileSync("/bin/echo", ["still here"], { encoding: "utf8" })).toBe("still here\n");
  expect(Date.now() - before).toBeLessThan(120_000);
});

test("a service of the host, on loopback or by name, is out of reach", async () => {
  const server = createServer((_, response) => response.end("secret"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const { stdout } = await python(`
import socket
for host in ("127.0.0.1", "localhost", "::1", "169.254.169.254", "8.8.8.8"):
    try:
        s = socket.create_connection((host, ${port}), 1); print("connected", host)
    except OSError: pass
for kind in (socket.SOCK_RAW,):
    try: socket.socket(socket.AF_INET, kind, 1); print("raw")
    except OSError: pass
print("done")`);
  server.close();
  expect(stdout).toBe("done\n");
});

test("environment variables of this process do not enter", async () => {
  const { stdout } = await python(
    "import os\nprint(sorted(os.environ), open('/proc/self/environ').read().count('='), open('/proc/1/environ').read().split('\\0'))",
  );
  expect(stdout).toBe("['HOME', 'LANG', 'PATH', 'PWD'] 4 ['PATH=/usr/bin:/bin', 'PWD=/', '']\n");
});

test("what one run writes, no other sees, and the host's temporary folder is not there", async () => {
  const folder = mkdtempSync(join(tmpdir(), "flywheel-secret-"));
  writeFileSync(join(folder, "secret"), "x");
  const first = await python("open('/tmp/a', 'w').write('x'); open('/job/b', 'w').write('x')\nimport os\nprint(os.listdir('/tmp'))");
  const second = await python("import os\nprint(os.listdir('/tmp'), os.listdir('/job'), os.listdir('/dev/shm'))");
  rmSync(folder, { recursive: true });
  expect(first.stdout).toBe("['a']\n");
  expect(second.stdout).toBe("[] ['main.py'] []\n");
});

test("the package's own programs cannot be changed from inside", async () => {
  const { stdout } = await python(
    "import os\nfor p in ('/guest/python/wire.py', '/box/main.py', '/usr/bin/env'):\n  try: open(p, 'a'); print(p)\n  except OSError: pass",
  );
  expect(stdout).toBe("");
});
