/**
 * Trains with an agent that is a program of its own: each episode runs the agent once, against a session of a server over the policy that
 * is trained. What it samples is the trajectory; its own reward, or else the environment's, is the verdict.
 */
import { randomUUID } from "node:crypto";
import { messageOf } from "../../errors.ts";
import type { OpenedPolicy } from "../../compute/policy/open.ts";
import { episodeId, type Policy } from "../../loop/rollout/episode.ts";
import { rng } from "../../random.ts";
import type { AttachedModels } from "../../train/attach.ts";
import type { EpisodeEnd, Task } from "../../types.ts";
import { callerOfKey } from "./access.ts";
import type { Session } from "./capture/session.ts";
import { startServer, type RunningServer } from "./server.ts";

/** What an agent is told of its episode. */
export interface AgentCall {
  /** For any client of OpenAI's interface; every call to it belongs to this episode. */
  readonly baseURL: string;
  readonly apiKey: string;
  readonly session: string;
  /** Takes `{"reward": number}`, where the agent grades itself. */
  readonly rewardURL: string;
  readonly task: Task;
  /** Aborted when the episode's time is over. */
  readonly signal: AbortSignal;
}

/** Plays one episode. What it throws ends that episode alone, which then is not graded. */
export type Agent = (call: AgentCall) => Promise<void>;

export interface AgentRollouts extends AsyncDisposable {
  /** For `train`: opens a server over the policy that is trained, and lets the agent play. */
  readonly attach: (policy: OpenedPolicy) => Promise<AttachedModels>;
}

export function agentRollouts(agent: Agent): AgentRollouts {
  let server: RunningServer | undefined;
  return {
    attach: async (policy) => {
      const apiKey = randomUUID();
      server = await startServer({ policy, models: new Map([["*", "policy"]]), keys: [apiKey], maxRequests: Infinity, sessionsOnly: true });
      return { play: player(agent, { server, apiKey }) };
    },
    [Symbol.asyncDispose]: async () => server?.close(0),
  };
}

function player(
  agent: Agent,
  { server, apiKey }: { readonly server: RunningServer; readonly apiKey: string },
): NonNullable<Policy["play"]> {
  return async (task, options) => {
    const { address, deadlineSeconds, temperature, maxTokens, maxTurns, signal } = options;
    const started = performance.now();
    const key = rng(address.seed, address.stage, address.step, task.id, address.repeat, address.sample);
    const rules = { temperature, maxTokens, maxCalls: maxTurns, key };
    const session = server.sessions.create(callerOfKey(apiKey), { task: { id: task.id, data: task.data }, rules });
    const [base, id] = [server.url, session.id];
    const call = { baseURL: `${base}/s/${id}/v1`, apiKey, session: id, rewardURL: `${base}/v1/sessions/${id}/reward`, task };
    const end = await episode((stop) => agent({ ...call, signal: stop }), { session, deadlineSeconds, signal });
    signal?.throwIfAborted();
    server.sessions.delete(id, session.owner);
    const { trajectory, verdict } = session.scored();
    const seconds = (performance.now() - started) / 1000;
    const played = { ...trajectory, id: episodeId(task, address), task, sample: address.sample, end: end ?? trajectory.end, seconds };
    // An episode that a fault or the clock ended is not graded, whatever the agent said before.
    const graded = verdict.type === "scored" && played.end.type !== "error" && played.end.type !== "timeout";
    return graded ? { trajectory: played, verdict } : { trajectory: played };
  };
}

interface EpisodeLimits {
  readonly session: Session;
  readonly deadlineSeconds: number;
  readonly signal: AbortSignal | undefined;
}

/** Runs the agent to its end, its fault or its deadline; undefined if it ended by itself. No call of it is left running. */
async function episode(
  run: (signal: AbortSignal) => Promise<void>,
  { session, deadlineSeconds, signal }: EpisodeLimits,
): Promise<EpisodeEnd | undefined> {
  const stop = new AbortController();
  const late = setTimeout(() => stop.abort(new Error(`the deadline of ${deadlineSeconds} s has passed`)), deadlineSeconds * 1000);
  const interrupt = (): void => stop.abort(signal?.reason);
  signal?.addEventListener("abort", interrupt, { once: true });
  const stopped = new Promise<void>((resolve) => stop.signal.addEventListener("abort", () => resolve(), { once: true }));
  const failure = (message: string): EpisodeEnd => ({ type: "error", boundary: "agent", message });
  try {
    await Promise.race([run(stop.signal), stopped]);
    if (stop.signal.aborted) return { type: "timeout" };
    if (session.overCalled) return { type: "turnLimit" };
    return session.counts.calls === 0 ? failure("it ended without a call of the model") : undefined;
  } catch (cause) {
    if (stop.signal.aborted) return { type: "timeout" };
    return session.overCalled ? { type: "turnLimit" } : failure(messageOf(cause));
  } finally {
    clearTimeout(late);
    signal?.removeEventListener("abort", interrupt);
    stop.abort(new Error("the episode has ended"));
    await session.end();
  }
}
