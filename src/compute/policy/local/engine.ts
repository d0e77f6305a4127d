/** The embedded engine: one set of arrays for sampling and training, behind the same interface that remote engines have. */
import { PolicyError } from "../../../errors.ts";
import type {
  AdamWOptions,
  AdapterOptions,
  Batch,
  Directions,
  Engine,
  EngineInfo,
  ForwardBackwardResult,
  Loss,
  OnAdapter,
  OptimResult,
  PolicyVersion,
  SampledSpan,
  SampleRequest,
  TrainRow,
} from "../../../types.ts";
import type { Architecture } from "../../models/architecture.ts";
import { Pool, type HostTensor } from "../../tensor/host.ts";
import { Adapters, type Trained } from "./adapters.ts";
import type { Machine } from "./forward.ts";
import { LocalModel } from "./model.ts";
import { checkMoved, takeProbe, type Probe } from "./probe.ts";
import { Programs } from "./programs.ts";
import { Sampler, type SamplerOptions } from "./sampler.ts";
import { scoreRows } from "./scoring.ts";
import { hashOf, loadAdapterState, loadState, saveAdapterState, saveState } from "./state.ts";
import type { Trainer, TrainerOptions } from "./trainer.ts";

export interface LocalEngineOptions extends Partial<TrainerOptions>, Partial<SamplerOptions> {
  readonly name: string;
  readonly architecture: Architecture;
  readonly parameters: ReadonlyMap<string, HostTensor>;
  readonly train: Trained;
  /** Keep the weights as they are now under the adapter name "reference". */
  readonly reference?: boolean;
  readonly seed?: number;
  /** Where the base can be found again (a hub id or a path), noted in saved adapters; default: the name. */
  readonly source?: string;
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
  /** The policy's. */
  readonly trainer: Trainer;
  readonly sampler: Sampler;
  readonly #machine: Machine;
  readonly #adapters: Adapters;
  readonly #settings: TrainerOptions;
  #version = 0 as PolicyVersion;
  /** Of the policy's weights; "changing" while an update or a load writes the shared arrays. */
  #state: "published" | "changing" | "stepped" = "published";
  /** Another adapter than the policy whose arrays are being written. */
  #writing: string | undefined;
  /** Work on weights and gradients is done one piece after another, whoever asks. */
  #turn: Promise<unknown> = Promise.resolve();
  #waiting = 0;
  /** An update with a gradient and a rate above 0 was made since the last publication, so the probe must move. */
  #mustMove = false;
  #probe: Probe | undefined;
  #closing: Promise<void> | undefined;

