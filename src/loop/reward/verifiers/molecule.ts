/**
 * Molecules as SMILES: validity, identity with a right molecule, or properties inside wanted ranges. By RDKit's WebAssembly build in a
 * worker with limits; QED is computed here. docs/verifiers/molecule.md says what stereo and tautomers mean.
 */
import { RewardError, expected, scored } from "../../../errors.ts";
import type { Json, JsonObject, Verdict } from "../../../types.ts";
import { afterMarker } from "../final-answer.ts";
import { describeMolecule, tanimoto, type Molecule } from "./molecule/rdkit.ts";
import { syntheticAccessibility } from "./molecule/synthetic.ts";
import { shown, unscorable, verifierOf, type Verifier, type VerifierInput } from "./verifier.ts";
import { WorkerLimitError } from "./worker-pool.ts";

export interface MoleculeOptions {
  /**
   * "identity" (default): gold is a SMILES or a list of right ones. "valid": any molecule scores 1, the gold is not read. "targets": gold
   * names ranges, { "logP": { "min": 1, "max": 3 }, "similarity": { "to": "CCO", "min": 0.4 } }.
   */
  readonly mode?: "identity" | "valid" | "targets";
  /** "stereo" (default): with stereo centres, double bonds and isotopes; "connectivity": without; "tautomer": equal standard InChI. */
  readonly identity?: "stereo" | "connectivity" | "tautomer";
  /** Targets: "fraction" (default) of those that are met, or "all": 1 if every one is met, else 0. */
  readonly credit?: "fraction" | "all";
  /** If the answer contains this (case ignored), only what follows its last occurrence is read. */
  readonly after?: string;
  /** A Python with RDKit, for the target "syntheticAccessibility" alone. */
  readonly python?: string;
  readonly seconds?: number;
}

