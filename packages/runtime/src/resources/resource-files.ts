// The files of a worker's resources, each with its metadata in a file beside it, so that it outlives the process.

import { createHash } from "node:crypto";
import { copyFileSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { Fault, isRecord, limits, readJson } from "@astraflow/protocol";
import type { ResourceDraft } from "@astraflow/sdk";
import { createDirectory } from "../system/create-directory.ts";

export interface StoredResourceFile extends Pick<ResourceDraft, "id" | "type" | "scope" | "metadata"> {
  readonly createdAt: number;
  readonly expiresAt: number;
  readonly path: string;
  readonly sizeBytes: number;
}

type ResourceMetadata = Omit<StoredResourceFile, "path" | "sizeBytes">;

const metadataSuffix = ".note.json";

export class ResourceFiles {
  readonly #dir: string;
  /** Files below this are moved in, as their directories go with their attempts. */
  readonly #workRoot: string;
  #transferCount = 0;

  constructor(dir: string, workRoot: string) {
    this.#dir = path.resolve(dir);
    this.#workRoot = path.resolve(workRoot);
  }

  /** Removes files whose metadata is missing or cannot be read. */
  loadStoredFiles(): StoredResourceFile[] {
    const found: StoredResourceFile[] = [];
    for (const name of this.#listNames()) {
      if (name.endsWith(metadataSuffix)) continue;
      const file = path.join(this.#dir, name);
      const kept = readMetadata(file);
      if (kept === null) this.removeFile(file);
      else found.push(kept);
    }
    return found;
  }

  storeFile(details: ResourceMetadata, given: string): { readonly file: StoredResourceFile; readonly isFileOwned: boolean } {
    const from = path.resolve(given);
    const sizeBytes = statSync(from).size;
    if (!from.startsWith(`${this.#workRoot}${path.sep}`))
      return { file: { ...details, path: from, sizeBytes }, isFileOwned: false };
    const to = this.#pathFor(details.id);
    try {
      renameSync(from, to);
    } catch {
      // Another disk, or a file that somebody else holds: a copy is as good, and the original goes with its directory.
      copyFileSync(from, to);
    }
    const file = { ...details, path: to, sizeBytes };
    this.writeMetadata(file);
    return { file, isFileOwned: true };
  }

  /** Where bytes that are on their way may lie: below the attempts, so that `storeFile` moves them in, and what is left is removed. */
  createTransferPath(): string {
    createDirectory(this.#workRoot);
    return path.join(this.#workRoot, `.transfer-${process.pid}-${this.#transferCount++}`);
  }

  storeText(details: ResourceMetadata, text: string): StoredResourceFile {
    const place = this.#pathFor(details.id);
    writeFileSync(place, text);
    const file = { ...details, path: place, sizeBytes: Buffer.byteLength(text) };
    this.writeMetadata(file);
    return file;
  }

  writeMetadata({ path: file, id, type, scope, metadata = {}, createdAt, expiresAt }: ResourceMetadata & { path: string }): void {
    writeFileSync(file + metadataSuffix, JSON.stringify({ id, type, scope, metadata, createdAt, expiresAt }));
  }

  removeFile(file: string): void {
    rmSync(file, { force: true });
    rmSync(file + metadataSuffix, { force: true });
  }

  /** A plain name, whatever an id holds. */
  #pathFor(id: string): string {
    createDirectory(this.#dir);
    return path.join(this.#dir, createHash("sha256").update(id).digest("hex").slice(0, 32));
  }

  #listNames(): string[] {
    try {
      return readdirSync(this.#dir);
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return [];
      throw thrown;
    }
  }
}

function readMetadata(file: string): StoredResourceFile | null {
  try {
    const note = readJson(readFileSync(file + metadataSuffix), limits.json.manifest);
    if (note instanceof Fault || !isRecord(note)) return null;
    const { id, type, scope, metadata, createdAt, expiresAt } = note;
    if (typeof id !== "string" || typeof type !== "string") return null;
    if (typeof createdAt !== "number" || typeof expiresAt !== "number") return null;
    const more = { ...(typeof scope === "string" && { scope }), ...(isRecord(metadata) && { metadata }) };
    return { id, type, createdAt, expiresAt, ...more, path: file, sizeBytes: statSync(file).size };
  } catch {
    // A crash between the two writes leaves a file without its note, or half of one.
    return null;
  }
}
