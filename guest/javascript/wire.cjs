/**
 * Values between the examiner's process and the candidate's: plain data by value, everything else as a number that stands for an object
 * of the other side. Nothing that is received is executed. The functions of the language are taken at the start, before any other code.
 */
"use strict";
const { readSync, writeSync } = require("node:fs");
const { types } = require("node:util");

const LIMIT = 8 * 1024 * 1024;
const DEPTH = 100;
const FD = 4;
const waiting = new Int32Array(new SharedArrayBuffer(4));
const { parse, stringify } = JSON;
const { defineProperty, getPrototypeOf, keys, hasOwn } = Object;
const byteView = Buffer.from;

class WireError extends Error {}
class Closed extends Error {}

/** The candidate's end of the channel does not block by itself, so it waits here. */
function patiently(body) {
  for (;;) {
    try {
      return body();
    } catch (error) {
      if (error.code !== "EAGAIN") throw new Closed(error.code);
      Atomics.wait(waiting, 0, 0, 1);
    }
  }
}

function send(message) {
  const body = Buffer.from(stringify(message));
  if (body.length > LIMIT) throw new WireError(`a value of ${body.length} bytes is more than ${LIMIT}`);
  const head = Buffer.alloc(4);
  head.writeUInt32BE(body.length);
  const data = Buffer.concat([head, body]);
  for (let at = 0; at < data.length; ) at += patiently(() => writeSync(FD, data, at, data.length - at));
}

function exactly(count) {
  const data = Buffer.alloc(count);
  for (let at = 0; at < count; ) {
    const got = patiently(() => readSync(FD, data, at, count - at, null));
    if (got === 0) throw new Closed("end");
    at += got;
  }
  return data;
}

function receive() {
  const size = exactly(4).readUInt32BE(0);
  if (size > LIMIT) throw new WireError(`a message of ${size} bytes is more than ${LIMIT}`);
  let message;
  try {
    message = parse(exactly(size).toString("utf8"));
  } catch (error) {
    throw error instanceof Closed ? error : new WireError("a message is not JSON");
  }
  if (message === null || typeof message !== "object" || Array.isArray(message)) throw new WireError("a message is not an object");
  return message;
}

const tagged = (t, v) => ({ t, v });

/** `other(value)` makes the message of a value that is no plain data. */
function encode(value, other, depth = 0) {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      return Number.isFinite(value) && !Object.is(value, -0) ? value : tagged("number", Object.is(value, -0) ? "-0" : String(value));
    case "undefined":
      return tagged("undefined", null);
    case "bigint":
      return tagged("bigint", value.toString(16));
    case "symbol":
      return tagged("symbol", String(value.description ?? ""));
    default:
  }
  if (value === null) return null;
  if (depth > DEPTH) throw new WireError(`a value is nested deeper than ${DEPTH} levels (or contains itself)`);
  if (typeof value === "function" || types.isProxy(value)) return other(value);
  const inner = (item) => encode(item, other, depth + 1);
  const prototype = getPrototypeOf(value);
  if (Array.isArray(value)) return prototype === Array.prototype ? tagged("array", Array.from(value, inner)) : other(value);
  if (prototype === Object.prototype || prototype === null) return encodeObject(value, inner, prototype);
  if (prototype === Map.prototype && types.isMap(value))
    return tagged(
      "map",
      Array.from(value, ([key, item]) => [inner(key), inner(item)]),
    );
  if (prototype === Set.prototype && types.isSet(value)) return tagged("set", Array.from(value, inner));
  if (prototype === Date.prototype && types.isDate(value)) return tagged("date", inner(value.getTime()));
  if (prototype === RegExp.prototype && types.isRegExp(value)) return tagged("regexp", [value.source, value.flags]);
  if (types.isTypedArray(value))
    return tagged("bytes", [prototype.constructor.name, byteView(value.buffer, value.byteOffset, value.byteLength).toString("base64")]);
  return other(value);
}

function encodeObject(value, inner, prototype) {
  if (Object.getOwnPropertySymbols(value).length > 0) throw new WireError("an object with symbols as keys cannot be sent");
  return tagged(
    prototype === null ? "bare" : "object",
    keys(value).map((key) => [key, inner(value[key])]),
  );
}

const TYPED = new Map(
  [
    Int8Array,
    Uint8Array,
    Uint8ClampedArray,
    Int16Array,
    Uint16Array,
    Int32Array,
    Uint32Array,
    Float32Array,
    Float64Array,
    BigInt64Array,
    BigUint64Array,
  ].map((kind) => [kind.name, kind]),
);
const ERRORS = new Map(
  [Error, TypeError, RangeError, SyntaxError, ReferenceError, EvalError, URIError, AggregateError].map((kind) => [kind.name, kind]),
);

/** `reference(message)` makes the value of a message that is no plain data. Throws `WireError` for anything malformed. */
function decode(message, reference) {
  try {
    return decodeAny(message, reference);
  } catch (error) {
    if (error instanceof WireError || error instanceof Closed || error?.gone === true) throw error;
    throw new WireError("a value is malformed");
  }
}

function decodeAny(message, reference) {
  if (message === null || typeof message !== "object") {
    if (message === undefined) throw new WireError("a value is missing");
    return message;
  }
  const { t, v } = message;
  const inner = (item) => decodeAny(item, reference);
  switch (t) {
    case "undefined":
      return undefined;
    case "number":
      return v === "-0" ? -0 : v === "NaN" ? NaN : v === "Infinity" ? Infinity : -Infinity;
    case "bigint":
      return v.startsWith("-") ? -BigInt(`0x${v.slice(1)}`) : BigInt(`0x${v}`);
    case "symbol":
      return Symbol(v);
    case "array":
      return v.map(inner);
    case "object":
    case "bare": {
      const made = t === "bare" ? Object.create(null) : {};
      for (const [key, item] of v)
        defineProperty(made, String(key), { value: inner(item), writable: true, enumerable: true, configurable: true });
      return made;
    }
    case "map":
      return new Map(v.map(([key, item]) => [inner(key), inner(item)]));
    case "set":
      return new Set(v.map(inner));
    case "date":
      return new Date(inner(v));
    case "regexp":
      return new RegExp(String(v[0]), String(v[1]));
    case "bytes":
      return decodeBytes(v);
    default:
      return reference(message);
  }
}

function decodeBytes([name, text]) {
  const bytes = Buffer.from(String(text), "base64");
  if (name === "Buffer" || name === "FastBuffer") return bytes;
  const kind = TYPED.get(name);
  if (kind === undefined || bytes.length % kind.BYTES_PER_ELEMENT !== 0) throw new WireError("bytes of no kind");
  return new kind(new Uint8Array(bytes).buffer);
}

module.exports = { Closed, decode, encode, ERRORS, hasOwn, receive, send, WireError };
