/**
 * The configuration of a training run: a closed schema. An unknown key, a word for a number or a truthy string is refused before
 * anything is loaded; every accepted key is part of the hash that a resumed run must equal.
 */
import { z } from "zod";
import { algorithms, openAlgorithm } from "../algo/registry.ts";
import { ConfigError, expected } from "../errors.ts";
import type { Algorithm, JsonObject, OfflineAlgorithm } from "../types.ts";
import { compactionPolicies } from "../loop/rollout/compaction.ts";
import { listOf, namedOptions, nearest, oneOf, real, show, suggestion, text, whole } from "../config-fields.ts";
import { fingerprint } from "./record/fingerprint.ts";

/** The matrices of a transformer block that LoRA can adapt. */
const LORA_TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"] as const;

const path = text(/\S/, "a folder, a .gguf or .safetensors file, or a hub id", "which model to train");

/** Default: rank 16, alpha 32 (scale alpha / rank = 2), every matrix of a block; the base stays and is the reference policy. */
const lora = z.strictObject({
  path,
  adapter: z.literal("lora"),
  rank: whole({ min: 1, max: 1024 }, 16, "the rank of the LoRA matrices"),
  alpha: real({ above: 0, max: 4096 }, 32, "LoRA scale is alpha / rank"),
  targets: listOf(LORA_TARGETS, LORA_TARGETS, "the matrices that LoRA adapts"),
});
const full = z.strictObject({ path, adapter: z.literal("full") });

/** One shape an algorithm, from its own file. */
const algo = z.discriminatedUnion(
  "name",
  algorithms.map(({ config }) => config) as unknown as readonly [(typeof algorithms)[number]["config"]],
  { error: (issue) => choiceProblem(issue.input, "name", algorithms.map(({ id }) => id)) },
);

const rollout = z.strictObject({
  tasksPerStep: whole({ min: 1, max: 65_536 }, 8, "prompts of one step"),
  /** For each sampled turn; TRL's default of 256 cuts most answers of a reasoning model, hence 512. */
  maxTokens: whole({ min: 1, max: 1_048_576 }, 512, "most tokens of one sampled turn"),
  maxTurns: whole({ min: 1, max: 1024 }, 8, "most assistant turns of one episode"),
  /** 1: the policy's own distribution, the one whose gradient is taken. */
  temperature: real({ above: 0, max: 10 }, 1, "sampling temperature"),
  concurrency: whole({ min: 1, max: 65_536 }, 64, "episodes that run at the same time"),
  deadlineSeconds: real({ above: 0, max: 86_400 }, 300, "longest time of one episode"),
  /** Lockstep makes a run with asynchronous tools repeatable to the last bit; each turn then waits for the slowest tool. */
  pace: oneOf(["free", "lockstep"], "free", "whether turns wait for those of all running episodes"),
  /** A long row is left, and the next begins with the prompt, what is told of the turns left out, and the last turns. */
  compaction: oneOf(compactionPolicies, "none", "how turns that are left out of a long context are told"),
  compactAt: whole({ min: 0, max: 16_777_216 }, 0, "tokens of a row beyond which it is left; 0 is three quarters of the context"),
  keepTurns: whole({ min: 0, max: 1024 }, 4, "last turns that stay whole when a row is left"),
});

/** AdamW as in TRL and transformers (0.9, 0.999, 1e-8, no decay, clip at 1). */
const optim = z.strictObject({
  /** Default by what is trained: GRPO full 1e-6 (TRL, verl), LoRA ten times that; SFT full 2e-5, LoRA 2e-4. */
  learningRate: real({ above: 0, max: 1 }, 1e-6, "step size of AdamW").unwrap().optional(),
  schedule: oneOf(["constant", "linear", "cosine"], "constant", "shape of the learning rate after the warm-up"),
  warmupSteps: whole({ min: 0, max: 999_999 }, 0, "steps over which the learning rate rises from 0"),
  beta1: real({ min: 0, below: 1 }, 0.9, "decay of the first moment"),
  beta2: real({ min: 0, below: 1 }, 0.999, "decay of the second moment"),
  epsilon: real({ above: 0, max: 1 }, 1e-8, "added to the root of the second moment"),
  weightDecay: real({ min: 0, max: 10 }, 0, "decoupled decay of matrices"),
  maxGradNorm: real({ min: 0, max: 1e6 }, 1, "global norm above which gradients are scaled down; 0 turns it off"),
});