  private constructor(options: LocalEngineOptions) {
    const { architecture, parameters, train, reference = false, seed = 0, name, source = name, ...rest } = options;
    this.model = new LocalModel(architecture, parameters);
    this.#machine = { model: this.model, programs: new Programs(architecture), pool: new Pool() };
    this.#settings = { ...defaults, ...rest };
    this.#adapters = new Adapters(this.#machine, { train, reference, seed, source, settings: this.#settings });
    this.trainer = this.#adapters.policy;
    this.sampler = new Sampler(this.#machine, { ...defaults, ...rest });
    const count = (map: ReadonlyMap<string, HostTensor>): number => [...map.values()].reduce((n, { data }) => n + data.length, 0);
    const { model } = this;
    this.info = {
      model: name,
      family: architecture.family,
      parameters: count(parameters),
      trainable: count(this.trainer.trainable),
      vocabulary: architecture.vocabulary,
      contextLength: architecture.context,
      get adapters() {
        return model.variants;
      },
    };
  }

  /** Opens an engine on parameters in memory; the arrays are used as they are, and trained in place. */
  static open(options: LocalEngineOptions): LocalEngine {
    return new LocalEngine(options);
  }

  get version(): PolicyVersion {
    return this.#version;
  }

  async sample(request: SampleRequest): Promise<readonly SampledSpan[]> {
    this.#refuseClosed("sample");
    if (this.#state === "changing" || this.#writing === (request.adapter ?? "policy"))
      throw new PolicyError("sample: the weights are being updated; await optimStep() or load(), then publish()");
    if (this.#state === "stepped") throw new PolicyError("sample: the weights were updated and not published; call publish() first");
    return this.sampler.sample(request, this.#version);
  }

  #refuseClosed(what: string): void {
    if (this.#closing !== undefined) throw new PolicyError(`${what}: the engine is closed`);
  }

  async #inTurn<T>(what: string, body: () => Promise<T>): Promise<T> {
    this.#refuseClosed(what);
    this.#waiting++;
    const result = this.#turn.then(body).finally(() => void this.#waiting--);
    this.#turn = result.catch(() => undefined);
    return result;
  }

  /** Work that is done at once may not come between the parts of other work. */
  #atOnce<T>(what: string, body: () => T): T {
    this.#refuseClosed(what);
    if (this.#waiting > 0) throw new PolicyError(`${what}: the engine is at work; await the running call first`);
    return body();
  }

  /** Weights of an adapter may be written: none of its sequences is being sampled (for the policy: none at all). */
  #refuseWhileSampling(what: string, adapter = "policy"): void {
    if (adapter === "policy" ? this.sampler.busy : this.sampler.isSampling(adapter))
      throw new PolicyError(`${what}: sequences are being sampled with these weights; await them first`);
  }

  /** An adapter's weights were written: the policy's must be published; of others, the caches of the old ones are dropped. */
  #changed(adapter: string, { moved }: { moved: boolean }): void {
    if (adapter !== "policy") return this.sampler.forgetVariant(adapter);
    this.#state = "stepped";
    if (moved) this.#mustMove = true;
  }

  #score(read: "logprobs" | "values", rows: readonly TrainRow[], { adapter = "policy", signal }: OnAdapter): Promise<Float32Array[]> {
    return scoreRows(this.#machine, rows, { ...this.#settings, read, variant: adapter, signal });
  }

  async logprobs(rows: readonly TrainRow[], options: OnAdapter = {}): Promise<readonly Float32Array[]> {
    return this.#inTurn("logprobs", () => this.#score("logprobs", rows, options));
  }

  async values(rows: readonly TrainRow[], options: OnAdapter & { readonly adapter: string }): Promise<readonly Float32Array[]> {
    return this.#inTurn("values", () => this.#score("values", rows, options));
  }

  async forwardBackward(batch: Batch, loss: Loss, { adapter = "policy", signal }: OnAdapter = {}): Promise<ForwardBackwardResult> {
    const trainer = this.#adapters.trainer(adapter, "forwardBackward");
    return this.#inTurn("forwardBackward", () => trainer.forwardBackward(batch, loss, signal));
  }

  async optimStep({ adapter = "policy", ...options }: AdamWOptions & { readonly adapter?: string }): Promise<OptimResult> {
    const trainer = this.#adapters.trainer(adapter, "optimStep");
    return this.#inTurn("optimStep", async () => {
      this.#refuseWhileSampling("optimStep", adapter);
      const before = this.#state;
      if (adapter === "policy") this.#state = "changing";
      this.#writing = adapter;
      let result: OptimResult | undefined;
      try {
        return (result = await trainer.optimStep(options));
      } finally {
        this.#state = before;
        this.#writing = undefined;
        this.#machine.pool.trim(keptFree);
        if (result?.type === "stepped") this.#changed(adapter, { moved: result.gradNorm > 0 && options.learningRate > 0 });
      }
    });
  }

  addAdapter(name: string, options: AdapterOptions): void {
    this.#atOnce("addAdapter", () => this.#adapters.add(name, options));
  }

  blendAdapter(from: string, to: string, keep: number): void {
    this.#atOnce("blendAdapter", () => {
      this.#refuseWhileSampling("blendAdapter", to);
      if (this.#adapters.blend(from, to, keep)) this.#changed(to, { moved: false });
    });
  }

  async saveAdapter(name: string, folder: string): Promise<void> {
    await this.#inTurn("saveAdapter", () => this.#adapters.writeFolder(name, folder));
  }

  async loadAdapter(name: string, folder: string): Promise<void> {
    await this.#inTurn("loadAdapter", async () => {
      const adapter = await this.#adapters.readFolder(folder);
      this.#refuseWhileSampling("loadAdapter", name);
      this.#adapters.receive(name, adapter);
      if (name === "policy") this.#probe = undefined;
      this.#changed(name, { moved: false });
    });
  }

  /** One adapter with its moments and update count, bitwise, into an existing folder. */
  async saveAdapterState(name: string, folder: string): Promise<void> {
    await this.#inTurn("saveAdapterState", () => saveAdapterState(folder, this.#adapters.one(name, "saveAdapterState")));
  }

  /** Puts such a state into an adapter of the same kind. */
  async loadAdapterState(name: string, folder: string): Promise<void> {
    await this.#inTurn("loadAdapterState", async () => {
      const beforeWrite = (): void => this.#refuseWhileSampling("loadAdapterState", name);
      await loadAdapterState(folder, this.#adapters.one(name, "loadAdapterState"), beforeWrite);
      this.#changed(name, { moved: true });
    });
  }

  directions(adapter = "policy"): Directions {
    const trainer = this.#adapters.trainer(adapter, "directions");
    return {
      takeGradient: () => this.#atOnce("takeGradient", () => trainer.takeGradient()),
      move: (direction, scale) =>
        this.#atOnce("move", () => {
          this.#refuseWhileSampling("move", adapter);
          if (trainer.move(direction, scale)) this.#changed(adapter, { moved: true });
        }),
    };
  }

  /**
   * Makes the trained weights the sampled ones. Nothing is copied (they are the same arrays): keys and values of older weights
   * are dropped, and a probe is sampled and scored again by the trainer; both must agree to 1e-4, and after an update (with a
   * gradient and a rate above 0) the probe's log-probs must have moved. A publication that fails leaves the engine as it was: not sampling.
   */
  async publish(): Promise<PolicyVersion> {
    return this.#inTurn("publish", () => this.#publish());
  }

  async #publish(): Promise<PolicyVersion> {
    this.#refuseWhileSampling("publish");
    const changed = this.#state === "stepped";
    this.sampler.forget();
    const read = (rows: readonly TrainRow[]): Promise<Float32Array[]> => this.#score("logprobs", rows, {});
    if (this.#mustMove && this.#probe !== undefined) await checkMoved(read, this.#probe);
    this.#probe = await takeProbe(this.sampler, read, { vocabulary: this.info.vocabulary, version: this.#version });
    if (changed) this.#version = (this.#version + 1) as PolicyVersion;
    this.#mustMove = false;
    this.#state = "published";
    return this.#version;
  }

  /** Hash of the policy's trained weights; equal hashes mean equal bits. */
  weightsHash(): string {
    return hashOf(this.trainer.trainable);
  }

  async save(folder: string): Promise<void> {
    await this.#inTurn("save", () => saveState(folder, { adapters: this.#adapters, version: this.#version }));
  }

  async load(folder: string): Promise<void> {
    await this.#inTurn("load", async () => {
      this.#refuseWhileSampling("load");
      const beforeWrite = (): void => {
        this.#refuseWhileSampling("load"); // a request may have come while the files were read
        this.#state = "changing";
      };
      this.#version = await loadState(folder, { adapters: this.#adapters, beforeWrite });
      this.#probe = undefined;
      this.#mustMove = false;
      await this.#publish();
    });
  }

  /** Waits for work on weights, ends what is still being sampled with an error, and frees all memory. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#turn;
    await this.sampler.stop();
    await this.#machine.programs.close();
    this.#adapters.close();
    this.sampler.forget();
    this.#machine.pool.trim();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
