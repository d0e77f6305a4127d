/** The live detectors of a run, and what is done when one of them speaks: a note, an end, or an end with the last good weights. */
import type { Algorithm, Group } from "../types.ts";
import { CollapseDetector, healthOf, type Collapse, type Health } from "./collapse.ts";
import type { RunContext } from "./keep.ts";
import { dropCheckpointsAfter, readCheckpoint } from "./record/checkpoint.ts";
import type { Evaluation } from "./evaluate/evaluate.ts";
import { RewardPartsDetector } from "./reward-parts.ts";
import { SignalDetector, signalOf, type SignalMeasures } from "./signal.ts";

interface StepFacts {
  readonly step: number;
  readonly groups: readonly Group[];
  /** Mean of k1 to the reference, where there is one. */
  readonly kl: number | undefined;
  /** The last one. */
  readonly evaluation: Evaluation | undefined;
}

interface Observed {
  readonly signals: SignalMeasures;
  readonly health: Health;
  /** The run ends with this step. */
  readonly ends: boolean;
}

type Watched = RunContext & { readonly algorithm: Pick<Algorithm, "critic" | "settings"> };

/** Steps in a row with mostly cut episodes, after which a critic that stands in for their scores is told of. */
const patience = 3;

export class Watch {
  readonly #context: Watched;
  readonly #signal: SignalDetector;
  readonly #parts = new RewardPartsDetector();
  readonly #detector: CollapseDetector;
  #collapse: Collapse | undefined;
  #mostlyCut = 0;

  constructor(context: Watched) {
    const { config, run } = context;
    this.#context = context;
    this.#signal = new SignalDetector(config.rollout.maxTokens);
    this.#detector = new CollapseDetector(run.resumedFrom?.manifest.extra["collapse"]);
  }

  /** What the detectors remember, for the checkpoint. */
  get state(): CollapseDetector["state"] {
    return this.#detector.state;
  }

  /** Throws if the grader fails; notes what else is wrong. */
  observe({ step, groups, kl, evaluation }: StepFacts): Observed {
    const { observer, config } = this.#context;
    const signals = signalOf(groups);
    const health = healthOf(groups, kl);
    for (const warning of [this.#signal.observe(signals), this.#parts.observe(groups, evaluation)]) {
      if (warning !== undefined) observer.onNote?.(warning);
    }
    this.#mostlyCut = signals.truncated > 0.5 ? this.#mostlyCut + 1 : 0;
    if (this.#mostlyCut === patience && this.#scoresUnused) {
      const remedy = "raise rollout.maxTokens or rollout.maxTurns, or set algo.cutEpisodes to score";
      observer.onNote?.(`most episodes were cut by a limit, and the critic's value stands in place of their scores; ${remedy}`);
    }
    this.#collapse = this.#detector.observe(step, health);
    if (this.#collapse !== undefined && config.train.onCollapse === "warn") {
      observer.onNote?.(`step ${step}: the policy may be collapsing: ${this.#collapse.sign}`);
    }
    return { signals, health, ends: this.#collapse !== undefined && config.train.onCollapse !== "warn" };
  }

  get #scoresUnused(): boolean {
    const { critic, settings } = this.#context.algorithm;
    return critic !== undefined && settings["cutEpisodes"] === "bootstrap";
  }

  /** Called when the step is committed and `observe` said that it is the last: why, and what the run's weights now are. */
  async end(step: number): Promise<string> {
    const { run, config, policy, observer } = this.#context;
    const { sign, since } = this.#collapse!;
    const reason = `stopped after step ${step}: ${sign}`;
    const stopped = config.train.onCollapse === "stop" ? `${reason}; the weights are those of this step` : `${reason}; ${await back()}`;
    observer.onNote?.(stopped);
    return stopped;

    async function back(): Promise<string> {
      await dropCheckpointsAfter(run.folder, since - 1, "collapsed");
      const { checkpoint } = await readCheckpoint(run);
      if (checkpoint === null) return "no checkpoint was written before it began; lower train.checkpointEvery";
      await policy.engine.load(checkpoint.folder);
      return `back at the weights of step ${checkpoint.manifest.step}, the last checkpoint before it began`;
    }
  }
}
