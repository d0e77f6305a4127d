/** Tells base models apart, cheaply: a hash over the architecture and a few values of every tensor. */
import { createHash } from "node:crypto";
import type { Architecture } from "./architecture.ts";
import type { Parameters } from "./parameters.ts";

const samples = 64;

/** 16 hexadecimal digits; models whose sampled values all agree are taken for the same. */
export function baseFingerprint(architecture: Architecture, parameters: Parameters): string {
  const hash = createHash("sha256").update(JSON.stringify(architecture));
  for (const [name, { floats, shape }] of parameters) {
    const step = Math.max(1, Math.floor(floats.length / samples));
    const values = Float32Array.from({ length: Math.min(samples, floats.length) }, (_, i) => floats[i * step]!);
    hash.update(`${name}[${shape.join()}]`).update(new Uint8Array(values.buffer));
  }
  return hash.digest("hex").slice(0, 16);
}
