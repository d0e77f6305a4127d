/**
 * Worker thread: one small JavaScript program in QuickJS, compiled to WebAssembly with a bounded memory. The program has no file, no
 * network, no timer and no module; it has `print`, `console.log` and `stdin`.
 */
import { parentPort, workerData } from "node:worker_threads";
import { newQuickJSWASMModuleFromVariant, newVariant, RELEASE_SYNC } from "quickjs-emscripten";

const { source, stdin, memoryMegabytes, outputBytes, milliseconds } = workerData;
const pages = Math.max(64, Math.floor(memoryMegabytes * 16));
const memory = new WebAssembly.Memory({ initial: 256, maximum: Math.max(256, pages) });
const quick = await newQuickJSWASMModuleFromVariant(newVariant(RELEASE_SYNC, { wasmMemory: memory }));
parentPort.postMessage({ event: "ready" });

const encoder = new TextEncoder();
let kept = 0;
let seen = 0;
const output = [];
function write(text) {
  const bytes = encoder.encode(text);
  seen += bytes.length;
  if (kept >= outputBytes) return;
  const part = bytes.subarray(0, outputBytes - kept);
  output.push(part);
  kept += part.length;
}

const runtime = quick.newRuntime();
runtime.setMaxStackSize(512 * 1024);
const deadline = Date.now() + milliseconds;
let late = false;
let flood = false;
runtime.setInterruptHandler(() => {
  late ||= Date.now() > deadline;
  flood ||= seen > outputBytes * 256;
  return late || flood;
});
const context = runtime.newContext();
const show = (handle) => {
  const kind = context.typeof(handle);
  if (kind === "string" || kind === "symbol") return context.getString(handle);
  const value = context.dump(handle);
  return typeof value === "object" && value !== null ? JSON.stringify(value) : String(value);
};
const print = context.newFunction("print", (...values) => write(`${values.map(show).join(" ")}\n`));
const console = context.newObject();
for (const name of ["log", "info", "warn", "error"]) context.setProp(console, name, print);
context.setProp(context.global, "print", print);
context.setProp(context.global, "console", console);
context.setProp(context.global, "stdin", context.newString(stdin));

let exit = 0;
let stderr = "";
const result = context.evalCode(source, "main.js");
const failed = (handle) => {
  const error = context.dump(handle);
  exit = 1;
  stderr = typeof error === "object" && error !== null ? `${error.name}: ${error.message}\n${error.stack ?? ""}` : String(error);
};
if (result.error) failed(result.error);
for (let jobs = 0; exit === 0 && runtime.hasPendingJob() && jobs < 1_000_000; jobs++) {
  const done = runtime.executePendingJobs(1);
  if (done.error) failed(done.error);
}
const bytes = Buffer.concat(output);
parentPort.postMessage({
  event: "end",
  exit,
  stdout: bytes.toString("utf8"),
  stderr: stderr.slice(0, outputBytes),
  cut: seen > kept,
  late,
  flood,
});
