/** The sessions of a server, in bounded memory: the longest idle make room, into a file or with a count. */
import { randomUUID } from "node:crypto";
import { appendFile, mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { ChatRenderer } from "../../../compute/text/renderer.ts";
import { messageOf } from "../../../errors.ts";
import { encodeRollout } from "../../../train/record/trajectory-codec.ts";
import type { Caller } from "../access.ts";
import { ApiError } from "../errors.ts";
import type { Metrics } from "../metrics.ts";
import { Session, type SessionRules } from "./session.ts";

export interface StoreOptions {
  readonly maxSessions: number;
  /** Tokens of all sessions together. */
  readonly maxTokens: number;
  /** Where sessions go that make room, and all of them at the end: one line each in sessions.jsonl. */
  readonly folder?: string;
}

const idForm = /^[A-Za-z0-9._-]{1,128}$/;

export class SessionStore {
  readonly #options: StoreOptions & { readonly renderer: ChatRenderer; readonly metrics: Metrics };
  readonly #sessions = new Map<string, Session>();
  #written: Promise<void> = Promise.resolve();

  constructor(options: StoreOptions & { readonly renderer: ChatRenderer; readonly metrics: Metrics }) {
    this.#options = options;
    options.metrics.gauge("flywheel_sessions", "Sessions in memory.", () => this.#sessions.size);
    options.metrics.gauge("flywheel_session_tokens", "Tokens of the sessions in memory.", () => this.#tokens());
  }

  create(
    owner: Caller,
    { id = randomUUID(), ...given }: { id?: string; task?: Partial<Session["task"]>; rules?: SessionRules } = {},
  ): Session {
    if (!idForm.test(id)) {
      throw new ApiError(400, `session: expected letters, digits, "." "_" "-", at most 128, got ${JSON.stringify(id.slice(0, 140))}`);
    }
    if (this.#sessions.has(id))
      throw new ApiError(409, `session ${id}: expected a new id, got one that is taken`, { code: "session_exists" });
    const { renderer } = this.#options;
    const session = new Session(id, { owner, renderer, ...given });
    this.#sessions.set(id, session);
    this.makeRoom();
    return session;
  }

  /** A session of this caller; those of others are not seen. */
  get(id: string, caller: Caller): Session {
    const found = this.#sessions.get(id);
    if (found?.owner === caller) return found;
    throw new ApiError(404, `session ${id}: expected a session of this key, got none`, { code: "session_not_found" });
  }

  /** For a call that names its session: made by the first one. */
  getOrCreate(id: string, caller: Caller): Session {
    return this.#sessions.has(id) ? this.get(id, caller) : this.create(caller, { id });
  }

  delete(id: string, caller: Caller): void {
    this.#sessions.delete(this.get(id, caller).id);
  }

  #tokens(): number {
    let sum = 0;
    for (const { tokens } of this.#sessions.values()) sum += tokens;
    return sum;
  }

  /** Puts the longest idle sessions away until the rest fits; those in use stay. */
  makeRoom(): void {
    const { maxSessions, maxTokens } = this.#options;
    let tokens = this.#tokens();
    if (this.#sessions.size <= maxSessions && tokens <= maxTokens) return;
    const idle = [...this.#sessions.values()].filter(({ running }) => running === 0).sort((a, b) => a.lastUsed - b.lastUsed);
    for (const session of idle.slice(0, -1)) {
      if (this.#sessions.size <= maxSessions && tokens <= maxTokens) return;
      this.#sessions.delete(session.id);
      tokens -= session.tokens;
      this.#put(session);
    }
  }

  #put(session: Session): void {
    const { folder, metrics } = this.#options;
    metrics.add("flywheel_sessions_evicted_total", { to: folder === undefined ? "nowhere" : "disk" });
    if (folder === undefined) return;
    const line = `${encodeRollout(session.scored(), null)}\n`;
    this.#written = this.#written
      .then(() => mkdir(folder, { recursive: true }))
      .then(() => appendFile(join(folder, "sessions.jsonl"), line))
      .catch((cause: unknown) => {
        metrics.add("flywheel_sessions_lost_total");
        process.emitWarning(`session ${session.id} was not written to ${folder}: ${messageOf(cause)}`);
      });
  }

  /** Writes what is left, if there is a folder. */
  async close(): Promise<void> {
    if (this.#options.folder !== undefined) for (const session of this.#sessions.values()) if (session.counts.calls > 0) this.#put(session);
    this.#sessions.clear();
    await this.#written;
  }
}
