/**
 * "The booking": a conversation with a user who tells only what is asked for, and an order to be placed at its end. The user is a rule
 * over the task's data, or a model that is handed in.
 */
import { z } from "zod";
import { real, whole } from "../config-fields.ts";
import { scored } from "../errors.ts";
import { generatedTasks } from "../loop/prompt/generated.ts";
import { defineEnv } from "../loop/rollout/tool-env.ts";
import { defineTool } from "../loop/rollout/tools.ts";
import { integer, permutation, rng, uniform } from "../random.ts";
import type { Env, JsonObject, Message, Split, Task } from "../types.ts";
import { readOptions } from "./options.ts";
import { askingTurns, bookingOf, days, guest, saidOf, type Booking, type Wish } from "./user/guest.ts";
import type { User } from "./user/user.ts";

const SYSTEM = "You take bookings for a restaurant. Ask for what you do not know, then book.";

const schema = z.strictObject({
  seed: whole({ min: 0, max: 2 ** 32 - 1 }, 0, "which wishes"),
  withheld: whole({ min: 1, max: 3 }, 2, "facts that the user does not tell at first"),
  changes: real({ min: 0, max: 1 }, 0.25, "share of users who think better of what they said"),
});

export type BookingOptions = z.input<typeof schema> & {
  /** Who speaks as the user; default the rule. */
  readonly user?: User;
  readonly sizes?: { readonly [S in Split]: number };
};

const book = defineTool({
  name: "book",
  description: "Books a table.",
  parameters: z.strictObject({ people: z.int().min(1).max(12), day: z.enum(days), time: z.string() }),
  run: (_args, { state }) => {
    state.set("booked", true);
    return "booked";
  },
});

/** The booking environment. Reward: 1 if what was booked is what the user wants, else 0. */
export function booking({ user = guest, sizes = { train: 2_000, test: 200 }, ...options }: BookingOptions = {}): Env {
  const rules = readOptions("booking", schema, options as JsonObject);
  return defineEnv({
    name: "booking",
    tasks: (split) => generatedTasks(`booking ${split}`, sizes[split], (index) => taskOf(split, index, rules)),
    tools: [book],
    respond: async (answer, { task, turns, signal }) => {
      const before = turns.flatMap(({ message, replies }) => [message, ...replies]);
      const reply = await user([...task.prompt, ...before, { role: "assistant", content: answer }], { task, signal });
      return reply === null ? { messages: [], done: true } : { messages: [{ role: "user", content: reply }], done: false };
    },
    over: (state) => state.has("booked"),
    reward: ({ task, turns }) => {
      const last = turns.at(-1);
      const booked = last?.replies.some(({ role, content }) => role === "tool" && content === "booked") === true;
      const call = last?.message.toolCalls?.findLast(({ name }) => name === "book");
      if (!booked || call === undefined) return scored(0, "nothing was booked");
      const { wish } = bookingOf(task);
      const wrong = Object.entries(wish).filter(([fact, value]) => call.arguments[fact] !== value);
      return wrong.length === 0 ? scored(1, "booked as wished") : scored(0, `wrong: ${wrong.map(([fact]) => fact).join(", ")}`);
    },
    reference: (task): readonly Message[] => {
      const call = { id: "call-1", name: "book", arguments: { ...bookingOf(task).wish } };
      return [...askingTurns(task), { role: "assistant", content: "", toolCalls: [call] }];
    },
    maxTurns: 8,
  });
}

function taskOf(split: Split, index: number, { seed, withheld, changes }: Required<z.output<typeof schema>>): Task {
  const key = rng(seed, "booking", split, index);
  const wish: Wish = {
    people: 2 + integer(key, 7, 0),
    day: days[integer(key, days.length, 1)]!,
    // Full hours in training, half hours in the test split.
    time: `${11 + integer(key, 11, 2)}:${split === "train" ? "00" : "30"}`,
  };
  const facts = permutation(rng(seed, "booking facts", split, index), 3).map((i) => (["people", "day", "time"] as const)[i]!);
  const told = facts.slice(withheld);
  const fact = facts[0]!;
  const first = { people: wish.people === 2 ? 3 : wish.people - 1, day: days[(days.indexOf(wish.day) + 1) % 7]!, time: "10:15" }[fact];
  const data: Booking = { wish, told, change: uniform(key, 3) < changes ? { fact, first } : null };
  const opening = ["I would like a table", ...told.map((each) => saidOf(each, wish[each]))].join(" ");
  const prompt: Message[] = [{ role: "system", content: SYSTEM }, { role: "user", content: `${opening}, please.` }];
  return { id: `booking-${split}-${index}`, prompt, data: data as unknown as JsonObject };
}
