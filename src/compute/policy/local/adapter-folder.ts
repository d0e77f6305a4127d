/** An adapter as a PEFT folder, with a note of the base that it belongs to. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { ModelError, PolicyError, expected, messageOf } from "../../../errors.ts";
import { baseFingerprint } from "../../models/base-fingerprint.ts";
import { loraTargets } from "../../models/lora.ts";
import { familyNamed } from "../../models/parameters.ts";
import { exportPeft } from "../../models/peft-export.ts";
import { readPeft } from "../../models/peft-import.ts";
import type { Adapter, LocalModel } from "./model.ts";

/** Beside PEFT's own two files. */
const noteName = "flywheel_adapter.json";
const noteSchema = z.strictObject({ base: z.string(), fingerprint: z.string(), targets: z.array(z.enum(loraTargets)) });

interface Base {
  readonly model: LocalModel;
  /** What PEFT should look the base up by: a hub id or a path. */
  readonly base: string;
}

/** Writes the adapter `name`; PolicyError where that name stands for plain or fully trained weights. */
export async function saveAdapterFolder(folder: string, name: string, { model, base }: Base): Promise<void> {
  const variant = model.variant(name);
  if (variant.type !== "lora") {
    const got = `${name}, which is ${variant.type === "base" ? "the base's weights" : "a copy of all weights"}`;
    throw new PolicyError(expected("saveAdapter", "a LoRA adapter", got, "export the model instead"));
  }
  const { parameters, lora } = variant.adapter;
  await exportPeft(folder, { family: familyNamed(model.architecture.family), adapter: parameters, lora, base });
  const note = { base, fingerprint: baseFingerprint(model.architecture, model.base), targets: lora.targets };
  await writeFile(join(folder, noteName), `${JSON.stringify(note, null, 2)}\n`);
}

/** Reads an adapter for this base. One that was saved here on another base is refused; PEFT's own say no more than shapes. */
export async function loadAdapterFolder(folder: string, { model, base }: Base): Promise<Adapter> {
  const note = await readNote(join(folder, noteName));
  const fingerprint = baseFingerprint(model.architecture, model.base);
  if (note !== undefined && note.fingerprint !== fingerprint) {
    const got = `one of ${note.base} (fingerprint ${note.fingerprint})`;
    throw new ModelError(expected(`adapter ${folder}`, `an adapter of ${base} (fingerprint ${fingerprint})`, got, "open its own base"));
  }
  const family = familyNamed(model.architecture.family);
  const targets = note === undefined ? {} : { targets: note.targets };
  return readPeft(folder, { family, architecture: model.architecture, ...targets });
}

async function readNote(path: string): Promise<z.infer<typeof noteSchema> | undefined> {
  const text = await readFile(path, "utf8").catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  });
  if (text === undefined) return undefined;
  try {
    return noteSchema.parse(JSON.parse(text));
  } catch (cause) {
    const got = cause instanceof z.ZodError ? z.prettifyError(cause).replaceAll("\n", " ") : messageOf(cause);
    throw new ModelError(expected(path, "base, fingerprint and targets", got), { cause });
  }
}
