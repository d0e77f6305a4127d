/** Processor, memory and runtime of this machine. */
import { readFile } from "node:fs/promises";
import { arch, availableParallelism, cpus, freemem, platform, release, totalmem } from "node:os";
import * as ort from "onnxruntime-node";

export interface Hardware {
  readonly node: string;
  readonly platform: string;
  readonly cpu: {
    readonly model: string;
    readonly cores: number;
    /** Vector extensions that speed matrix products up; null where the system does not list them. */
    readonly extensions: readonly string[] | null;
  };
  readonly memory: { readonly totalBytes: number; readonly freeBytes: number };
  readonly runtime: { readonly version: string; readonly providers: readonly string[] };
}

/** Names in /proc/cpuinfo, and what they are called. */
const extensionNames: Readonly<Record<string, string>> = {
  avx2: "AVX2",
  fma: "FMA",
  avx512f: "AVX-512",
  avx512_vnni: "AVX-512 VNNI",
  amx_tile: "AMX",
  asimd: "NEON",
  sve: "SVE",
};

export async function readHardware(): Promise<Hardware> {
  const info = await readFile("/proc/cpuinfo", "utf8").catch(() => undefined);
  const flags = /^(?:flags|Features)\s*:(.*)$/m.exec(info ?? "")?.[1]?.trim().split(/\s+/);
  const extensions = Object.entries(extensionNames).flatMap(([flag, name]) => (flags?.includes(flag) === true ? [name] : []));
  // In a container the limit counts, where there is one.
  const limit = process.constrainedMemory() ?? 0;
  const totalBytes = limit > 0 && limit < totalmem() ? limit : totalmem();
  return {
    node: process.version,
    platform: `${platform()} ${release()} ${arch()}`,
    cpu: {
      model: (cpus()[0]?.model ?? "").trim() || "unknown processor",
      cores: availableParallelism(),
      extensions: flags === undefined ? null : extensions,
    },
    memory: { totalBytes, freeBytes: Math.min(freemem(), totalBytes) },
    runtime: {
      version: ort.env.versions.node ?? ort.env.versions.common,
      providers: ort.listSupportedBackends().map(({ name, bundled }) => (bundled ? name : `${name} (not bundled)`)),
    },
  };
}
