/**
 * How an algorithm is written: its settings as a closed schema, what makes no sense, and the parts that it is made of. The result is a
 * function of settings, used alike by `train({ algo: { name: "…" } })` and by programs that hold the loop themselves.
 */
import { z } from "zod";
import { ConfigError, expected } from "../errors.ts";
import type { Algorithm, JsonObject, OfflineAlgorithm } from "../types.ts";

type Settings<Shape extends z.ZodRawShape> = z.output<z.ZodObject<Shape>>;

interface Definition<Name extends string, Shape extends z.ZodRawShape, Made> {
  readonly name: Name;
  readonly paper: string;
  /** Each with a default: fields of config-fields.ts. */
  readonly config: Shape;
  /** Combinations that make no sense, each as "algo.a and algo.b: what is wrong; what to do"; `defaults` tell what was changed. */
  readonly refuse?: (settings: Settings<Shape>, defaults: Settings<Shape>) => readonly string[];
  readonly build: (settings: Settings<Shape>) => Omit<Made, "kind" | "name" | "paper" | "settings">;
}

export interface AlgorithmFactory<Name extends string, Shape extends z.ZodRawShape, Made> {
  (options?: Partial<z.input<z.ZodObject<Shape>>>): Made;
  readonly id: Name;
  /** The settings with the name, as a configuration has them. */
  readonly config: z.ZodObject<Shape & { readonly name: z.ZodLiteral<Name> }>;
  readonly refuse: (settings: Settings<Shape>) => readonly string[];
}

function define<Name extends string, Shape extends z.ZodRawShape, Made>(
  kind: "sampled" | "offline",
  { name, paper, config, refuse = () => [], build }: Definition<Name, Shape, Made>,
): AlgorithmFactory<Name, Shape, Made> {
  const schema = z.strictObject(config);
  const contradictions = (settings: Settings<Shape>): readonly string[] => refuse(settings, schema.parse({}));
  const make = (options: Partial<z.input<z.ZodObject<Shape>>> = {}): Made => {
    const parsed = schema.safeParse(options, { reportInput: true });
    if (!parsed.success) {
      const issue = parsed.error.issues[0]!;
      if (issue.code === "unrecognized_keys")
        throw new ConfigError(expected(`${name} settings`, `some of ${Object.keys(config).join(", ")}`, issue.keys.join(", ")));
      throw new ConfigError(`${["algo", ...issue.path].join(".")}: ${issue.message}`);
    }
    const settings = parsed.data as Settings<Shape>;
    const [problem] = contradictions(settings);
    if (problem !== undefined) throw new ConfigError(problem);
    return { kind, name, paper, settings: JSON.parse(JSON.stringify(settings)) as JsonObject, ...build(settings) } as Made;
  };
  const named = z.strictObject({ name: z.literal(name), ...config });
  return Object.assign(make, { id: name, config: named, refuse: contradictions });
}

/** An algorithm that learns from its own samples. Throws a ConfigError for settings that are wrong or contradict each other. */
export function defineAlgorithm<const Name extends string, Shape extends z.ZodRawShape>(
  definition: Definition<Name, Shape, Algorithm>,
): AlgorithmFactory<Name, Shape, Algorithm> {
  return define("sampled", definition);
}

/** An algorithm that learns from examples that are given. */
export function defineOffline<const Name extends string, Shape extends z.ZodRawShape>(
  definition: Definition<Name, Shape, OfflineAlgorithm>,
): AlgorithmFactory<Name, Shape, OfflineAlgorithm> {
  return define("offline", definition);
}
