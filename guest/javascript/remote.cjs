/**
 * The examiner's side of the candidate's objects. Plain data arrives as itself; an object of the candidate is a proxy that asks the
 * candidate's process, and that equals nothing but itself.
 */
"use strict";
const wire = require("./wire.cjs");

const locals = [];
const errors = [];
const made = new Map();
const numbers = new WeakMap();
const classes = new Map();
const state = { gone: null, touched: false };

/** The candidate's process ended or broke the protocol; no test passes after it. */
class CandidateGone extends Error {
  constructor(message) {
    super(message);
    this.name = "CandidateGone";
    this.gone = true;
  }
}

function ask(message, args = []) {
  if (state.gone !== null) throw new CandidateGone(state.gone);
  let reply;
  try {
    wire.send(message);
    for (reply = wire.receive(); wire.hasOwn(reply, "op"); reply = wire.receive()) wire.send(serve(reply));
    if (typeof reply.out === "string") process.stderr.write(reply.out);
    if (wire.hasOwn(reply, "promise")) return Promise.resolve(decode(reply.promise));
    if (wire.hasOwn(reply, "rejected")) return Promise.reject(thrown(reply.rejected));
    if (!wire.hasOwn(reply, "raise")) {
      const value = decode(reply.ok);
      for (const [index, after] of Array.isArray(reply.changed) ? reply.changed : []) replace(args[index], decode(after));
      return value;
    }
  } catch (error) {
    if (error instanceof CandidateGone) throw error;
    state.gone =
      error instanceof wire.Closed ? "the candidate's process ended" : `the candidate's process broke the protocol: ${error.message}`;
    throw new CandidateGone(state.gone);
  }
  throw thrown(reply.raise);
}

function thrown(raise) {
  try {
    if (Number.isInteger(raise.yours) && raise.yours >= 0 && raise.yours < errors.length) return errors[raise.yours];
    return decode(raise.value);
  } catch (error) {
    state.gone = `the candidate's process broke the protocol: ${error.message}`;
    return new CandidateGone(state.gone);
  }
}

/** What a call changed in place in an argument, done to the test's own object. */
function replace(target, now) {
  if (target === null || typeof target !== "object" || Object.getPrototypeOf(target) !== Object.getPrototypeOf(now))
    throw new wire.WireError("a change of no argument");
  if (Array.isArray(target)) target.splice(0, target.length, ...now);
  else if (target instanceof Map) {
    target.clear();
    for (const [key, value] of now) target.set(key, value);
  } else if (target instanceof Set) {
    target.clear();
    for (const value of now) target.add(value);
  } else if (ArrayBuffer.isView(target)) target.set(now);
  else {
    for (const key of Object.keys(target)) if (!wire.hasOwn(now, key)) delete target[key];
    for (const key of Object.keys(now))
      Object.defineProperty(target, key, { value: now[key], writable: true, enumerable: true, configurable: true });
  }
}

const encode = (value) => wire.encode(value, outgoing);
const decode = (message) => wire.decode(message, incoming);

function outgoing(value) {
  const number = numbers.get(value);
  if (number !== undefined) return { t: "mine", v: number };
  const known = locals.indexOf(value);
  return { t: "local", v: known >= 0 ? known : locals.push(value) - 1, call: typeof value === "function" };
}

function incoming(message) {
  const { t, v } = message;
  if (t === "yours" && Number.isInteger(v) && v >= 0 && v < locals.length) return locals[v];
  if (!Number.isInteger(v)) throw new wire.WireError("no number");
  if (t === "error") return remoteError(message);
  if (t !== "function" && t !== "thing") throw new wire.WireError("unknown tag");
  if (!made.has(v)) {
    const value = t === "function" ? remoteFunction(v, String(message.name)) : remoteThing(v, message);
    made.set(v, value);
    numbers.set(value, v);
  }
  return made.get(v);
}

function remoteFunction(number, name) {
  const target = function () {};
  Object.defineProperty(target, "name", { value: name });
  return new Proxy(target, {
    apply: (_target, self, args) =>
      ask(
        { op: "call", id: number, self: encode(self === undefined || numbers.has(self) ? self : undefined), args: args.map(encode) },
        args,
      ),
    construct: (_target, args) => ask({ op: "construct", id: number, args: args.map(encode) }, args),
    get: (own, key) => {
      if (key === Symbol.hasInstance) return (value) => isInstance(number, value);
      if (key === "prototype" || key === "name" || typeof key === "symbol") return own[key];
      if (key === "call") return (self, ...args) => ask({ op: "call", id: number, self: encode(self), args: args.map(encode) }, args);
      if (key === "apply") return (self, args = []) => ask({ op: "call", id: number, self: encode(self), args: args.map(encode) }, args);
      return ask({ op: "get", id: number, name: key });
    },
    set: (_target, key, value) => {
      ask({ op: "set", id: number, name: String(key), value: encode(value) });
      return true;
    },
  });
}

