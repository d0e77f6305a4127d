/** QED from counted properties (Bickerton et al. 2012): the weighted geometric mean of eight desirabilities. */
import { DESIRABILITY, type Desirability, type QedProperty } from "./qed-data.ts";

/** 0 to 1. */
export function qed(properties: { readonly [P in QedProperty]: number }): number {
  let sum = 0;
  let total = 0;
  for (const [name, table] of Object.entries(DESIRABILITY) as [QedProperty, Desirability][]) {
    sum += table.importance * Math.log(desirability(properties[name], table));
    total += table.importance;
  }
  return Math.exp(sum / total);
}

/** The asymmetric double sigmoid of the paper, scaled to a maximum of 1. */
function desirability(x: number, { a, b, c, d, e, f, most }: Desirability): number {
  const rise = 1 + Math.exp(-(x - c + d / 2) / e);
  const fall = 1 + Math.exp(-(x - c - d / 2) / f);
  return (a + (b / rise) * (1 - 1 / fall)) / most;
}

/** Independent cycles of what is left of a graph after some atoms are taken away: edges - nodes + components. */
export function cyclesLeft(atoms: number, bonds: readonly (readonly [number, number])[], removed: ReadonlySet<number>): number {
  const parent = Array.from({ length: atoms }, (_, i) => i);
  const root = (node: number): number => {
    while (parent[node] !== node) node = parent[node] = parent[parent[node]!]!;
    return node;
  };
  let cycles = 0;
  for (const [from, to] of bonds) {
    if (removed.has(from) || removed.has(to)) continue;
    const [a, b] = [root(from), root(to)];
    if (a === b) cycles++;
    else parent[a] = b;
  }
  return cycles;
}
