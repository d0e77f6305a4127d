/** RDKit's WebAssembly build in a worker: canonical forms, descriptors, fingerprints and pattern matches of one SMILES. */
import type { Json } from "../../../../types.ts";
import { WorkerPool } from "../worker-pool.ts";
import { ACCEPTORS, ALERTS, ALIPHATIC_RINGS, type QedProperty } from "./qed-data.ts";
import { cyclesLeft, qed } from "./qed.ts";

export interface Molecule {
  /** Canonical SMILES with stereo and isotopes. */
  readonly canonical: string;
  /** Canonical SMILES without them. */
  readonly flat: string;
  /** Standard InChI: the same for tautomers that differ by mobile hydrogens. */
  readonly inchi: string;
  readonly weight: number;
  readonly logP: number;
  readonly tpsa: number;
  readonly qed: number;
  readonly heavyAtoms: number;
  readonly donors: number;
  readonly acceptors: number;
  readonly rotatable: number;
  readonly rings: number;
  /** Morgan, radius 2, 2,048 bits, as "0" and "1". */
  readonly fingerprint: string;
}

const SOURCE = `
let rdkit, patterns;
const start = async () => {
  rdkit = await require(paths["@rdkit/rdkit"])({ print: () => {}, printErr: () => {} });
};
const prepared = (request) => patterns ??= {
  acceptors: request.acceptors.map((smarts) => rdkit.get_qmol(smarts)),
  alerts: request.alerts.map((smarts) => rdkit.get_qmol(smarts)),
  rings: rdkit.get_qmol(request.rings),
};
const handle = (request) => {
  const mol = rdkit.get_mol(request.smiles);
  if (mol === null) return null;
  try {
    if (!mol.is_valid() || mol.get_num_atoms() === 0) return null;
    const { acceptors, alerts, rings } = prepared(request);
    const matches = (query) => { const found = JSON.parse(mol.get_substruct_matches(query)); return Array.isArray(found) ? found : []; };
    const graph = JSON.parse(mol.get_json()).molecules[0];
    return {
      canonical: mol.get_smiles(), flat: mol.get_smiles('{"doIsomericSmiles":false}'), inchi: mol.get_inchi(),
      descriptors: JSON.parse(mol.get_descriptors()), fingerprint: mol.get_morgan_fp('{"radius":2,"nBits":2048}'),
      acceptors: acceptors.reduce((sum, query) => sum + matches(query).length, 0),
      alerts: alerts.filter((query) => mol.get_substruct_match(query) !== "{}").length,
      aliphatic: matches(rings).flatMap((match) => match.atoms),
      atoms: graph.atoms.length, bonds: (graph.bonds ?? []).map((bond) => bond.atoms),
    };
  } finally { mol.delete(); }
};`;

interface Described {
  readonly canonical: string;
  readonly flat: string;
  readonly inchi: string;
  readonly descriptors: Readonly<Record<string, number>>;
  readonly fingerprint: string;
  readonly acceptors: number;
  readonly alerts: number;
  readonly aliphatic: readonly number[];
  readonly atoms: number;
  readonly bonds: readonly (readonly [number, number])[];
}

let shared: WorkerPool | null = null;

/** null: no molecule. Rejects as `WorkerPool.run` does. */
export async function describeMolecule(
  smiles: string,
  limits: { readonly seconds: number; readonly signal: AbortSignal | undefined },
): Promise<Molecule | null> {
  shared ??= new WorkerPool({ source: SOURCE, modules: ["@rdkit/rdkit"], heapMb: 512 });
  const request: Json = { smiles, acceptors: ACCEPTORS, alerts: ALERTS, rings: ALIPHATIC_RINGS };
  const found = (await shared.run(request, limits)).value as unknown as Described | null;
  return found === null ? null : moleculeOf(found);
}

function moleculeOf({ descriptors, ...found }: Described): Molecule {
  const value = (name: string): number => descriptors[name]!;
  const counted: { readonly [P in QedProperty]: number } = {
    weight: value("amw"),
    logP: value("CrippenClogP"),
    acceptors: found.acceptors,
    donors: value("NumHBD"),
    tpsa: value("tpsa"),
    rotatable: value("NumRotatableBonds"),
    aromatic: cyclesLeft(found.atoms, found.bonds, new Set(found.aliphatic)),
    alerts: found.alerts,
  };
  return {
    canonical: found.canonical,
    flat: found.flat,
    inchi: found.inchi,
    fingerprint: found.fingerprint,
    weight: counted.weight,
    logP: counted.logP,
    tpsa: counted.tpsa,
    qed: qed(counted),
    heavyAtoms: value("NumHeavyAtoms"),
    donors: value("NumHBD"),
    acceptors: value("NumHBA"),
    rotatable: value("NumRotatableBonds"),
    rings: value("NumRings"),
  };
}

/** Shared bits by all bits, 0 to 1. */
export function tanimoto(a: string, b: string): number {
  let [both, either] = [0, 0];
  for (let i = 0; i < a.length; i++) {
    if (a[i] === "1" && b[i] === "1") both++;
    if (a[i] === "1" || b[i] === "1") either++;
  }
  return either === 0 ? 0 : both / either;
}
