/**
 * The candidate's side: loads the candidate's modules in this process and answers what the examiner asks of them. It knows no test and no
 * expected value; whatever the code here does to this process, it can only change what its own functions return.
 */
"use strict";
const { readFileSync } = require("node:fs");
const { spawnSync } = require("node:child_process");
const { join } = require("node:path");
const wire = require("./wire.cjs");
const { findModule, install, writeFiles } = require("./load.cjs");

const objects = [];
const numbers = new Map();
const locals = new Map();
const localByNumber = new Map();
const output = [];

function reference(value) {
  if (locals.has(value)) return { t: "yours", v: locals.get(value) };
  let number = numbers.get(value);
  if (number === undefined) {
    number = objects.push(value) - 1;
    numbers.set(value, number);
  }
  if (typeof value === "function") {
    // Arrow functions and methods have no prototype; they cannot be classes.
    return { t: "function", v: number, name: String(value.name), makes: value.prototype !== undefined };
  }
  if (value instanceof Error) return { t: "error", v: number, ...described(value) };
  const kind = Object.getPrototypeOf(value)?.constructor;
  const operators = [Symbol.iterator, Symbol.asyncIterator].filter((symbol) => symbol in value).map((symbol) => symbol.description);
  return { t: "thing", v: number, name: String(kind?.name ?? "Object"), operators, list: Array.isArray(value) };
}

function described(error) {
  const base = [...wire.ERRORS].find(([name, kind]) => error instanceof kind && name !== "Error")?.[0] ?? "Error";
  const kind = Object.getPrototypeOf(error)?.constructor;
  const own = wire.ERRORS.get(kind?.name) === kind ? null : typeof kind === "function" ? encode(kind) : null;
  const text = (part) => {
    try {
      return String(part).slice(0, 2000);
    } catch {
      return "";
    }
  };
  return { name: text(error.name), message: text(error.message), base, own, code: typeof error.code === "string" ? error.code : null };
}

const encode = (value) => wire.encode(value, reference);
const decode = (message) => wire.decode(message, found);

function found(message) {
  const { t, v } = message;
  if (t === "mine") return objects[v];
  if (t === "local") return localByNumber.get(v) ?? local(v, message.call === true);
  throw new wire.WireError("unknown tag");
}

/** An object of the examiner: a callback, or a test's own object, of which public properties can be read and called. */
function local(number, callable) {
  const ask = (message) => {
    wire.send({ ...message, id: number });
    return answerOf(wire.receive());
  };
  const handler = {
    apply: (_target, _self, args) => ask({ op: "call", args: args.map(encode) }),
    get: (target, name) => (typeof name === "symbol" || name === "then" ? Reflect.get(target, name) : ask({ op: "get", name })),
    set: (_target, name, value) => {
      ask({ op: "set", name: String(name), value: encode(value) });
      return true;
    },
  };
  const made = callable ? new Proxy(function local() {}, { apply: handler.apply }) : new Proxy({}, { get: handler.get, set: handler.set });
  locals.set(made, number);
  localByNumber.set(number, made);
  return made;
}

class Yours extends Error {}

function answerOf(reply) {
  while (wire.hasOwn(reply, "op")) {
    wire.send(performNow(reply));
    reply = wire.receive();
  }
  if (wire.hasOwn(reply, "ok")) return decode(reply.ok);
  const error = new (wire.ERRORS.get(reply.raise.name) ?? Yours)(reply.raise.message);
  yours.set(error, reply.raise.yours);
  throw error;
}
const yours = new WeakMap();

function raised(error) {
  const own = typeof error === "object" && error !== null ? yours.get(error) : undefined;
  if (own !== undefined) return { raise: { yours: own } };
  try {
    return { raise: { value: error instanceof Error ? reference(error) : encode(error) } };
  } catch {
    return {
      raise: {
        value: { t: "error", v: -1, name: "Error", message: "what was thrown cannot be sent", base: "Error", own: null, code: null },
      },
    };
  }
}

function withOutput(answer) {
  const text = output.splice(0).join("");
  return text === "" ? answer : { ...answer, out: text.slice(0, 65_536) };
}

