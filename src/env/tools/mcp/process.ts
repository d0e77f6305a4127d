/**
 * A server of the Model Context Protocol in a process group of its own, over its stdin and stdout. The kit's own transport ends the
 * process that it started and no other; servers are often started by a script or a package runner, whose children must end too.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { setTimeout as wait } from "node:timers/promises";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import { getDefaultEnvironment } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ReadBuffer, serializeMessage } from "@modelcontextprotocol/sdk/shared/stdio.js";
import { messageOf } from "../../../errors.ts";
import type { McpCommand } from "./server.ts";

/** Milliseconds that a server has to end when its input is closed, and again when it is asked to. */
const GRACE = 500;
const MESSAGE_BYTES = 4 * 1024 * 1024;
const SAID = 400;

/** Groups that live, so that none is left when this process ends without closing them. */
const groups = new Set<number>();
const killAll = (): void => groups.forEach((pid) => signalGroup(pid, "SIGKILL"));

/** The transport, and what the server said last on its error stream. */
export function processTransport(server: McpCommand): Transport & { readonly lastWords: () => string } {
  const buffer = new ReadBuffer({ maxBufferSize: MESSAGE_BYTES });
  let child: ChildProcess | undefined;
  let said = "";
  const transport: Transport & { readonly lastWords: () => string } = {
    lastWords: () => said.trim().split("\n").at(-1)!.slice(-SAID),
    async start() {
      const env = { ...getDefaultEnvironment(), ...server.env };
      child = spawn(server.command, server.args ?? [], { env, cwd: server.cwd, stdio: "pipe", detached: true });
      child.stdout!.on("data", (chunk: Buffer) => receive(transport, buffer, chunk));
      child.stderr!.on("data", (chunk: Buffer) => (said = (said + chunk.toString()).slice(-2 * SAID)));
      child.stdin!.on("error", (error) => transport.onerror?.(error));
      const started = child;
      await once(started, "spawn");
      keep(started.pid!);
      started.once("close", () => {
        release(started.pid!);
        transport.onclose?.();
      });
    },
    send: (message) =>
      new Promise((resolve, reject) => {
        if (child?.stdin?.writable !== true) return reject(new Error("the server has ended"));
        child.stdin.write(serializeMessage(message), (error) => (error ? reject(error) : resolve()));
      }),
    async close() {
      if (child?.pid === undefined) return;
      const { pid } = child;
      const ended = groups.has(pid) ? once(child, "close") : Promise.resolve();
      child.stdin!.end();
      await Promise.race([ended, wait(GRACE)]);
      signalGroup(pid, "SIGTERM");
      await Promise.race([ended, wait(GRACE)]);
      release(pid);
    },
  };
  return transport;
}

function receive(transport: Transport, buffer: ReadBuffer, chunk: Buffer): void {
  try {
    buffer.append(chunk);
  } catch (cause) {
    transport.onerror?.(new Error(messageOf(cause)));
    return void transport.close();
  }
  for (;;) {
    try {
      const message = buffer.readMessage();
      if (message === null) return;
      transport.onmessage?.(message);
    } catch (cause) {
      // A line that is no message: some servers print there. The rest is read on.
      transport.onerror?.(new Error(messageOf(cause)));
    }
  }
}

function keep(pid: number): void {
  if (groups.size === 0) process.on("exit", killAll);
  groups.add(pid);
}

function release(pid: number): void {
  signalGroup(pid, "SIGKILL");
  groups.delete(pid);
  if (groups.size === 0) process.off("exit", killAll);
}

function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch {
    // No process of the group is left.
  }
}
