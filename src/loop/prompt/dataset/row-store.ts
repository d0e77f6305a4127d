/** Texts by their number, in memory as long as they are few and else in a temporary file that has no name any more. */
import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Characters of all texts up to which they stay in memory, and bytes that are written at a time. */
const MEMORY = 32 * 1024 * 1024;
const BLOCK = 1024 * 1024;

export interface RowStore {
  readonly size: number;
  add(text: string): void;
  at(index: number): string;
}

/** The file goes with the process, or with the store. `memory` is the limit in characters. */
export function rowStore(memory = MEMORY): RowStore {
  let texts: string[] | null = [];
  let characters = 0;
  let file: FileStore | null = null;
  let size = 0;
  return {
    get size() {
      return size;
    },
    add(text) {
      size++;
      if (texts === null) return file!.add(text);
      texts.push(text);
      characters += text.length;
      if (characters <= memory) return;
      file = fileStore();
      for (const each of texts) file.add(each);
      texts = null;
    },
    at: (index) => (texts === null ? file!.at(index) : texts[index]!),
  };
}

interface FileStore {
  add(text: string): void;
  at(index: number): string;
}

const closing = new FinalizationRegistry<number>((descriptor) => closeSync(descriptor));

function fileStore(): FileStore {
  const folder = mkdtempSync(join(tmpdir(), "flywheel-rows-"));
  const descriptor = openSync(join(folder, "rows"), "w+");
  rmSync(folder, { recursive: true });
  // Row i is the bytes from ends[i - 1] to ends[i].
  let ends = new Float64Array(1024);
  let count = 0;
  let written = 0;
  let waiting: Buffer[] = [];
  let length = 0;
  const flush = (): void => {
    const block = Buffer.concat(waiting);
    for (let at = 0; at < block.length; ) at += writeSync(descriptor, block, at, block.length - at, written + at);
    written += block.length;
    [waiting, length] = [[], 0];
  };
  const store: FileStore = {
    add(text) {
      const bytes = Buffer.from(text);
      waiting.push(bytes);
      length += bytes.length;
      if (count === ends.length) {
        const grown = new Float64Array(2 * count);
        grown.set(ends);
        ends = grown;
      }
      ends[count++] = written + length;
      if (length >= BLOCK) flush();
    },
    at(index) {
      if (length > 0) flush();
      const start = index === 0 ? 0 : ends[index - 1]!;
      const bytes = Buffer.alloc(ends[index]! - start);
      for (let at = 0; at < bytes.length; ) {
        const read = readSync(descriptor, bytes, at, bytes.length - at, start + at);
        if (read === 0) throw new Error(`row store: expected ${bytes.length} bytes of row ${index}, got ${at}`);
        at += read;
      }
      return bytes.toString("utf8");
    },
  };
  closing.register(store, descriptor);
  return store;
}
