/** Tasks that a function makes from their number. */
import { ConfigError, expected } from "../../errors.ts";
import type { Task, TaskSource } from "../../types.ts";

/** `make` must give the same task for the same index, always. An index outside of the source is refused. */
export function generatedTasks(name: string, size: number, make: (index: number) => Task): TaskSource {
  return {
    size,
    at(index) {
      if (Number.isInteger(index) && index >= 0 && index < size) return make(index);
      throw new ConfigError(expected(`${name} task`, `an index from 0 to ${size - 1}`, String(index)));
    },
  };
}
