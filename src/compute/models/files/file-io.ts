/** Exact reads, and writes that are either complete or absent. */
import { open, rename, unlink } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { ModelError, expected, messageOf } from "../../../errors.ts";

/** One system call moves at most this much; Linux caps a call just under 2 GiB. */
const CALL_BYTES = 64 * 1024 * 1024;

export interface OpenedFile {
  readonly path: string;
  readonly handle: FileHandle;
  readonly size: number;
}

/** Opens a file for reading; ModelError if it cannot be opened. */
export async function openFile(path: string): Promise<OpenedFile> {
  try {
    const handle = await open(path, "r");
    return { path, handle, size: (await handle.stat()).size };
  } catch (cause) {
    throw new ModelError(expected(path, "a readable file", messageOf(cause)), { cause });
  }
}

/** Fills `target` from byte `position`; ModelError with the exact numbers if the file ends before. */
export async function readExactly(file: OpenedFile, target: Uint8Array, position: number): Promise<void> {
  let done = 0;
  while (done < target.length) {
    const { bytesRead } = await file.handle.read(target, done, Math.min(CALL_BYTES, target.length - done), position + done);
    if (bytesRead === 0) {
      const want = `${target.length} bytes at offset ${position}`;
      throw new ModelError(expected(file.path, want, `${done} before the end of the file`, "the file is truncated: fetch it again"));
    }
    done += bytesRead;
  }
}

/** Writes all of `bytes` at the current position. */
export async function writeFully(handle: FileHandle, bytes: Uint8Array): Promise<void> {
  let done = 0;
  while (done < bytes.length) {
    const { bytesWritten } = await handle.write(bytes, done, Math.min(CALL_BYTES, bytes.length - done));
    done += bytesWritten;
  }
}

let temporaryCount = 0;

/** Runs `body` on a temporary file, then fsync and rename: after a crash `path` holds the old content or the new, never a part. */
export async function writeAtomically(path: string, body: (handle: FileHandle) => Promise<void>): Promise<void> {
  temporaryCount += 1;
  const temporary = join(dirname(path), `.${basename(path)}.${process.pid}.${temporaryCount}.tmp`);
  const handle = await open(temporary, "w").catch((cause: unknown) => {
    throw new ModelError(expected(path, "a writable folder", messageOf(cause)), { cause });
  });
  try {
    await body(handle);
    await handle.sync();
    await handle.close();
    await rename(temporary, path);
  } catch (cause) {
    await handle.close().catch(() => undefined);
    await unlink(temporary).catch(() => undefined);
    throw cause;
  }
  await syncFolder(dirname(path));
}

/** Makes a rename durable. Some file systems refuse to sync a folder; the rename itself is still atomic there. */
export async function syncFolder(path: string): Promise<void> {
  const handle = await open(path, "r").catch(() => undefined);
  await handle?.sync().catch(() => undefined);
  await handle?.close();
}