const MAX_LENGTH = 400;
/** No wildcard, no reaction, no second column. */
const SMILES = /^[A-Za-z0-9@+\-[\]()=#$:./\\%]+$/;
const NUMERIC = ["weight", "logP", "tpsa", "qed", "heavyAtoms", "donors", "acceptors", "rotatable", "rings"] as const;

export function molecule(options: MoleculeOptions = {}): Verifier {
  const { mode = "identity", identity = "stereo", credit = "fraction", seconds = 5 } = options;
  const allowed = { mode: ["identity", "valid", "targets"], identity: ["stereo", "connectivity", "tautomer"], credit: ["fraction", "all"] };
  for (const [name, value] of Object.entries({ mode, identity, credit })) {
    const words = allowed[name as keyof typeof allowed];
    if (!words.includes(value)) throw new RewardError(expected(`molecule verifier: ${name}`, `one of ${words.join(", ")}`, String(value)));
  }
  if (!(seconds > 0)) throw new RewardError(expected("molecule verifier: seconds", "above 0", String(seconds)));
  return verifierOf("molecule", async (input) => {
    try {
      return await grade(input, { python: "/usr/bin/python3", ...options, mode, identity, credit, seconds });
    } catch (cause) {
      if (cause instanceof WorkerLimitError) return unscorable(`cannot decide: ${cause.message}`);
      throw cause;
    }
  });
}

type Settings = MoleculeOptions & Required<Omit<MoleculeOptions, "after">>;

async function grade(input: VerifierInput, settings: Settings): Promise<Verdict> {
  const limits = { seconds: settings.seconds, signal: input.signal };
  const text = afterMarker(input.answer, settings.after)
    .replace(/^[\s`"'*]+|[\s`"'*]+$/g, "")
    .replace(/\.$/, "");
  const read = async (smiles: string): Promise<Molecule | null> =>
    smiles.length === 0 || smiles.length > MAX_LENGTH || !SMILES.test(smiles) ? null : describeMolecule(smiles, limits);
  const wanted = settings.mode === "identity" ? await goldMolecules(input.gold, read) : [];
  if (typeof wanted === "string") return unscorable(wanted);
  const targets = settings.mode === "targets" ? targetsOf(input.gold) : [];
  if (typeof targets === "string") return unscorable(targets);
  const given = await read(text);
  if (given === null) return scored(0, text === "" ? "the answer is empty" : `"${shown(text)}" is no molecule`, { valid: 0 });
  if (settings.mode === "valid") return scored(1, `${given.canonical} is a molecule`, { valid: 1 });
  if (settings.mode === "targets") return judgeTargets(given, targets, { read, settings, signal: input.signal });
  const same = wanted.some((each) => formOf(each, settings.identity) === formOf(given, settings.identity));
  return scored(same ? 1 : 0, `${given.canonical} is ${same ? "" : "not "}${wanted.map(({ canonical }) => canonical).join(" or ")}`, {
    valid: 1,
  });
}

function formOf({ canonical, flat, inchi }: Molecule, identity: "stereo" | "connectivity" | "tautomer"): string {
  return { stereo: canonical, connectivity: flat, tautomer: inchi }[identity];
}

async function goldMolecules(gold: Json, read: (smiles: string) => Promise<Molecule | null>): Promise<readonly Molecule[] | string> {
  const all = Array.isArray(gold) ? (gold as readonly Json[]) : [gold];
  const molecules: Molecule[] = [];
  for (const each of all) {
    const known = typeof each === "string" ? await read(each.trim()) : null;
    if (known === null) return `the gold ${shown(JSON.stringify(each), 60)} is no molecule`;
    molecules.push(known);
  }
  return molecules.length === 0 ? "the gold has no molecule" : molecules;
}

interface Target {
  readonly name: (typeof NUMERIC)[number] | "similarity" | "syntheticAccessibility";
  readonly min: number;
  readonly max: number;
  readonly to: string;
}

function targetsOf(gold: Json): readonly Target[] | string {
  if (gold === null || typeof gold !== "object" || Array.isArray(gold) || Object.keys(gold).length === 0)
    return "the gold names no targets";
  const names = [...NUMERIC, "similarity", "syntheticAccessibility"] as const;
  const targets: Target[] = [];
  for (const [key, range] of Object.entries(gold as JsonObject)) {
    const name = names.find((each) => each === key);
    if (name === undefined) return `the gold names ${shown(key, 40)}, not one of ${names.join(", ")}`;
    const { min = -Infinity, max = Infinity, to = "" } = (range ?? {}) as { min?: Json; max?: Json; to?: Json };
    const bounded = typeof min === "number" && typeof max === "number" && (min > -Infinity || max < Infinity);
    if (!bounded || typeof to !== "string" || (name === "similarity") !== (to !== ""))
      return `the gold's ${key} has no "min" or "max"${name === "similarity" ? ' or no "to"' : ""}`;
    targets.push({ name, min, max, to });
  }
  return targets;
}

interface Judging {
  readonly read: (smiles: string) => Promise<Molecule | null>;
  readonly settings: Settings;
  readonly signal: AbortSignal | undefined;
}

async function judgeTargets(given: Molecule, targets: readonly Target[], { read, settings, signal }: Judging): Promise<Verdict> {
  const values: Record<string, number> = { valid: 1 };
  const said: string[] = [];
  let met = 0;
  for (const { name, min, max, to } of targets) {
    let value: number;
    if (name === "similarity") {
      const other = await read(to);
      if (other === null) return unscorable(`the gold's similarity.to is no molecule: ${shown(to, 60)}`);
      value = tanimoto(given.fingerprint, other.fingerprint);
    } else if (name === "syntheticAccessibility") {
      const score = await syntheticAccessibility(given.canonical, { python: settings.python, signal });
      if (typeof score !== "number") return score;
      value = score;
    } else value = given[name];
    const inside = value >= min && value <= max;
    if (inside) met++;
    values[name] = value;
    said.push(`${name} ${value.toFixed(2)} ${inside ? "is" : "is not"} in ${min}..${max}`);
  }
  const share = met / targets.length;
  return scored(settings.credit === "fraction" ? share : share === 1 ? 1 : 0, `${given.canonical}: ${said.join("; ")}`, values);
}
