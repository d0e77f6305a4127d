/**
 * Synthetic accessibility (Ertl and Schuffenhauer 2009, doi:10.1186/1758-2946-1-8), from 1 (easy) to 10. Its table of fragments is some
 * megabytes and comes with RDKit for Python, so a process of the user's Python computes it.
 */
import { execFile } from "node:child_process";
import { infrastructure } from "../verifier.ts";
import type { Verdict } from "../../../../types.ts";

const PROGRAM = `
import os, sys
from rdkit import Chem, RDConfig
sys.path.append(os.path.join(RDConfig.RDContribDir, "SA_Score"))
import sascorer
mol = Chem.MolFromSmiles(sys.stdin.read().strip())
print(sascorer.calculateScore(mol))
`;

export function syntheticAccessibility(
  smiles: string,
  { python, signal }: { readonly python: string; readonly signal: AbortSignal | undefined },
): Promise<number | Verdict> {
  return new Promise((resolve, reject) => {
    const options = {
      timeout: 30_000,
      killSignal: "SIGKILL",
      env: {},
      maxBuffer: 4096,
      ...(signal === undefined ? {} : { signal }),
    } as const;
    const child = execFile(python, ["-c", PROGRAM], options, (error, stdout) => {
      const score = stdout.trim() === "" ? Number.NaN : Number(stdout.trim());
      if (signal?.aborted === true) reject(signal.reason as Error);
      else if (error === null && Number.isFinite(score)) resolve(score);
      else
        resolve(
          infrastructure(`synthetic accessibility needs RDKit in ${python}; install it with: pip install rdkit, and name that Python`),
        );
    });
    child.stdin?.on("error", () => undefined);
    child.stdin?.end(smiles);
  });
}
