/** Tools that something stands behind (a process, an index, a service), which is let go of when they are closed. */
import type { Tool } from "../../types.ts";

/** Use it with `await using`, or close it when the last episode has ended. */
export interface ToolSet extends AsyncDisposable {
  readonly tools: readonly Tool[];
}