const train = z.strictObject({
  steps: whole({ min: 1, max: 999_999 }, 100, "training steps"),
  /** Compares algorithms at equal cost: what dynamic sampling throws away is counted too. */
  maxSampledTokens: whole({ min: 0, max: 1e12 }, 0, "sampled tokens after which a run ends with the step it is in; 0 is no limit"),
  /** Bounds memory; it never changes the result, since divisors are taken over the whole step. */
  microBatchTokens: whole({ min: 1, max: 16_777_216 }, 2048, "tokens of one forward and backward pass"),
  checkpointEvery: whole({ min: 1, max: 999_999 }, 10, "steps between checkpoints"),
  evalEvery: whole({ min: 0, max: 999_999 }, 10, "steps between held-out evaluations; 0 turns them off"),
  evalTasks: whole({ min: 1, max: 1_000_000 }, 64, "held-out tasks of one evaluation (all, if there are fewer)"),
  /** Offline runs: the last examples of `data`, which are evaluated at `evalEvery` and never trained on. */
  evalRows: whole({ min: 0, max: 1_000_000 }, 0, "examples kept for evaluation, from the end of the data"),
  keepCheckpoints: whole({ min: 1, max: 10_000 }, 2, "newest checkpoints kept, besides the best"),
  /** Signs: entropy, repetition, length, growth of KL (src/train/collapse.ts). */
  onCollapse: oneOf(["warn", "stop", "rollback"], "warn", "what is done when the policy falls apart"),
  resetReferenceEvery: whole({ min: 0, max: 999_999 }, 0, "steps after which the reference becomes the policy as it is; 0 never"),
  /** OpenRLHF's moving average keeps 0.992. */
  referenceDecay: real({ min: 0, below: 1 }, 0, "share that a moving-average reference keeps at each step; 0 turns it off"),
});

const inputSchema = z.strictObject({
  name: text(
    /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/,
    "a folder name of letters, digits, dot, dash and underscore",
    "the run is kept in runs/<name>",
  ),
  seed: whole({ min: 0, max: 4_294_967_295 }, 0, "the address of all randomness"),
  model: z.preprocess(
    withAdapter,
    z.discriminatedUnion("adapter", [lora, full], { error: (issue) => choiceProblem(issue.input, "adapter", ["lora", "full"]) }),
  ),
  env: namedOptions("which environment, with its own options").optional(),
  /** Examples that are trained on: dialogues, pairs, labelled answers or labelled steps, as the algorithm says. */
  data: text(/\S/, "a JSONL file of examples", "what offline algorithms train on").optional(),
  algo: algo,
  rollout: rollout.prefault({}),
  optim: optim.prefault({}),
  train: train.prefault({}),
});

/** An algorithm that was handed in has its settings already; the configuration may say its name. */
function ownAlgo({ name }: Algorithm) {
  return z.strictObject({ name: oneOf([name], name, "the algorithm that was handed in") }).prefault({});
}

type Input = z.input<typeof inputSchema>;
type Resolved = z.output<typeof inputSchema>;
/** What a person writes; everything with a default may be left out, and `algo` where an algorithm is handed in. */
export type TrainConfigInput = Omit<Input, "algo"> & { readonly algo?: Input["algo"] | { readonly name: string } };
/** What runs: every default filled in. It is plain JSON, and `planHash` covers each key of it. */
export type TrainConfig = Omit<Resolved, "optim" | "algo"> & {
  readonly algo: JsonObject & { readonly name: string };
  readonly optim: Resolved["optim"] & { readonly learningRate: number };
};

const SECTIONS: Readonly<Record<string, readonly string[]>> = {
  "": Object.keys(inputSchema.shape),
  model: Object.keys(lora.shape),
  algo: [...new Set(algorithms.flatMap(({ config }) => Object.keys(config.shape)))],
  rollout: Object.keys(rollout.shape),
  optim: Object.keys(optim.shape),
  train: Object.keys(train.shape),
};

