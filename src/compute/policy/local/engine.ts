/** The embedded engine: one set of arrays for sampling and training, behind the same interface that remote engines have. */
import { PolicyError } from "../../../errors.ts";
import type {
  AdamWOptions,
  Batch,
  Directions,
  Engine,
  EngineInfo,
  ForwardBackwardResult,
  Loss,
  OptimResult,
  PolicyVersion,
  SampledSpan,
  SampleRequest,
  TrainRow,
} from "../../../types.ts";
import type { Architecture } from "../../models/architecture.ts";
import { initialLora, type LoraOptions } from "../../models/lora.ts";
import { Pool, type HostTensor } from "../../tensor/host.ts";
import type { Machine } from "./forward.ts";
import { copyOf, LocalModel } from "./model.ts";
import { checkMoved, takeProbe, type Probe } from "./probe.ts";
import { Programs } from "./programs.ts";
import { Sampler, type SamplerOptions } from "./sampler.ts";
import { hashOf, loadState, saveState } from "./state.ts";
import { Trainer, type TrainerOptions } from "./trainer.ts";

export interface LocalEngineOptions extends Partial<TrainerOptions>, Partial<SamplerOptions> {
  readonly name: string;
  readonly architecture: Architecture;
  readonly parameters: ReadonlyMap<string, HostTensor>;
  /** Which weights are trained: all, a low-rank adapter, or none. */
  readonly train:
    | { readonly type: "full" }
    | { readonly type: "lora"; readonly lora: LoraOptions; readonly initial?: ReadonlyMap<string, HostTensor> }
    | { readonly type: "none" };
  /** Keep the weights as they are now under the adapter name "reference". */
  readonly reference?: boolean;
  readonly seed?: number;
}

const defaults = {
  microBatchTokens: 2048,
  residualBudget: 1.5e9,
  logitBudget: 0.5e9,
  maxRows: 64,
  cacheBudget: 2e9,
  retainBudget: 1e9,
  prefillTokens: 1024,
} as const;

/** Free buffers that outlive an optimiser step, in bytes. */
const keptFree = 0.5e9;

export class LocalEngine implements Engine {
  readonly info: EngineInfo;
  readonly model: LocalModel;
  readonly trainer: Trainer;
  readonly sampler: Sampler;
  readonly #machine: Machine;
  #version = 0 as PolicyVersion;
  /** "changing" while an update or a load writes the shared arrays. */
  #state: "published" | "changing" | "stepped" = "published";
  /** Work on weights and gradients is done one piece after another, whoever asks. */
  #turn: Promise<unknown> = Promise.resolve();
  /** An update with a gradient and a rate above 0 was made since the last publication, so the probe must move. */
  #mustMove = false;
  #probe: Probe | undefined;

