/**
 * What an adapter was told, and what came of it: one line each, durable before it is acknowledged. A piece of feedback is answered by
 * exactly one outcome; one without an outcome was acknowledged and not yet learned when the process ended.
 */
import { z } from "zod";
import { RunError, expected } from "../../errors.ts";
import type { Json } from "../../types.ts";
import { appendLines, cutLines, readLines } from "../record/files.ts";

const json = z.json() as z.ZodType<Json>;
const row = z.strictObject({ ids: z.array(z.int()), trained: z.array(z.int()), reference: z.array(z.number()) });
const rows = z.array(row).min(1);
const weight = z.number().positive();
const lesson = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("pair"), weight, likelihood: z.number().nonnegative(), chosen: rows, rejected: rows }),
  z.strictObject({ kind: z.literal("label"), weight, rows, good: z.boolean() }),
  z.strictObject({ kind: z.literal("dialogue"), weight, rows }),
]);

const feedbackEntry = z.strictObject({
  type: z.literal("feedback"),
  /** Given by whoever sent it: the same id is never learned twice. */
  id: z.string(),
  at: z.string(),
  annotator: z.string().exactOptional(),
  /** As a person reads it: the kind of feedback, its prompt and its answers. */
  given: json,
  lessons: z.array(lesson),
});
const outcomeEntry = z.strictObject({
  type: z.literal("outcome"),
  of: z.string(),
  outcome: z.enum(["learned", "held", "recorded"]),
  result: json,
});
const undoEntry = z.strictObject({ type: z.literal("undo"), of: z.string(), at: z.string() });
const entrySchema = z.discriminatedUnion("type", [feedbackEntry, outcomeEntry, undoEntry]);

/** A row of token ids with its trained positions and the opened model's log-probs of them. */
export type LessonRow = z.infer<typeof row>;
export type Lesson = z.infer<typeof lesson>;
export type FeedbackEntry = z.infer<typeof feedbackEntry>;
export type Outcome = z.infer<typeof outcomeEntry>["outcome"];
type Entry = z.infer<typeof entrySchema>;

/** A piece of feedback with what is known of it. */
export interface Told {
  readonly entry: FeedbackEntry;
  readonly outcome?: Outcome;
  readonly result?: Json;
  readonly undone: boolean;
}

export class Journal {
  readonly #path: string;
  readonly #told = new Map<string, Told>();

  private constructor(path: string) {
    this.#path = path;
  }

  /** Reads the file, or begins one; a line that a kill has torn was never acknowledged and is cut off. */
  static async open(path: string): Promise<Journal> {
    const journal = new Journal(path);
    const { lines } = await readLines(path);
    await cutLines(path, lines.length).catch((cause: unknown) => {
      if (lines.length > 0) throw cause;
    });
    lines.forEach((line, i) => journal.#take(parse(line, `${path} line ${i + 1}`), `${path} line ${i + 1}`));
    return journal;
  }

  /** All feedback, in the order in which it came. */
  get told(): readonly Told[] {
    return [...this.#told.values()];
  }

  find(id: string): Told | undefined {
    return this.#told.get(id);
  }

  /** Durable on return. */
  async add(entry: Entry): Promise<void> {
    await appendLines(this.#path, [JSON.stringify(entry)]);
    this.#take(entry, this.#path);
  }

  #take(entry: Entry, where: string): void {
    if (entry.type === "feedback") {
      if (this.#told.has(entry.id)) throw new RunError(expected(where, "each feedback once", `${entry.id} twice`));
      this.#told.set(entry.id, { entry, undone: false });
      return;
    }
    const told = this.#told.get(entry.of);
    if (told === undefined) throw new RunError(expected(where, `feedback ${entry.of} before it`, "none", "the file was edited or damaged"));
    if (entry.type === "undo") this.#told.set(entry.of, { ...told, undone: true });
    else this.#told.set(entry.of, { ...told, outcome: entry.outcome, result: entry.result });
  }
}

function parse(line: string, where: string): Entry {
  try {
    return entrySchema.parse(JSON.parse(line));
  } catch (cause) {
    throw new RunError(expected(where, "an entry of an online journal", line.slice(0, 80), "the file was edited or damaged"), { cause });
  }
}
