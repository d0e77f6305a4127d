/** What a person who plays sees: the messages that the policy would, and what came of it. */
import { visible } from "../../../errors.ts";
import type { PlayedEpisode } from "../../../loop/rollout/scripted.ts";
import type { Env, Message, Task } from "../../../types.ts";
import type { CliServices } from "../services.ts";
import { type Paint, painter, wantsColour } from "../ui/colour.ts";
import { HELP } from "./input.ts";

/** At a terminal, control characters in texts of the environment are made visible. */
export class Screen {
  readonly canAskAgain: boolean;
  readonly #env: Env;
  readonly #services: CliServices;
  readonly #paint: Paint;
  #shown: readonly Message[] = [];

  constructor(env: Env, services: CliServices) {
    this.#env = env;
    this.#services = services;
    this.#paint = painter(wantsColour(services.stdout, services.environment));
    this.canAskAgain = services.stdin.isTTY === true;
  }

  head({ id }: Task): void {
    this.#line(`${this.#paint(this.#env.name, "bold")}  task ${id}`);
    for (const { spec } of this.#env.tools) {
      this.#line(`${this.#paint("tool", "yellow")}       ${spec.name} ${JSON.stringify(spec.parameters)}: ${spec.description}`);
    }
  }

  /** Shows what is new of what the speaker sees; all of it, where another agent speaks. */
  show(seen: readonly Message[], agent: string | undefined): void {
    const goesOn = this.#shown.length > 0 && this.#shown.every((message, i) => message === seen[i]);
    if (agent !== undefined && !goesOn) this.#line(this.#paint(`-- ${agent} --`, "bold"));
    // The first new message is what was just said.
    this.list(goesOn ? seen.slice(this.#shown.length + 1) : seen);
    this.#shown = seen;
  }

  list(messages: readonly Message[]): void {
    for (const message of messages) this.#message(message);
  }

  echo(message: Message): void {
    this.#message(message);
  }

  ask(): void {
    if (this.canAskAgain) this.#services.stdout.write(this.#paint("assistant> ", "green", "bold"));
  }

  note(text: string): void {
    this.#services.stderr.write(`${text}\n${HELP}\n`);
  }

  end({ done, verdict, measures }: PlayedEpisode): void {
    const told = verdict.type === "scored" ? `${verdict.score} (${this.#safe(verdict.explanation)})` : `${verdict.type}: ${verdict.reason}`;
    this.#line(`${done ? "the episode is over" : "stopped before the end of the episode"}\nreward     ${told}`);
    const parts = Object.entries(measures).map(([name, value]) => `${name} ${Number(value.toFixed(3))}`);
    if (parts.length > 0) this.#line(`measures   ${parts.join(", ")}`);
  }

  #message({ role, name, content, toolCalls = [] }: Message): void {
    const calls = toolCalls.map((call) => `/call ${call.name} ${JSON.stringify(call.arguments)}`);
    const text = [content, ...calls].filter((part) => part !== "").join("\n");
    const label = (name === undefined ? role : `${role} ${name}`).padEnd(10);
    const indented = this.#safe(text).split("\n").join(`\n${" ".repeat(11)}`);
    this.#line(`${this.#paint(label, role === "assistant" ? "green" : "cyan")} ${indented}`);
  }

  #safe(text: string): string {
    return this.#services.stdout.isTTY === true ? visible(text) : text;
  }

  #line(text: string): void {
    this.#services.stdout.write(`${text}\n`);
  }
}
