/** Learning-rate schedules, as transformers' `get_scheduler` has them. */

interface Schedule {
  readonly base: number;
  readonly schedule: "constant" | "linear" | "cosine";
  /** Updates over which the rate rises from 0. */
  readonly warmup: number;
  readonly total: number;
}

/** The rate of update `update` (the first is 0): update / warmup while warming up, then 1, 1 - p or (1 + cos(pi p)) / 2 times the base. */
export function learningRateAt(update: number, { base, schedule, warmup, total }: Schedule): number {
  if (update < warmup) return (base * update) / warmup;
  const progress = Math.min(1, (update - warmup) / Math.max(1, total - warmup));
  switch (schedule) {
    case "constant":
      return base;
    case "linear":
      return base * (1 - progress);
    case "cosine":
      return (base * (1 + Math.cos(Math.PI * progress))) / 2;
  }
}