/** Checks and completes a configuration. Throws a ConfigError that lists every problem on one line. */
export function parseTrainConfig(input: unknown, { algorithm: own }: { readonly algorithm?: Algorithm } = {}): TrainConfig {
  const schema = own === undefined ? inputSchema : inputSchema.extend({ algo: ownAlgo(own) });
  const parsed = schema.safeParse(input, { reportInput: true });
  if (!parsed.success) throw refused(parsed.error.issues.flatMap((issue) => explain(issue)));
  const config = parsed.data as Omit<Resolved, "algo"> & { readonly algo: JsonObject & { readonly name: string } };
  const settings = own === undefined ? refusals(config.algo) : [];
  if (settings.length > 0) throw refused(settings);
  const algorithm = own ?? openAlgorithm(config.algo);
  const problems = crossChecks(config, algorithm);
  if (problems.length > 0) throw refused(problems);
  return {
    ...config,
    algo: own === undefined ? config.algo : { ...own.settings, name: own.name },
    optim: { ...config.optim, learningRate: config.optim.learningRate ?? algorithm.learningRate[config.model.adapter] },
  };
}

function refused(problems: readonly string[]): ConfigError {
  const all = problems.map((problem, i) => `(${i + 1}) ${problem}`).join(" ");
  return new ConfigError(problems.length === 1 ? problems[0]! : `${problems.length} problems in the configuration: ${all}`);
}

/** Hash of a resolved configuration, every key of it. */
export function planHash(config: TrainConfig): string {
  return fingerprint(configJson(config));
}

/** The configuration as the plain JSON that config.json holds. */
export function configJson(config: TrainConfig): JsonObject {
  return JSON.parse(JSON.stringify(config)) as JsonObject;
}

/** What the algorithm's own file refuses. */
function refusals({ name, ...settings }: JsonObject & { readonly name: string }): readonly string[] {
  const refuse = algorithms.find(({ id }) => id === name)!.refuse as (settings: object) => readonly string[];
  return refuse(settings);
}

/** Keys that are right alone and make no sense together. */
function crossChecks(
  { model, optim: given, train, rollout: played }: Omit<Resolved, "algo">,
  algorithm: Algorithm | OfflineAlgorithm,
): string[] {
  const { steps, resetReferenceEvery, referenceDecay } = train;
  const { warmupSteps } = given;
  const problems: string[] = [];
  const refuse = (...parts: Parameters<typeof expected>): void => void problems.push(expected(...parts));
  if (warmupSteps >= steps) {
    const remedy = "the full learning rate would never be reached";
    refuse("optim.warmupSteps", `fewer than train.steps (${steps})`, String(warmupSteps), remedy);
  }
  for (const key of played.compaction === "none" ? (["compactAt", "keepTurns"] as const) : []) {
    const usual = rollout.parse({})[key];
    if (played[key] !== usual) refuse(`rollout.${key}`, `${usual} with rollout.compaction none`, String(played[key]), "leave it out");
  }
  const { name } = algorithm;
  const sampled = algorithm.kind === "sampled";
  const { critic, trustRegion } = sampled ? algorithm : {};
  const beside = critic !== undefined ? "critic" : trustRegion !== undefined ? "line search" : null;
  if (beside !== null && model.adapter === "full") {
    const want = `"lora" with algo.name ${name}, whose ${beside} is an adapter on the same base`;
    refuse("model.adapter", want, '"full"', 'set model.adapter to "lora"');
  }
  if (critic !== undefined && critic.warmupSteps >= steps) {
    const remedy = "the policy would never be trained";
    refuse("algo.criticWarmupSteps", `fewer than train.steps (${steps})`, String(critic.warmupSteps), remedy);
  }
  if (sampled && train.evalRows > 0) {
    const want = `nothing with ${name}, whose evaluation samples held-out tasks`;
    refuse("train.evalRows", want, String(train.evalRows), "leave it out; see train.evalTasks");
  }
  if (!sampled) problems.push(...unusedSampling({ rollout: played, train }, name));
  if (!sampled && algorithm.trains === "reward" && model.adapter !== "lora")
    refuse("model.adapter", `"lora" with ${name}, which trains an adapter with a head`, `"${model.adapter}"`, 'set it to "lora"');
  if (trustRegion !== undefined) problems.push(...unusedOptim(given, { name, learningRate: algorithm.learningRate[model.adapter] }));
  const moving = [["resetReferenceEvery", resetReferenceEvery], ["referenceDecay", referenceDecay]] as const;
  const hasReference = sampled && algorithm.needs?.includes("reference") === true;
  for (const [key, value] of moving.filter(([, value]) => value > 0)) {
    const remedy = sampled ? "give the algorithm its KL term, or leave the key out" : "leave it out";
    const why = !sampled && algorithm.needsReference ? "whose reference is the opened policy" : "which has no reference to move";
    if (!hasReference) refuse(`train.${key}`, `0 with algo.name ${name}, ${why}`, String(value), remedy);
  }
  if (resetReferenceEvery > 0 && referenceDecay > 0) {
    const both = "train.resetReferenceEvery and train.referenceDecay";
    refuse(both, "one of them to be 0", `${resetReferenceEvery} and ${referenceDecay}`, "leave one of them out");
  }
  return problems;
}

