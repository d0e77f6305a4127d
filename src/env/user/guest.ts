/** A guest who wants a table: says only what is asked for, may think better of it once, and leaves when nobody asks to the point. */
import type { JsonObject, Message, Task } from "../../types.ts";
import type { User } from "./user.ts";

export const days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"] as const;

export interface Wish {
  readonly people: number;
  readonly day: (typeof days)[number];
  readonly time: string;
}
type Fact = keyof Wish;

/** What a task holds as its data. `first` is what the guest says before thinking better of it. */
export interface Booking {
  readonly wish: Wish;
  readonly told: readonly Fact[];
  readonly change: { readonly fact: Fact; readonly first: string | number } | null;
}

export const bookingOf = ({ data }: Task): Booking => data as unknown as JsonObject & Booking;

/** What an assistant's question is about. */
const asks: { readonly [F in Fact]: readonly string[] } = {
  people: ["how many", "people", "guests", "persons"],
  day: ["day", "date"],
  time: ["time", "hour", "o'clock"],
};
const facts = Object.keys(asks) as readonly Fact[];
const questions: { readonly [F in Fact]: string } = {
  people: "For how many people?",
  day: "On which day?",
  time: "At what time?",
};

/** A fact in the guest's words. */
export function saidOf(fact: Fact, value: string | number): string {
  return { people: `for ${value}`, day: `on ${value}`, time: `at ${value}` }[fact];
}

/** Turns without a question to the point after which the guest leaves. */
const patience = 3;

const askedIn = (text: string): readonly Fact[] => facts.filter((fact) => asks[fact].some((word) => text.toLowerCase().includes(word)));

export const guest: User = (conversation, { task }) => {
  const { wish, change } = bookingOf(task);
  const questionsSo = conversation.filter(({ role }) => role === "assistant").map(({ content }) => askedIn(content));
  const wanted = questionsSo.at(-1) ?? [];
  const pointless = questionsSo.filter((asked) => asked.length === 0).length;
  if (wanted.length === 0) return pointless >= patience ? null : "I would like to book a table.";
  const before = questionsSo.slice(0, -1).flat();
  const answers = wanted.map((fact) => saidOf(fact, change?.fact === fact && !before.includes(fact) ? change.first : wish[fact]));
  const changed = change !== null && wanted.includes(change.fact) && !before.includes(change.fact);
  const line = `${answers.join(", ")}.`;
  const said = line.charAt(0).toUpperCase() + line.slice(1);
  return changed ? `${said} No, wait: ${saidOf(change.fact, wish[change.fact])}.` : said;
};

/** What an assistant would ask who needs every fact that the guest has not told. */
export function askingTurns(task: Task): Message[] {
  const { told } = bookingOf(task);
  return facts.filter((fact) => !told.includes(fact)).map((fact) => ({ role: "assistant", content: questions[fact] }));
}
