/**
 * Loads modules that were compiled to CommonJS under the names they were written with: `./util`, `./util.js` and `./util.ts` all find
 * whichever of them is there.
 */
"use strict";
const Module = require("node:module");
const { mkdirSync, existsSync, readFileSync, writeFileSync } = require("node:fs");
const { dirname, join } = require("node:path");

const ENDINGS = [".ts", ".tsx", ".mts", ".cts", ".mjs", ".cjs", ".jsx", ".js"];

/** `answer(request)` may give the exports of a module instead of loading it; undefined loads it. */
function install(answer = () => undefined) {
  for (const ending of ENDINGS) {
    Module._extensions[ending] = (module, path) => module._compile(readFileSync(path, "utf8"), path);
  }
  const resolve = Module._resolveFilename;
  Module._resolveFilename = function (request, parent, ...rest) {
    try {
      return resolve.call(this, request, parent, ...rest);
    } catch (error) {
      if (!request.startsWith(".") || parent?.filename == null) throw error;
      const base = join(dirname(parent.filename), request);
      const stem = base.replace(/\.[cm]?[jt]sx?$/, "");
      const found = ENDINGS.map((ending) => stem + ending).find((path) => existsSync(path));
      if (found === undefined) throw error;
      return found;
    }
  };
  const load = Module._load;
  Module._load = function (request, parent, ...rest) {
    const given = answer(request, parent);
    return given === undefined ? load.call(this, request, parent, ...rest) : given;
  };
}

function writeFiles(files) {
  for (const [path, content] of Object.entries(files)) {
    const full = join("/job", path);
    mkdirSync(dirname(full), { recursive: true });
    writeFileSync(full, content);
  }
}

/** The first of `/job/<name>.<ending>` that is there. */
function findModule(name) {
  const stem = join("/job", name).replace(/\.[cm]?[jt]sx?$/, "");
  return ENDINGS.map((ending) => stem + ending).find((path) => existsSync(path)) ?? null;
}

/** Loads a file as the one that `require.main` names. */
function runMain(path) {
  Module._load(path, null, true);
}

module.exports = { findModule, install, runMain, writeFiles };
