// Bytes of files: read up to a limit, hashed, and written so that a reader sees the old file or the new one, never half of it.

import { createHash, randomUUID } from "node:crypto";
import { link, open, rename, rm } from "node:fs/promises";
import path from "node:path";
import { failure } from "./failure.ts";
import { openFile } from "./roots.ts";

const pieceBytes = 256 * 1024;

/** The pieces of a file; one above the limit is refused before anything is read. */
export async function* readPieces(file: string, shown: string, bytesMax: number, signal: AbortSignal): AsyncGenerator<Buffer> {
  const { handle, sizeBytes } = await openFile(file, shown);
  try {
    if (sizeBytes > bytesMax)
      throw failure("E.RUNNER.REFUSED", `${shown} has ${sizeBytes} bytes; ${bytesMax} are allowed (maxBytes)`);
    for (let at = 0; at < sizeBytes; ) {
      signal.throwIfAborted();
      const { bytesRead, buffer } = await handle.read(Buffer.alloc(Math.min(pieceBytes, sizeBytes - at)), 0, null, at);
      if (bytesRead === 0) throw failure("E.RUNNER.FAILURE", `${shown} became shorter while it was read`);
      at += bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
  } finally {
    await handle.close();
  }
}

export async function readBytes(file: string, shown: string, bytesMax: number, signal: AbortSignal): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of readPieces(file, shown, bytesMax, signal)) pieces.push(piece);
  return Buffer.concat(pieces);
}

export interface Digest {
  readonly digest: string;
  readonly sizeBytes: number;
}

export async function hashFile(
  file: string,
  shown: string,
  algorithm: string,
  bytesMax: number,
  signal: AbortSignal,
): Promise<Digest> {
  const hash = createHash(algorithm);
  let sizeBytes = 0;
  for await (const piece of readPieces(file, shown, bytesMax, signal)) {
    hash.update(piece);
    sizeBytes += piece.length;
  }
  return { digest: hash.digest("hex"), sizeBytes };
}

/** Writes beside the target and moves it there once it is on disk. Without `overwrite` an existing file stays. */
export async function writeWhole(
  file: string,
  shown: string,
  content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  { overwrite }: { readonly overwrite: boolean },
): Promise<Digest> {
  const draft = path.join(path.dirname(file), `.${randomUUID()}.part`);
  const hash = createHash("sha256");
  let sizeBytes = 0;
  try {
    const handle = await open(draft, "wx", 0o644);
    try {
      for await (const piece of content) {
        hash.update(piece);
        sizeBytes += piece.length;
        await handle.writeFile(piece);
      }
      await handle.sync();
    } finally {
      await handle.close();
    }
    const digest = hash.digest("hex");
    if (overwrite) await rename(draft, file);
    else await linkNew(draft, file, shown, { digest, sizeBytes });
    return { digest, sizeBytes };
  } finally {
    await rm(draft, { force: true });
  }
}

/** A link fails where a file is already; one with the same bytes is what an earlier attempt of the task has left. */
async function linkNew(draft: string, file: string, shown: string, { digest, sizeBytes }: Digest): Promise<void> {
  try {
    await link(draft, file);
  } catch (problem) {
    if ((problem as NodeJS.ErrnoException).code !== "EEXIST") throw problem;
    const refused = failure(
      "E.RUNNER.REFUSED",
      `${shown} is there already, with other bytes; set overwrite, or choose another path`,
      problem,
    );
    const there = await hashFile(file, shown, "sha256", sizeBytes, new AbortController().signal).catch((cause: unknown) => {
      throw Object.assign(refused, { cause });
    });
    if (there.digest !== digest) throw refused;
  }
}
