/** Fetches models from the Hugging Face hub (or a mirror of it) into the cache: resumable, verified, all or nothing per file. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { ModelError, expected } from "../../../errors.ts";
import { cacheFolder, defaultCacheDir } from "./cache.ts";
import type { RemoteFile } from "./download.ts";
import { download, isComplete, requestWithRetries } from "./download.ts";

export interface PullProgress {
  /** The file being fetched. */
  readonly file: string;
  /** Bytes of the whole pull that are on disk, and that there are. */
  readonly done: number;
  readonly total: number;
  /** Bytes that came over the network in this pull. */
  readonly fetched: number;
  /** Since the start of this pull, without what was on disk before. */
  readonly bytesPerSecond: number;
}

interface PullOptions {
  /** Branch, tag or commit; default "main". */
  readonly revision?: string;
  /** Default: `HF_ENDPOINT`, or https://huggingface.co. */
  readonly endpoint?: string;
  /** Default: `FLYWHEEL_CACHE`, or `~/.cache/flywheel`. */
  readonly cacheDir?: string;
  /** Access token for gated and private models; default `HF_TOKEN`. */
  readonly token?: string;
  /** Name of one .gguf file to fetch alone, instead of safetensors, configuration and tokenizer. */
  readonly gguf?: string;
  readonly onProgress?: (progress: PullProgress) => void;
  readonly signal?: AbortSignal;
  /** First pause before a retry, doubled at each; default 500. */
  readonly retryMilliseconds?: number;
}

const modelSchema = z.looseObject({
  sha: z.string().nullish(),
  siblings: z.array(
    z.looseObject({
      rfilename: z.string(),
      size: z.int().nonnegative().nullish(),
      blobId: z.string().nullish(),
      lfs: z.looseObject({ sha256: z.string(), size: z.int().nonnegative() }).nullish(),
    }),
  ),
});

const wanted = [
  /^config\.json$/,
  /^tokenizer.*\.json$/,
  /^generation_config\.json$/,
  /^chat_template\.(jinja|json)$/,
  /\.safetensors\.index\.json$/,
];
/** Weights in the original author's layout are left out: the same numbers under other names. */
const weightFile = /^(?!consolidated).*\.safetensors$/;

/**
 * Brings a model into the cache and returns its folder. What is there and intact is not fetched again; a broken download
 * continues where it stopped. ModelError for an unknown or gated model, no network, a wrong checksum, or a full disk.
 */
export async function pullModel(id: string, options: PullOptions = {}): Promise<string> {
  const revision = options.revision ?? "main";
  const endpoint = (options.endpoint ?? process.env["HF_ENDPOINT"] ?? "https://huggingface.co").replace(/\/+$/, "");
  if (!URL.canParse(endpoint)) throw new ModelError(expected("endpoint", "a URL such as https://huggingface.co", JSON.stringify(endpoint)));
  const folder = cacheFolder(options.cacheDir ?? defaultCacheDir(), id, revision);
  const context = requestContext(options, { id, revision, folder });
  const listing = await listFiles(`${endpoint}/api/models/${id}/revision/${encodeURIComponent(revision)}?blobs=true`, context);
  const files = choose(listing, options.gguf, `${id} at ${revision}`);
  await mkdir(folder, { recursive: true }).catch((cause: Error) => {
    throw new ModelError(expected(folder, "a writable folder", cause.message), { cause });
  });
  const meter = progressMeter(files, options.onProgress);
  for (const file of files) {
    const target = join(folder, file.name);
    if (await isComplete(target, file)) {
      meter.skip(file);
      continue;
    }
    const url = `${endpoint}/${id}/resolve/${encodeURIComponent(listing.sha ?? revision)}/${encodeURIComponent(file.name)}`;
    await download(url, target, { ...context, file, onBytes: (count, fresh) => meter.add(file, count, fresh) });
  }
  return folder;
}

interface Pulled {
  readonly id: string;
  readonly revision: string;
  readonly folder: string;
}

function requestContext(options: PullOptions, { id, revision, folder }: Pulled) {
  const token = options.token ?? process.env["HF_TOKEN"];
  return {
    what: `model ${id} at ${revision}`,
    folder,
    headers: { "accept-encoding": "identity", ...(token === undefined || token === "" ? {} : { authorization: `Bearer ${token}` }) },
    retryMilliseconds: options.retryMilliseconds ?? 500,
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  };
}

type Listing = z.infer<typeof modelSchema>;

async function listFiles(url: string, context: ReturnType<typeof requestContext>): Promise<Listing> {
  const body = await requestWithRetries(url, { ...context, consume: (response) => response.text() });
  try {
    return modelSchema.parse(JSON.parse(body));
  } catch (cause) {
    throw new ModelError(expected(url, "a model description with its files", JSON.stringify(body.slice(0, 60))), { cause });
  }
}

/** Small files first, so that a mistake shows before gigabytes were fetched. */
function choose(listing: Listing, gguf: string | undefined, what: string): RemoteFile[] {
  // Names with a folder are other formats of the same model; a name from a server never leaves the cache folder.
  const all = listing.siblings.filter(({ rfilename }) => /^[\w][\w.+ -]*$/.test(rfilename)).map(toRemoteFile);
  const ggufs = all.filter(({ name }) => name.endsWith(".gguf"));
  if (gguf !== undefined) {
    const one = ggufs.filter(({ name }) => name === gguf);
    if (one.length === 1) return one;
    throw new ModelError(expected(what, `a file named ${gguf}`, ggufs.map(({ name }) => name).join(", ") || "no .gguf file"));
  }
  const weights = all.filter(({ name }) => weightFile.test(name));
  if (weights.length === 0) {
    const got = ggufs.map(({ name }) => name).join(", ") || all.map(({ name }) => name).slice(0, 8).join(", ") || "no files";
    throw new ModelError(expected(what, "safetensors weights", got, ggufs.length > 0 ? "name one .gguf file" : "choose another model"));
  }
  return [...all.filter(({ name }) => wanted.some((pattern) => pattern.test(name))), ...weights];
}

function toRemoteFile({ rfilename, size, blobId, lfs }: Listing["siblings"][number]): RemoteFile {
  const length = lfs?.size ?? size ?? undefined;
  const digest = lfs ? ({ type: "sha256", hex: lfs.sha256 } as const) : blobId ? ({ type: "gitBlob", hex: blobId } as const) : undefined;
  return { name: rfilename, ...(length === undefined ? {} : { size: length }), ...(digest === undefined ? {} : { digest }) };
}

function progressMeter(files: readonly RemoteFile[], report: PullOptions["onProgress"]) {
  const total = files.reduce((sum, file) => sum + (file.size ?? 0), 0);
  const started = performance.now();
  let done = 0;
  let fetched = 0;
  const tell = (file: RemoteFile): void => {
    const seconds = Math.max(1e-3, (performance.now() - started) / 1000);
    report?.({ file: file.name, done, total: Math.max(total, done), fetched, bytesPerSecond: fetched / seconds });
  };
  return {
    skip(file: RemoteFile): void {
      done += file.size ?? 0;
      tell(file);
    },
    /** `count` bytes more (or fewer, when a file starts again); `fresh` of them came over the network. */
    add(file: RemoteFile, count: number, fresh: number): void {
      done += count;
      fetched += fresh;
      tell(file);
    },
  };
}