/** Within a call of the examiner's there is no turn of the event loop: a promise then goes back as an object. */
function performNow(request) {
  try {
    return withOutput(answerWith(request, perform(request)));
  } catch (error) {
    if (error instanceof wire.Closed) process.exit(0);
    return withOutput(raised(error));
  }
}

async function performSoon(request) {
  try {
    const value = perform(request);
    if (value instanceof Promise) {
      // Settled before it is told, so that the examiner needs no event loop of this process.
      const settled = await value.then(
        (result) => ({ promise: encode(result) }),
        (error) => ({ rejected: raised(error).raise }),
      );
      return withOutput(settled);
    }
    return withOutput(answerWith(request, value));
  } catch (error) {
    if (error instanceof wire.Closed) process.exit(0);
    return withOutput(raised(error));
  }
}

const lastArgs = new WeakMap();
function answerWith(request, value) {
  const answer = { ok: encode(value) };
  const args = lastArgs.get(request) ?? [];
  const changed = [];
  for (const [index, arg] of args.entries()) {
    if (arg === null || typeof arg !== "object" || locals.has(arg) || numbers.has(arg)) continue;
    const after = encode(arg);
    if (JSON.stringify(after) !== JSON.stringify(request.args[index])) changed.push([index, after]);
  }
  return changed.length === 0 ? answer : { ...answer, changed };
}

function perform(request) {
  const { op } = request;
  if (op === "import") {
    const path = findModule(request.name);
    if (path === null) throw new Error(`the answer has no module ${request.name}`);
    return namespace(require(path));
  }
  if (op === "run") {
    const [program, ...rest] = request.argv;
    const files = rest.map((part) => (findModule(part) !== null && /\.[cm]?[jt]sx?$/.test(part) ? findModule(part) : part));
    const command = program === "node" ? [process.execPath, join(__dirname, "program.cjs"), ...files] : [program, ...rest];
    const done = spawnSync(command[0], command.slice(1), { input: request.stdin, cwd: "/job", maxBuffer: 1 << 20 });
    return { status: done.status, stdout: String(done.stdout ?? ""), stderr: String(done.stderr ?? "") };
  }
  const target = objects[request.id];
  const property = (name) => (name === "@@iterator" ? Symbol.iterator : name === "@@asyncIterator" ? Symbol.asyncIterator : name);
  if (op === "get") return target[property(request.name)];
  if (op === "set") return void (target[request.name] = decode(request.value));
  if (op === "keys") return Object.keys(target);
  if (op === "has") return request.name in target;
  if (op === "instance") return decode(request.value) instanceof target;
  const args = request.args.map(decode);
  lastArgs.set(request, args);
  if (op === "call") return Reflect.apply(target, decode(request.self), args);
  if (op === "construct") return Reflect.construct(target, args);
  if (op === "method") return Reflect.apply(target[property(request.name)], target, args);
  throw new Error("unknown question");
}

/** A module's exports as an object of this side, whatever it exports; what is not an ES module is its own default export. */
function namespace(exported) {
  const named = Object.setPrototypeOf({}, { module: true });
  const isObject = (typeof exported === "object" && exported !== null) || typeof exported === "function";
  for (const key of isObject ? Object.keys(exported) : [])
    Object.defineProperty(named, key, { enumerable: true, get: () => exported[key] });
  if (!wire.hasOwn(named, "default")) Object.defineProperty(named, "default", { enumerable: true, value: exported });
  return named;
}

const job = JSON.parse(readFileSync(0, "utf8"));
writeFiles(job.files);
install();
process.argv = [process.execPath, "/job/main.js"];
const write = process.stdout.write.bind(process.stdout);
process.stdout.write = (chunk, ...rest) => {
  output.push(String(chunk));
  return write(chunk, ...rest);
};
process.on("uncaughtException", () => undefined);
process.on("unhandledRejection", () => undefined);

async function serve() {
  for (;;) {
    const request = wire.receive();
    wire.send(await performSoon(request));
  }
}
serve().catch(() => process.exit(0));
