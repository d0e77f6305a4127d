import { setMaxListeners } from "node:events";

/**
 * Runs jobs with at most `concurrency` at the same time; results come in the order of the jobs. The first failure aborts the signal
 * that the others hold, and is thrown when all of them have ended: nothing goes on behind the caller's back.
 */
export async function runPool<T>(
  jobs: readonly ((signal: AbortSignal) => Promise<T>)[],
  { concurrency, signal: outer }: { readonly concurrency: number; readonly signal?: AbortSignal },
): Promise<T[]> {
  const failed = new AbortController();
  const signal = outer === undefined ? failed.signal : AbortSignal.any([outer, failed.signal]);
  setMaxListeners(0, signal); // every job may listen
  const results = new Array<T>(jobs.length);
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < jobs.length && !signal.aborted) {
      const index = next++;
      results[index] = await jobs[index]!(signal);
    }
  };
  const guarded = async (): Promise<void> => {
    try {
      await worker();
    } catch (cause) {
      failed.abort(cause);
    }
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, jobs.length) }, guarded));
  signal.throwIfAborted();
  return results;
}
