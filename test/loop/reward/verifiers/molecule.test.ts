import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { molecule } from "../../../../src/loop/reward/verifiers/molecule.ts";
import { describeMolecule, tanimoto } from "../../../../src/loop/reward/verifiers/molecule/rdkit.ts";

interface Golden {
  readonly smiles: string;
  readonly canonical: string;
  readonly flat: string;
  readonly inchi: string;
  readonly similarity: number;
  readonly syntheticAccessibility: number;
  readonly [property: string]: string | number;
}
const golden = JSON.parse(readFileSync("test/golden/molecules.json", "utf8")) as {
  readonly molecules: readonly Golden[];
  readonly invalid: readonly string[];
};
const limits = { seconds: 20, signal: undefined };
const verify = async (
  options: Parameters<typeof molecule>[0],
  answer: string,
  gold: Parameters<ReturnType<typeof molecule>["verify"]>[0]["gold"],
) => {
  const verdict = await molecule({ seconds: 20, ...options }).verify({ answer, gold });
  return verdict.type === "scored" ? verdict.score : `${verdict.type}: ${verdict.reason}`;
};

test("agrees with RDKit for Python on every stored molecule", async () => {
  const first = (await describeMolecule(golden.molecules[0]!.smiles, limits))!;
  for (const wanted of golden.molecules) {
    const got = (await describeMolecule(wanted.smiles, limits))!;
    const { canonical, flat, inchi } = got;
    expect({ canonical, flat, inchi }).toEqual({ canonical: wanted.canonical, flat: wanted.flat, inchi: wanted.inchi });
    for (const name of ["weight", "logP", "tpsa", "qed", "rings", "donors", "acceptors", "rotatable"] as const) {
      expect([wanted.smiles, name, got[name]]).toEqual([wanted.smiles, name, expect.closeTo(wanted[name] as number, 6)]);
    }
    expect(tanimoto(first.fingerprint, got.fingerprint)).toBeCloseTo(wanted.similarity, 12);
  }
  for (const smiles of golden.invalid) expect([smiles, await describeMolecule(smiles, limits)]).toEqual([smiles, null]);
});

test.each([
  ["OCC", "CCO", 1],
  ["C(O)C", "CCO", 1],
  ["CCN", "CCO", 0],
  ["", "CCO", 0],
  [" ", "CCO", 0],
  ["C", "CCO", 0],
  ["`OCC`", "CCO", 1],
  ["CCO CCN", "CCO", 0],
  ["*", "CCO", 0],
  ["CCO>>CC", "CCO", 0],
  ["InChI=1S/C2H6O/c1-2-3/h3H,2H2,1H3", "CCO", 0],
  ["C1CC", "CCO", 0],
  ["N[C@@H](C)C(=O)O", "N[C@H](C)C(=O)O", 0],
  ["NC(C)C(=O)O", "N[C@H](C)C(=O)O", 0],
  ["C/C=C/C", "C/C=C\\C", 0],
  ["C[C@H](N)C(=O)O", "N[C@@H](C)C(=O)O", 1],
  ["C1=CC=CC=C1", "c1ccccc1", 1],
  ["[13CH4]", "C", 0],
  ["CCO.[Na+].[Cl-]", "CCO", 0],
])("identity of %j with %j: %d", async (answer, gold, score) => expect(await verify({}, answer, gold)).toBe(score));

test("stereo and tautomers are what the option says", async () => {
  expect(await verify({ identity: "connectivity" }, "NC(C)C(=O)O", "N[C@H](C)C(=O)O")).toBe(1);
  expect(await verify({ identity: "tautomer" }, "Oc1ccccn1", "O=c1cccc[nH]1")).toBe(1);
  expect(await verify({ identity: "stereo" }, "Oc1ccccn1", "O=c1cccc[nH]1")).toBe(0);
  expect(await verify({ identity: "tautomer" }, "Cc1c[nH]cn1", "Cc1cnc[nH]1")).toBe(1);
  // Standard InChI holds keto and enol apart.
  expect(await verify({ identity: "tautomer" }, "CC(O)=CC(C)=O", "CC(=O)CC(C)=O")).toBe(0);
  expect(await verify({ identity: "tautomer" }, "N[C@@H](C)C(=O)O", "N[C@H](C)C(=O)O")).toBe(0);
});

test("validity, alternatives, golds that are none", async () => {
  expect(await verify({ mode: "valid" }, "c1ccccc1", null)).toBe(1);
  expect(await verify({ mode: "valid" }, "", null)).toBe(0);
  expect(await verify({ mode: "valid" }, "c1cccc1", null)).toBe(0);
  expect(await verify({}, "CCN", ["CCO", "NCC"])).toBe(1);
  expect(await verify({}, "CCN", "C1CC")).toMatch(/^unscorable: the gold "C1CC"/);
  expect(await verify({}, "CCN", [])).toMatch(/^unscorable/);
  expect(() => molecule({ mode: "guess" as "valid" })).toThrow(
    /molecule verifier: mode: expected one of identity, valid, targets, got guess/,
  );
});

test("targets earn the fraction that is met, or all or nothing", async () => {
  const aspirin = "CC(=O)Oc1ccccc1C(=O)O";
  const gold = { logP: { min: 1, max: 2 }, weight: { max: 200 }, tpsa: { max: 60 }, qed: { min: 0.5 } };
  expect(await verify({ mode: "targets" }, aspirin, gold)).toBe(0.75);
  expect(await verify({ mode: "targets", credit: "all" }, aspirin, gold)).toBe(0);
  expect(await verify({ mode: "targets" }, aspirin, { similarity: { to: aspirin, min: 1 } })).toBe(1);
  expect(await verify({ mode: "targets" }, "CCO", { similarity: { to: aspirin, min: 0.5 } })).toBe(0);
  expect(await verify({ mode: "targets" }, aspirin, { beauty: { min: 1 } })).toMatch(
    /unscorable: the gold names beauty, not one of weight/,
  );
  expect(await verify({ mode: "targets" }, aspirin, { logP: {} })).toMatch(/unscorable: the gold's logP has no "min" or "max"/);
});

test("synthetic accessibility is RDKit for Python's, or says how to get it", async () => {
  const missing = await verify({ mode: "targets", python: "/nonexistent/python" }, "CCO", { syntheticAccessibility: { max: 10 } });
  expect(missing).toBe(
    "infrastructure: synthetic accessibility needs RDKit in /nonexistent/python; install it with: pip install rdkit, and name that Python",
  );
  const python = process.env["FLYWHEEL_PYTHON"] ?? "/usr/bin/python3";
  for (const { smiles, syntheticAccessibility: wanted } of golden.molecules.slice(0, 2)) {
    const range = { syntheticAccessibility: { min: wanted - 1e-6, max: wanted + 1e-6 } };
    const got = await verify({ mode: "targets", python }, smiles, range);
    if (got !== 1) expect(got).toMatch(/^infrastructure: synthetic accessibility needs RDKit/);
  }
});
