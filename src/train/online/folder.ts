/** The folder of an online model: which model it is of, the answers that were given, and a folder for each adapter. */
import { createHash, randomInt } from "node:crypto";
import { appendFile, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { openPolicy, type OpenedPolicy } from "../../compute/policy/open.ts";
import type { HostTensor } from "../../compute/tensor/host.ts";
import { RunError, expected } from "../../errors.ts";
import { isMissing, listFolder, makeFolder, readLines, writeWhole } from "../record/files.ts";
import { lockFolder, type FolderLock } from "../record/lock.ts";
import { isRunFolder, openTrainedPolicy } from "../trained.ts";
import type { AdapterSettings } from "./adapter.ts";
import type { Answer } from "./feedback.ts";

/** Answers that can still be learned from by their id. */
const keptAnswers = 1000;

export interface OnlineFolder {
  readonly folder: string;
  /** Makes the random numbers of two openings differ. */
  readonly session: number;
  remember(answers: readonly Answer[]): Promise<void>;
  answer(id: string): Answer | undefined;
  adapterFolder(name: string): string;
  adapters(): Promise<string[]>;
  close(): Promise<void>;
}

interface Opened {
  readonly policy: OpenedPolicy;
  readonly home: OnlineFolder;
  readonly settings: AdapterSettings;
  readonly from: "policy" | "base";
}

interface FolderOptions {
  readonly folder: string;
  readonly settings: AdapterSettings;
  readonly cacheDir: string | undefined;
}

/** Locks the folder, opens the model, and refuses a folder of another one. */
export async function openFolder(model: string, { folder, settings, cacheDir }: FolderOptions): Promise<Opened> {
  const cache = cacheDir === undefined ? {} : { cacheDir };
  await makeFolder(join(folder, "adapters"));
  const lock = await lockFolder(folder);
  let policy: OpenedPolicy | undefined;
  try {
    policy = (await isRunFolder(model)) ? await openTrainedPolicy(model, cache) : await openPolicy(model, cache);
    const { engine } = policy;
    await engine.publish();
    const variant = engine.model.variant("policy");
    // An adapter that starts as a trained one has its rank and scale.
    const shape = variant.type === "lora" ? { rank: variant.adapter.lora.rank, alpha: variant.adapter.lora.alpha } : {};
    const used = { ...settings, ...shape };
    const weights = fingerprintOf([engine.model.base, engine.trainer.trainable]);
    const facts = { model: engine.info.model, weights, rank: used.rank, alpha: used.alpha };
    await checkFacts(join(folder, "online.json"), facts);
    return { policy, home: await openHome(folder, lock), settings: used, from: variant.type === "lora" ? "policy" : "base" };
  } catch (error) {
    await policy?.[Symbol.asyncDispose]();
    await lock.release();
    throw error;
  }
}

/** A hash of the ends of all tensors: enough to tell models apart, and quick for large ones. */
function fingerprintOf(parts: readonly ReadonlyMap<string, HostTensor>[]): string {
  const hash = createHash("sha256");
  for (const [name, { floats }] of parts.flatMap((part) => [...part])) {
    hash.update(`${name} ${floats.length}`);
    for (const end of [floats.subarray(0, 256), floats.subarray(-256)])
      hash.update(new Uint8Array(end.buffer, end.byteOffset, end.byteLength));
  }
  return hash.digest("hex").slice(0, 16);
}

/** A folder belongs to the model that it was begun with: its states are adapters of that one. */
async function checkFacts(path: string, facts: Readonly<Record<string, string | number>>): Promise<void> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (cause) {
    if (!isMissing(cause)) throw cause;
    return writeWhole(path, `${JSON.stringify(facts)}\n`);
  }
  const stored = JSON.parse(text) as Record<string, unknown>;
  const other = Object.keys(facts).find((key) => stored[key] !== facts[key]);
  if (other === undefined) return;
  const remedy = "give another folder, or the model it was begun with";
  throw new RunError(expected(`${path}: ${other}`, String(facts[other]), String(stored[other]), remedy));
}

async function openHome(folder: string, lock: FolderLock): Promise<OnlineFolder> {
  const path = join(folder, "answers.jsonl");
  const lines = (await readLines(path)).lines.slice(-keptAnswers);
  const answers = new Map(lines.map((line) => JSON.parse(line) as Answer).map((answer) => [answer.id, answer]));
  await writeFile(path, lines.map((line) => `${line}\n`).join(""));
  const adapters = join(folder, "adapters");
  return {
    folder,
    session: randomInt(2 ** 32),
    remember: async (given) => {
      for (const answer of given) answers.set(answer.id, answer);
      for (const id of answers.keys()) if (answers.size > keptAnswers) answers.delete(id);
      await appendFile(path, given.map((answer) => `${JSON.stringify(answer)}\n`).join(""));
    },
    answer: (id) => answers.get(id),
    adapterFolder: (name) => join(adapters, encodeURIComponent(name).replaceAll(".", "%2E").replaceAll("*", "%2A")),
    adapters: async () => (await listFolder(adapters)).map((name) => decodeURIComponent(name)),
    close: () => lock.release(),
  };
}