  private constructor(options: LocalEngineOptions) {
    const { architecture, parameters, train, reference = false, seed = 0, name, ...rest } = options;
    this.model = new LocalModel(architecture, parameters);
    this.#machine = { model: this.model, programs: new Programs(architecture), pool: new Pool() };
    const trainable =
      train.type === "full"
        ? parameters
        : train.type === "lora"
          ? (train.initial ?? initialLora(architecture, train.lora, seed))
          : new Map<string, HostTensor>();
    this.model.setVariant("base", { type: "base" });
    this.model.setVariant(
      "policy",
      train.type === "lora" ? { type: "lora", adapter: { parameters: trainable, lora: train.lora } } : { type: "base" },
    );
    if (reference) this.#keepReference(train, trainable);
    const settings = { ...defaults, ...rest };
    this.trainer = new Trainer(this.#machine, { ...settings, variant: "policy", trainable });
    this.sampler = new Sampler(this.#machine, settings);
    const count = (map: ReadonlyMap<string, HostTensor>): number => [...map.values()].reduce((n, { data }) => n + data.length, 0);
    this.info = {
      model: name,
      family: architecture.family,
      parameters: count(parameters),
      trainable: count(trainable),
      vocabulary: architecture.vocabulary,
      contextLength: architecture.context,
      adapters: this.model.variants,
    };
  }

  /** Opens an engine on parameters in memory; the arrays are used as they are, and trained in place. */
  static open(options: LocalEngineOptions): LocalEngine {
    return new LocalEngine(options);
  }

  #keepReference(train: LocalEngineOptions["train"], trainable: ReadonlyMap<string, HostTensor>): void {
    const untouched = train.type === "none" || (train.type === "lora" && train.initial === undefined);
    if (untouched) this.model.setVariant("reference", { type: "base" });
    else if (train.type === "full") this.model.setVariant("reference", { type: "full", parameters: copyOf(trainable) });
    else if (train.type === "lora")
      this.model.setVariant("reference", { type: "lora", adapter: { parameters: copyOf(trainable), lora: train.lora } });
  }

  get version(): PolicyVersion {
    return this.#version;
  }

  async sample(request: SampleRequest): Promise<readonly SampledSpan[]> {
    if (this.#state === "changing")
      throw new PolicyError("sample: the weights are being updated; await optimStep() or load(), then publish()");
    if (this.#state === "stepped") throw new PolicyError("sample: the weights were updated and not published; call publish() first");
    return this.sampler.sample(request, this.#version);
  }

  #inTurn<T>(body: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(body);
    this.#turn = result.catch(() => undefined);
    return result;
  }

  #refuseWhileSampling(what: string): void {
    if (this.sampler.busy) throw new PolicyError(`${what}: sequences are being sampled with these weights; await them first`);
  }

  async logprobs(
    rows: readonly TrainRow[],
    { adapter = "policy", signal }: { readonly adapter?: string; readonly signal?: AbortSignal } = {},
  ): Promise<readonly Float32Array[]> {
    return this.#inTurn(() => this.trainer.logprobs(rows, adapter, signal));
  }

  async forwardBackward(batch: Batch, loss: Loss, { signal }: { readonly signal?: AbortSignal } = {}): Promise<ForwardBackwardResult> {
    if (this.trainer.trainable.size === 0)
      throw new PolicyError("forwardBackward: the model was opened for sampling only; open it with train: full or lora");
    return this.#inTurn(() => this.trainer.forwardBackward(batch, loss, signal));
  }

  async optimStep(options: AdamWOptions): Promise<OptimResult> {
    return this.#inTurn(async () => {
      this.#refuseWhileSampling("optimStep");
      const before = this.#state;
      this.#state = "changing";
      let stepped = false;
      try {
        const result = await this.trainer.optimStep(options);
        stepped = result.type === "stepped";
        this.#machine.pool.trim(keptFree);
        if (result.type === "stepped" && result.gradNorm > 0 && options.learningRate > 0) this.#mustMove = true;
        return result;
      } finally {
        this.#state = stepped ? "stepped" : before;
      }
    });
  }

  /**
   * Makes the trained weights the sampled ones. Nothing is copied (they are the same arrays): keys and values of older weights
   * are dropped, and a probe is sampled and scored again by the trainer; both must agree to 1e-4, and after an update (with a
   * gradient and a rate above 0) the probe's log-probs must have moved. A publication that fails leaves the engine as it was: not sampling.
   */
  async publish(): Promise<PolicyVersion> {
    return this.#inTurn(() => this.#publish());
  }

  async #publish(): Promise<PolicyVersion> {
    this.#refuseWhileSampling("publish");
    const changed = this.#state === "stepped";
    this.sampler.forget();
    if (this.#mustMove && this.#probe !== undefined) await checkMoved(this.trainer, this.#probe);
    this.#probe = await takeProbe(this.sampler, this.trainer, { vocabulary: this.info.vocabulary, version: this.#version });
    if (changed) this.#version = (this.#version + 1) as PolicyVersion;
    this.#mustMove = false;
    this.#state = "published";
    return this.#version;
  }

  values(): Promise<readonly Float32Array[]> {
    throw noAdapters();
  }

  addAdapter(): void {
    throw noAdapters();
  }

  blendAdapter(): void {
    throw noAdapters();
  }

  saveAdapter(): Promise<void> {
    throw noAdapters();
  }

  loadAdapter(): Promise<void> {
    throw noAdapters();
  }

  directions(): Directions {
    throw noAdapters();
  }

  /** Hash of the trained weights; equal hashes mean equal bits. */
  weightsHash(): string {
    return hashOf(this.trainer.trainable);
  }

  async save(folder: string): Promise<void> {
    await this.#inTurn(() => saveState(folder, { trainer: this.trainer, version: this.#version }));
  }

  async load(folder: string): Promise<void> {
    await this.#inTurn(async () => {
      this.#refuseWhileSampling("load");
      const beforeWrite = (): void => {
        this.#refuseWhileSampling("load"); // a request may have come while the files were read
        this.#state = "changing";
      };
      this.#version = await loadState(folder, { trainer: this.trainer, beforeWrite });
      this.#probe = undefined;
      this.#mustMove = false;
      await this.#publish();
    });
  }

  async close(): Promise<void> {
    await this.#turn;
    await this.#machine.programs.close();
    await this.trainer.close();
    this.sampler.forget();
    this.#machine.pool.trim();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

const noAdapters = (): PolicyError => new PolicyError("this engine has the policy's own weights alone");
