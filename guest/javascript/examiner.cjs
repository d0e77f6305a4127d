/**
 * The examiner's side: runs the tests in a process that the candidate's code never enters. Results of node:test go through the reporter
 * (reporter.cjs); plain assertions are reported here. Both write to a channel that the candidate does not have.
 */
"use strict";
const assert = require("node:assert/strict");
const { readFileSync, writeSync } = require("node:fs");
const { basename, join } = require("node:path");
const { install, writeFiles } = require("./load.cjs");
const { remoteModule, runProgram, state } = require("./remote.cjs");

const REPORT = 5;
const job = JSON.parse(readFileSync(0, "utf8"));
globalThis[Symbol.for("flywheel.report")] = (line) => writeSync(REPORT, `${JSON.stringify({ ...line, nonce: job.nonce })}\n`);
const report = globalThis[Symbol.for("flywheel.report")];
globalThis[Symbol.for("flywheel.candidate")] = state;
writeFiles(job.files);

const names = new Set(job.modules);
const loaded = new Map();
install((request) => {
  if (request === "candidate") return { run: runProgram };
  if (!/^(?:\.{1,2}\/|\/)/.test(request)) return undefined;
  const stem = request.replace(/^(?:\.{1,2}\/)+/, "").replace(/\.[cm]?[jt]sx?$/, "");
  if (!names.has(stem)) return undefined;
  if (!loaded.has(stem)) loaded.set(stem, remoteModule(stem));
  return loaded.get(stem);
});

const described = (error) => (error instanceof Error ? `${error.name}: ${error.message}` : String(error)).slice(0, 500);

/** Each text is the body of an async function in which the candidate's exports and `assert` are names. */
async function plain() {
  const ids = job.tests.map((source, index) => `test ${index + 1}: ${source.trim().split("\n")[0].slice(0, 100)}`);
  report({ event: "plan", ids });
  const scope = new Map([["assert", assert]]);
  let problem = null;
  try {
    for (const name of job.modules) {
      loaded.set(name, remoteModule(name));
      const fits = (key) =>
        !(key in globalThis) && !scope.has(key) && key !== "default" && /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(key);
      for (const key of Object.keys(loaded.get(name)).filter(fits)) scope.set(key, loaded.get(name)[key]);
    }
  } catch (error) {
    problem = `importing the candidate's code: ${described(error)}`;
  }
  const AsyncFunction = (async () => undefined).constructor;
  for (const [index, source] of job.tests.entries()) {
    let failure = problem;
    if (failure === null) {
      try {
        await new AsyncFunction(...scope.keys(), `"use strict";\n{\n${job.setup ?? ""}\n${source}\n}`)(...scope.values());
      } catch (error) {
        failure = described(error);
      }
    }
    failure ??= state.gone;
    report({ event: "test", id: ids[index], passed: failure === null, message: failure ?? "" });
  }
  report({ event: "end" });
}

if (job.framework === "plain") {
  plain().then(() => process.exit(0));
} else {
  process.argv = [process.execPath, ...Object.keys(job.files)];
  for (const path of job.run) {
    try {
      require(join("/job", path));
    } catch (error) {
      report({ event: "test", id: `loading ${basename(path)}`, passed: false, message: described(error) });
    }
  }
}
