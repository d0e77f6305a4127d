/**
 * What `npm run quickstart`, `npm test`, `npm run build` and `npm run bench` do first: refuse an old Node, install what
 * package-lock.json names, compile what changed. Plain JavaScript without a dependency, because it runs before there is one.
 * Everything it says goes to stderr: stdout belongs to the command that follows.
 */
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, existsSync, lstatSync, mkdirSync, readFileSync, readdirSync, rmSync, unlinkSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";

export const root = join(dirname(fileURLToPath(import.meta.url)), "..");

/** What is compiled: the package alone, or everything that runs inside the repository (bench and recipes are not in the package). */
const builds = {
  package: { project: "tsconfig.build.json", output: "dist", folders: ["src"], main: join(root, "dist", "app", "cli", "main.js") },
  repository: {
    project: "tsconfig.recipes.json",
    output: join(".cache", "build"),
    folders: ["src", "recipes", "bench", "examples"],
    main: join(root, ".cache", "build", "bench", "main.js"),
  },
};

const uncompiled = "flywheel: the sources do not compile; see the lines above";

function say(line) {
  process.stderr.write(`${line}\n`);
}

function refuse(line, code = 1) {
  say(line);
  process.exit(code);
}

/** One line if `version` ("20.9.0") is below `minimum` ("20.10"), else null. */
export function nodeProblem(version, minimum) {
  const have = version.split(".").map(Number);
  const want = minimum.split(".").map(Number);
  for (let part = 0; part < want.length; part++) {
    if (have[part] > want[part]) return null;
    if (have[part] === want[part]) continue;
    return `Node.js: expected at least ${minimum}, got ${version}; install a newer one from https://nodejs.org`;
  }
  return null;
}

/** Name of a package that `installed` (npm's record in node_modules) lacks or has in another version than `lock`, else null. */
export function lockMismatch(lock, installed) {
  for (const [path, wanted] of Object.entries(lock.packages)) {
    if (path === "" || wanted.link === true) continue;
    const found = installed.packages[path];
    const mayBeAbsent = wanted.optional === true || wanted.devOptional === true || wanted.peer === true;
    if (found === undefined ? !mayBeAbsent : found.version !== wanted.version) return path.replace(/^.*node_modules\//, "");
  }
  return null;
}

function readJson(path) {
  return JSON.parse(readFileSync(path, "utf8"));
}

function missingPackage() {
  const record = join(root, "node_modules", ".package-lock.json");
  if (!existsSync(record)) return "everything";
  return lockMismatch(readJson(join(root, "package-lock.json")), readJson(record));
}

/** npm's own JavaScript when npm started us, so that no shell is involved and the same npm is used. */
function npmCommand() {
  const script = process.env.npm_execpath;
  if (script !== undefined && basename(script) === "npm-cli.js") return { command: process.execPath, before: [script], shell: false };
  return { command: "npm", before: [], shell: process.platform === "win32" };
}

function install() {
  const missing = missingPackage();
  if (missing === null) return;
  const folder = join(root, "node_modules");
  // A linked folder belongs to someone else: drop the link, never change what it points to.
  if (lstatSync(folder, { throwIfNoEntry: false })?.isSymbolicLink()) unlinkSync(folder);
  say(`flywheel: installing dependencies with npm ci (${missing === "everything" ? "first run" : `${missing} changed`}) ...`);
  const started = Date.now();
  const { command, before, shell } = npmCommand();
  const result = spawnSync(command, [...before, "ci", "--include=dev", "--loglevel=error"], {
    cwd: root,
    shell,
    stdio: ["ignore", 2, 2],
    env: { ...process.env, ONNXRUNTIME_NODE_INSTALL: "skip" },
  });
  if (result.status !== 0) {
    const got = result.error?.message ?? result.status ?? result.signal;
    refuse(`npm ci: expected exit code 0, got ${got}; see the lines above, check the network, try again`);
  }
  say(`flywheel: installed in ${((Date.now() - started) / 1000).toFixed(0)} s`);
}

function filesUnder(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? filesUnder(path) : [path];
  });
}

/** Hash of every source and of the compiler's settings: by content, because a checkout changes times at will. */
function sourceState({ project, folders }) {
  const settings = ["tsconfig.json", project, "package-lock.json"].map((name) => join(root, name));
  const sources = folders.map((folder) => join(root, folder)).filter((folder) => existsSync(folder)).flatMap(filesUnder);
  const hashes = {};
  for (const path of [...settings, ...sources.sort()]) {
    hashes[relative(root, path).split(sep).join("/")] = createHash("sha256").update(readFileSync(path)).digest("hex").slice(0, 16);
  }
  return hashes;
}

/** Compiles if anything changed since the last compilation; returns whether the output is now what the sources say. */
function compile(build, force) {
  const { project, output, main } = build;
  const stamp = join(root, output, ".stamp.json");
  const state = sourceState(build);
  const before = existsSync(stamp) ? readJson(stamp) : null;
  if (!force && before !== null && existsSync(main) && JSON.stringify(before) === JSON.stringify(state)) return true;
  const removed = before === null || Object.keys(before).some((path) => !(path in state));
  if (removed) rmSync(join(root, output), { recursive: true, force: true });
  else rmSync(stamp, { force: true });
  say("flywheel: compiling ...");
  const compiler = join(root, "node_modules", "typescript", "bin", "tsc");
  const result = spawnSync(process.execPath, [compiler, "-p", project], { cwd: root, stdio: ["ignore", 2, 2] });
  if (result.status !== 0) return false;
  if (existsSync(main)) chmodSync(main, 0o755);
  mkdirSync(dirname(stamp), { recursive: true });
  writeFileSync(stamp, JSON.stringify(state));
  return true;
}

/** Installs and compiles as needed. Returns false if the sources do not compile (the compiler has said why). */
export function setUp({ force = false, build = "package" } = {}) {
  const problem = nodeProblem(process.versions.node, readJson(join(root, "package.json")).engines.node.replace(/^\D+/, ""));
  if (problem !== null) refuse(problem);
  install();
  return compile(builds[build], force);
}

/** Runs Node on `script` with our stdio, hands signals on, resolves with the exit code (and dies of the child's signal). */
export function runNode(script, args) {
  const child = spawn(process.execPath, [script, ...args], { stdio: "inherit" });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
    process.on(signal, () => {
      // A terminal sends ctrl-C to the whole process group, so the child has it already.
      if (signal !== "SIGINT" || !process.stdin.isTTY) child.kill(signal);
    });
  }
  // npm hands a signal to its shell, which dies without handing it on: then we are orphaned, and so must not be the child.
  const parent = process.ppid;
  const watch = () => process.ppid !== parent && child.kill("SIGTERM");
  if (process.env.npm_lifecycle_event !== undefined) setInterval(watch, 500).unref();
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("exit", (code, signal) => {
      if (signal === null) return resolve(code);
      process.removeAllListeners(signal);
      process.kill(process.pid, signal);
    });
  });
}

/** Sets up, then runs one command of the command line with the arguments that this script was given. */
export async function runCommand(name) {
  if (!setUp()) refuse(uncompiled);
  process.exitCode = await runNode(builds.package.main, [name, ...process.argv.slice(2)]);
}

/** Sets up what is outside the package too, then runs one of its compiled files (`bench/main.js`) with the given arguments. */
export async function runRepository(file, args = process.argv.slice(2)) {
  if (!setUp({ build: "repository" })) refuse(uncompiled);
  process.exitCode = await runNode(join(root, builds.repository.output, file), args);
}
