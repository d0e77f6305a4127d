/** Content hash of JSON, independent of key order, and the keys in which two JSON objects differ. */
import { createHash } from "node:crypto";
import type { Json, JsonObject } from "../../types.ts";

/** JSON with sorted keys and no spaces: equal values have equal text. */
function canonicalJson(value: Json): string {
  if (Array.isArray(value)) return `[${value.map((item: Json) => canonicalJson(item)).join(",")}]`;
  if (!isObject(value)) return JSON.stringify(value);
  const parts = Object.keys(value)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonicalJson(value[key] as Json)}`);
  return `{${parts.join(",")}}`;
}

export function fingerprint(value: JsonObject): string {
  return createHash("sha256").update(canonicalJson(value)).digest("hex");
}

/** Hash of what makes a run the same run: its whole configuration, but for the number of steps where the learning rate is constant. */
export function runHash(config: JsonObject): string {
  const { optim, train } = config;
  if (!isObject(train ?? null) || !isObject(optim ?? null) || (optim as JsonObject)["schedule"] !== "constant") return fingerprint(config);
  const { steps: _, ...rest } = train as JsonObject;
  return fingerprint({ ...config, train: rest });
}

/** `algo.klCoef (0 -> 0.1)` for each leaf that differs, in key order. */
export function differences(before: Json, after: Json, path = ""): string[] {
  if (isObject(before) && isObject(after)) {
    const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
    return keys.flatMap((key) => differences(before[key] ?? null, after[key] ?? null, path === "" ? key : `${path}.${key}`));
  }
  const [a, b] = [canonicalJson(before), canonicalJson(after)];
  return a === b ? [] : [`${path} (${a} -> ${b})`];
}

function isObject(value: Json): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
