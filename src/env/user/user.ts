/** Users of a conversation: by a rule over the task's data, or played by a model. */
import { rng, hash32 } from "../../random.ts";
import type { Policy } from "../../loop/rollout/episode.ts";
import type { Message, Task } from "../../types.ts";

/** Says what the user answers to the conversation so far, which ends with the assistant; null: the user leaves. */
export type User = (
  conversation: readonly Message[],
  context: { readonly task: Task; readonly signal: AbortSignal },
) => string | null | Promise<string | null>;

export interface PolicyUserOptions {
  /** What the model that plays the user is told of its part. */
  readonly system: (task: Task) => string;
  readonly seed?: number;
  readonly maxTokens?: number;
  readonly temperature?: number;
  /** The user leaves when the model says this; default "DONE". */
  readonly done?: string;
}

/**
 * A user played by a model: another one, or an adapter of the same. It sees the conversation with the parts exchanged. The same
 * conversation is answered the same, and none of its tokens is trained.
 */
export function policyUser(policy: Policy, options: PolicyUserOptions): User {
  const { system, seed = 0, maxTokens = 64, temperature = 1, done = "DONE" } = options;
  return async (conversation, { task, signal }) => {
    const { engine, renderer } = policy;
    const turned = conversation.filter(({ role, content }) => (role === "user" || role === "assistant") && content !== "").map(exchanged);
    const messages: Message[] = [{ role: "system", content: system(task) }, ...turned];
    const { ids } = renderer.start(messages, []);
    const [span] = await engine.sample({
      prompt: ids,
      count: 1,
      maxTokens: Math.max(1, Math.min(maxTokens, engine.info.contextLength - ids.length)),
      temperature,
      stopIds: renderer.stopIds,
      keys: [rng(seed, "user", task.id, hash32(JSON.stringify(turned)))],
      signal,
    });
    const said = renderer.parseTurn(span!.ids, span!.finish, []).message.content.trim();
    return said === "" || said === done ? null : said;
  };
}

/** As the other side sees it. */
const exchanged = ({ role, content }: Message): Message => ({ role: role === "user" ? "assistant" : "user", content });