/** What only training on own samples reads; the rest of `rollout` is for held-out answers too. */
const samplingKeys = { rollout: ["temperature"], train: ["maxSampledTokens", "onCollapse"] } as const;

/** Keys of sampling that are not as they are by default, with an algorithm that is given its examples. */
function unusedSampling(given: Pick<Resolved, "rollout" | "train">, name: string): string[] {
  const usual = { rollout: rollout.parse({}), train: train.parse({}) };
  return (["rollout", "train"] as const).flatMap((section) =>
    samplingKeys[section].flatMap((key) => {
      const value: unknown = Reflect.get(given[section], key);
      if (value === Reflect.get(usual[section], key)) return [];
      return [expected(`${section}.${key}`, `nothing with ${name}, which trains on given examples`, show(value), "leave it out")];
    }),
  );
}

/** Keys of AdamW that are not as they are by default; a trust region takes its own step. */
function unusedOptim(given: Resolved["optim"], { name, learningRate }: { name: string; learningRate: number }): string[] {
  const usual: Readonly<Record<string, unknown>> = { learningRate, ...optim.parse({}) };
  const want = `nothing with algo.name ${name}, which takes no AdamW step`;
  return Object.entries(given).flatMap(([key, value]) =>
    value === undefined || value === usual[key] ? [] : [expected(`optim.${key}`, want, show(value), "leave it out")],
  );
}

function explain(issue: z.core.$ZodIssue): string[] {
  const path = issue.path.join(".");
  if (issue.code === "unrecognized_keys") return issue.keys.map((key) => unknownKey(path, key));
  if (issue.code === "invalid_type") return [`${path === "" ? "configuration" : path}: expected an object, got ${show(issue.input)}`];
  return [`${path}: ${issue.message}`];
}

/** LoRA unless said otherwise. */
function withAdapter(input: unknown): unknown {
  return typeof input === "object" && input !== null && !Array.isArray(input) && !("adapter" in input)
    ? { ...input, adapter: "lora" }
    : input;
}

function choiceProblem(input: unknown, key: string, words: readonly string[]): string {
  const found: unknown = typeof input === "object" && input !== null ? Reflect.get(input, key) : input;
  return `expected ${words.map((word) => `"${word}"`).join(" or ")}, got ${show(found)}${suggestion(found, words)}`;
}

function unknownKey(section: string, key: string): string {
  const where = section === "" ? "" : `${section}: `;
  if (SECTIONS[section]?.includes(key))
    return `${where}key ${key} has no effect with this ${section === "algo" ? "algorithm" : "adapter"}; leave it out`;
  const inside = nearest(key, SECTIONS[section] ?? []);
  if (inside !== null) return `${where}unknown key ${key} (did you mean ${inside}?)`;
  if (key === "topP" || key === "top_p" || key === "topK")
    return `${where}unknown key ${key}; training samples from the whole distribution, whose log-probs the loss needs: leave it out`;
  const elsewhere = Object.entries(SECTIONS).find(([name, keys]) => name !== section && nearest(key, keys) !== null);
  if (elsewhere === undefined) return `${where}unknown key ${key}; known are ${(SECTIONS[section] ?? []).join(", ")}`;
  const [name, keys] = elsewhere;
  return `${where}unknown key ${key} (did you mean ${name === "" ? "" : `${name}.`}${nearest(key, keys)}?)`;
}