function isInstance(number, value) {
  if (value instanceof Error && classOf.has(value)) return classOf.get(value) === number || instanceOf(number, value);
  return numbers.has(value) && instanceOf(number, value);
}

const instanceOf = (number, value) => ask({ op: "instance", id: number, value: encode(value) }) === true;

function remoteThing(number, { name, operators, list }) {
  const target = list === true ? [] : Object.create({ constructor: { name: String(name) } });
  const symbols = new Set(Array.isArray(operators) ? operators : []);
  return new Proxy(target, {
    get: (own, key) => {
      if (key === "then") return undefined;
      if (key === Symbol.iterator && symbols.has("Symbol.iterator"))
        return () => ask({ op: "method", id: number, name: "@@iterator", args: [] });
      if (key === Symbol.asyncIterator && symbols.has("Symbol.asyncIterator"))
        return () => ask({ op: "method", id: number, name: "@@asyncIterator", args: [] });
      if (typeof key === "symbol") return own[key];
      return ask({ op: "get", id: number, name: key });
    },
    set: (_target, key, value) => {
      ask({ op: "set", id: number, name: String(key), value: encode(value) });
      return true;
    },
    has: (_target, key) => typeof key === "string" && ask({ op: "has", id: number, name: key }) === true,
    ownKeys: (own) => [...new Set([...Reflect.ownKeys(own), ...remoteKeys(number)])],
    getOwnPropertyDescriptor: (own, key) => {
      if (typeof key === "symbol" || wire.hasOwn(own, key)) return Reflect.getOwnPropertyDescriptor(own, key);
      return remoteKeys(number).includes(key)
        ? { value: ask({ op: "get", id: number, name: key }), writable: true, enumerable: true, configurable: true }
        : undefined;
    },
  });
}

function remoteKeys(number) {
  const keys = ask({ op: "keys", id: number });
  return Array.isArray(keys) ? keys.filter((key) => typeof key === "string").slice(0, 10_000) : [];
}

const classOf = new WeakMap();

/** An error of the candidate as an error of this side: of the same built-in class, else of a class that stands for the candidate's. */
function remoteError({ v, name, message, base, own, code }) {
  const Base = wire.ERRORS.get(base) ?? Error;
  const error = new Base(String(message));
  const kind = own === null || own === undefined ? null : decode(own);
  Object.defineProperty(error, "name", { value: String(name), configurable: true, writable: true });
  if (typeof code === "string") error.code = code;
  if (kind !== null && numbers.has(kind)) {
    classOf.set(error, numbers.get(kind));
    Object.defineProperty(error, "constructor", { value: kind, configurable: true });
  }
  if (v >= 0) numbers.set(error, v);
  return error;
}

function serve(request) {
  const target = Number.isInteger(request.id) && request.id >= 0 && request.id < locals.length ? locals[request.id] : undefined;
  if (target === undefined) throw new wire.WireError("no such object");
  try {
    if (request.op === "call" && typeof target === "function") return { ok: encode(target(...request.args.map(decode))) };
    const reachable = typeof target === "object" && typeof request.name === "string" && !/^(?:constructor$|__)/.test(request.name);
    if (request.op === "get" && reachable) {
      const value = target[request.name];
      return { ok: encode(typeof value === "function" ? value.bind(target) : value) };
    }
    if (request.op === "set" && reachable) {
      target[request.name] = decode(request.value);
      return { ok: null };
    }
    throw new TypeError("not allowed");
  } catch (error) {
    if (error instanceof wire.WireError || error instanceof wire.Closed || error instanceof CandidateGone) throw error;
    errors.push(error);
    return { raise: { name: error?.name ?? "Error", message: String(error?.message ?? error).slice(0, 2000), yours: errors.length - 1 } };
  }
}

/** What an import of the candidate's module gives a test: functions and classes that ask, and values as they were at the import. */
function remoteModule(name) {
  const module = ask({ op: "import", name });
  const exported = Object.create(null);
  const read = (key) => ask({ op: "get", id: numbers.get(module), name: key });
  for (const key of remoteKeys(numbers.get(module))) {
    Object.defineProperty(exported, key, { enumerable: true, get: () => read(key) });
  }
  Object.defineProperty(exported, "__esModule", { value: true });
  return exported;
}

const runProgram = (argv, stdin = "") => ask({ op: "run", argv: argv.map(String), stdin: String(stdin) });

module.exports = { CandidateGone, remoteModule, runProgram, state };
