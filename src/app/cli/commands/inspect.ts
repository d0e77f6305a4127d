/** `flywheel inspect`: one recorded rollout, token by token. */
import { type Command, InvalidArgumentError } from "commander";
import { RunError, expected, visible } from "../../../errors.ts";
import { type RunRecord, type TrajectoryKind, readRun, readTrajectories, trajectorySteps } from "../../../train/record/read-run.ts";
import type { RolloutRecord } from "../../../train/record/trajectory-codec.ts";
import { decodeAsIds } from "../../../train/report/token-text.ts";
import type { CliServices } from "../services.ts";
import { painter, wantsColour } from "../ui/colour.ts";
import { rolloutTable, rolloutView } from "../ui/rollout-view.ts";

interface InspectOptions {
  readonly step?: number;
  readonly rollout?: string;
  readonly eval?: boolean;
  readonly tokens?: boolean;
}

export function registerInspect(program: Command, services: CliServices): void {
  program
    .command("inspect")
    .description("show recorded rollouts: turns, tokens, advantages, verdict")
    .argument("<run>", "run folder, for example runs/demo")
    .option("-s, --step <n>", "training step (default: that of --rollout, or the last)", stepNumber)
    .option("-r, --rollout <id>", "which rollout (default: the list, and the first)")
    .option("-e, --eval", "rollouts of the held-out evaluation after the step")
    .option("-t, --tokens", "add a table of every token with its log-prob and advantage")
    .action((run: string, options: InspectOptions) => inspect(run, options, services));
}

async function inspect(folder: string, options: InspectOptions, services: CliServices): Promise<void> {
  const run = await readRun(folder);
  const kind: TrajectoryKind = options.eval === true ? "eval" : "step";
  const step = options.step ?? (await stepOf(run, kind, options.rollout));
  const records = await readTrajectories(folder, kind, step);
  if (records.length === 0 && run.ledger.length > 0 && run.ledger.every(({ rollouts }) => rollouts.length === 0) && kind === "step") {
    const want = "a run that samples while it trains";
    throw new RunError(expected(`run ${folder}`, want, "one on given examples", "see report, or --eval for held-out rollouts"));
  }
  if (records.length === 0)
    throw new RunError(
      expected(`run ${folder}`, `recorded rollouts of ${kind} ${step}`, "none", `recorded are ${await recorded(run, kind)}`),
    );
  const chosen = choose(records, options.rollout, `${folder}, ${kind} ${step}`);
  const paint = painter(wantsColour(services.stdout, services.environment));
  const decode = await services.decoderFor(run.config);
  if (decode === null) services.stderr.write("the model's tokenizer is not at hand: tokens are shown as ids\n");
  const head = kind === "step" ? `step ${step} of ${run.ledger.length}` : `evaluation after step ${step}`;
  const skipped = kind === "step" ? run.ledger[step - 1]?.skipped : undefined;
  const lines = [paint(head, "bold") + (skipped === undefined ? "" : `  skipped: ${visible(skipped)}`), ""];
  if (options.rollout === undefined) lines.push(...rolloutTable(records, paint), "");
  lines.push(...rolloutView(chosen, { decode: decode ?? decodeAsIds, paint, tokens: options.tokens === true }));
  services.stdout.write(`${lines.join("\n")}\n`);
}

async function stepOf(run: RunRecord, kind: TrajectoryKind, rollout: string | undefined): Promise<number> {
  if (rollout !== undefined && kind === "step") {
    const entry = run.ledger.find(({ rollouts }) => rollouts.includes(rollout));
    if (entry === undefined)
      throw new RunError(expected(`run ${run.folder}`, "the id of a recorded rollout", rollout, "list them with --step"));
    return entry.step;
  }
  const steps = (await trajectorySteps(run.folder, kind)).filter((step) => step <= run.ledger.length);
  const last = steps.at(-1);
  if (last === undefined)
    throw new RunError(
      expected(`run ${run.folder}`, "recorded rollouts", `none of ${kind === "step" ? "a training step" : "an evaluation"} yet`),
    );
  return last;
}

function choose(records: readonly RolloutRecord[], id: string | undefined, where: string): RolloutRecord {
  const found = id === undefined ? records[0] : records.find(({ scored }) => scored.trajectory.id === id);
  if (found === undefined) {
    const known = records
      .slice(0, 3)
      .map(({ scored }) => scored.trajectory.id)
      .join(", ");
    throw new RunError(expected(where, `the id of a rollout, such as ${known}`, String(id)));
  }
  return found;
}

async function recorded(run: RunRecord, kind: TrajectoryKind): Promise<string> {
  const steps = await trajectorySteps(run.folder, kind);
  return steps.length === 0 ? "no steps" : `steps ${steps[0]} to ${steps.at(-1)}`;
}

function stepNumber(value: string): number {
  if (!/^\d+$/.test(value)) throw new InvalidArgumentError("expected a step number.");
  return Number(value);
}
