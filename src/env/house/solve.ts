/** The shortest way through a house, with all of it known. */
import { atStart, commandsOf, isWon, obey, type HouseState } from "./game.ts";
import type { House } from "./map.ts";

/** The shortest commands that take the lamp, from the start or from a state. */
export function solve(house: House, from: HouseState = atStart): readonly string[] {
  const name = ({ room, held, opened }: HouseState): string => [room, [...held].sort().join(), [...opened].sort().join()].join(";");
  const known = new Set([name(from)]);
  let edge: { readonly state: HouseState; readonly way: readonly string[] }[] = [{ state: from, way: [] }];
  while (edge.length > 0) {
    const next: typeof edge = [];
    for (const { state, way } of edge) {
      if (isWon(state)) return way;
      for (const command of commandsOf(house, state)) {
        const after = obey(house, state, command);
        if (known.has(name(after))) continue;
        known.add(name(after));
        next.push({ state: after, way: [...way, command] });
      }
    }
    edge = next;
  }
  throw new Error("house: expected a way to the lamp, got none");
}
