// The outbox's file on a real disk. Every call does one thing and reports how it went; journaled-outbox.ts handles failures.

import { constants } from "node:fs";
import { type FileHandle, open, readFile, rename, rm } from "node:fs/promises";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { createDirectory } from "../system/create-directory.ts";

/** An append-only file and its folder. Every call may fail like a real disk (ENOSPC, EIO); calls are made one at a time. */
export interface OutboxDisk {
  /** The whole file, as it really is on the disk; null where there is none. Opens it anew. */
  read(): Promise<Uint8Array | null>;
  /** At the end of the file. What a failed append has written, if anything, is unknown. */
  append(bytes: Uint8Array): Promise<void>;
  /** Resolves once everything appended so far survives a power cut. After a failure nothing is known about any of it. */
  sync(): Promise<void>;
  truncate(bytes: number): Promise<void>;
  /** The whole file is replaced, or stays as it was; survives a power cut once resolved. */
  replace(bytes: Uint8Array): Promise<void>;
  /** Renames the file, so that a new one can begin and a person can look at the old one. */
  setAside(suffix: string): Promise<void>;
  /** Lets go of the file; no call follows. */
  close?(): Promise<void>;
}

/** One file with this name in a folder, which is made where it is missing. One process at a time may read and write it. */
export function openOutboxFile(dir: string, name: string): OutboxDisk {
  return new OutboxFile(dir, path.join(dir, name));
}

class OutboxFile implements OutboxDisk {
  readonly #dir: string;
  readonly #file: string;
  #handle: FileHandle | null = null;
  #lock: DatabaseSync | null = null;

  constructor(dir: string, file: string) {
    this.#dir = dir;
    this.#file = file;
  }

  async read(): Promise<Uint8Array | null> {
    this.#lock ??= acquireLock(this.#dir, this.#file);
    await this.#close();
    // Left by a replacement that did not come to its end; the file itself is as it was.
    await rm(this.#tempFile, { force: true });
    try {
      return await readFile(this.#file);
    } catch (problem) {
      if ((problem as NodeJS.ErrnoException).code === "ENOENT") return null;
      throw problem;
    }
  }

  async append(bytes: Uint8Array): Promise<void> {
    await writeAll(await this.#open(), bytes);
  }

  async sync(): Promise<void> {
    await (await this.#open()).datasync();
  }

  async truncate(bytes: number): Promise<void> {
    await (await this.#open()).truncate(bytes);
  }

  async replace(bytes: Uint8Array): Promise<void> {
    await this.#close();
    const fresh = await open(this.#tempFile, "w", 0o600);
    try {
      await writeAll(fresh, bytes);
      await fresh.sync();
    } finally {
      await fresh.close();
    }
    await rename(this.#tempFile, this.#file);
    await this.#syncDirectory();
  }

  async setAside(suffix: string): Promise<void> {
    await this.#close();
    await rename(this.#file, `${this.#file}.${suffix}`);
    await this.#syncDirectory();
  }

  async close(): Promise<void> {
    await this.#close();
    this.#lock?.close();
    this.#lock = null;
  }

  get #tempFile(): string {
    return `${this.#file}.new`;
  }

  async #open(): Promise<FileHandle> {
    if (this.#handle !== null) return this.#handle;
    const { O_RDWR, O_CREAT, O_APPEND } = constants;
    const handle = await open(this.#file, O_RDWR | O_CREAT | O_APPEND, 0o600);
    try {
      // The name of a new file is on disk only once its folder is.
      await this.#syncDirectory();
    } catch (problem) {
      await handle.close();
      throw problem;
    }
    this.#handle = handle;
    return handle;
  }

  async #close(): Promise<void> {
    const handle = this.#handle;
    this.#handle = null;
    await handle?.close();
  }

  async #syncDirectory(): Promise<void> {
    const folder = await open(this.#dir, "r");
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  }
}

const sqliteBusy = 5;

/** Two writers would take each other's records for damage. The system releases this lock when its holder is killed. */
function acquireLock(dir: string, file: string): DatabaseSync {
  createDirectory(dir);
  const lock = new DatabaseSync(`${file}.lock`, { timeout: 0 });
  try {
    lock.exec("BEGIN EXCLUSIVE");
  } catch (problem) {
    lock.close();
    if (((problem as { errcode?: number }).errcode ?? 0) % 256 !== sqliteBusy) throw problem;
    throw new Error(`${file} is in use by another worker; stop it, or give this one a data directory of its own`, {
      cause: problem,
    });
  }
  return lock;
}

/** A disk may take a part of what it is given. */
async function writeAll(handle: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length; ) {
    const { bytesWritten } = await handle.write(bytes, at);
    if (bytesWritten === 0) throw new Error("the disk accepted no more bytes");
    at += bytesWritten;
  }
}
