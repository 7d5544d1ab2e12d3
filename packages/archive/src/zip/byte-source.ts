// Where the bytes of an archive come from: memory or a file. Tests pass sources that fail.

import { type FileHandle, open } from "node:fs/promises";

export interface ByteSource {
  readonly size: number;
  /** Exactly these bytes; fewer are an error. */
  read(position: number, length: number): Promise<Buffer>;
}

export function createMemorySource(bytes: Uint8Array): ByteSource {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return {
    size: buffer.length,
    read: async (position, length) => {
      if (position + length > buffer.length) throw new RangeError(`no ${length} bytes at ${position}`);
      return buffer.subarray(position, position + length);
    },
  };
}

/** Opens the file for as long as `use` takes. */
export async function withFileSource<T>(file: string, use: (source: ByteSource) => Promise<T>): Promise<T> {
  const handle = await open(file, "r");
  try {
    const { size } = await handle.stat();
    return await use({ size, read: (position, length) => readExactly(handle, position, length) });
  } finally {
    await handle.close();
  }
}

async function readExactly(handle: FileHandle, position: number, length: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(length);
  let filled = 0;
  while (filled < length) {
    const { bytesRead } = await handle.read(buffer, filled, length - filled, position + filled);
    if (bytesRead === 0) throw new RangeError(`the file ends before byte ${position + length}`);
    filled += bytesRead;
  }
  return buffer;
}
