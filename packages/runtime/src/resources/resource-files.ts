// The files of a worker's resources: one folder, each file with a note beside it that says what it is, so that it outlives the process.
// Which of them are kept, and for how long, is resources.ts.

import { createHash } from "node:crypto";
import { copyFileSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { type JsonObject, limits, readJson } from "@astraflow/protocol";
import { createDirectory } from "../system/create-directory.ts";

export interface ResourceMetadata {
  readonly id: string;
  readonly type: string;
  readonly scope?: string | undefined;
  readonly metadata?: JsonObject;
  readonly createdAt: number;
  readonly expiresAt: number;
}

export interface StoredResourceFile {
  readonly id: string;
  readonly type: string;
  readonly scope?: string;
  readonly metadata: JsonObject;
  readonly createdAt: number;
  readonly expiresAt: number;
  readonly path: string;
  readonly sizeBytes: number;
}

const metadataSuffix = ".note.json";

export class ResourceFiles {
  readonly #dir: string;
  /** Files below this are moved in, as their directories go with their attempts. */
  readonly #workRoot: string;

  constructor(dir: string, workRoot: string) {
    this.#dir = path.resolve(dir);
    this.#workRoot = path.resolve(workRoot);
  }

  /** Notes that cannot be read, and files without a note, are nobody's any more and go. */
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
      return { file: toStoredFile(details, from, sizeBytes), isFileOwned: false };
    const to = this.#pathFor(details.id);
    try {
      renameSync(from, to);
    } catch {
      // Another disk, or a file that somebody else holds: a copy is as good, and the original goes with its directory.
      copyFileSync(from, to);
    }
    const file = toStoredFile(details, to, sizeBytes);
    this.writeMetadata(file);
    return { file, isFileOwned: true };
  }

  storeText(details: ResourceMetadata, text: string): StoredResourceFile {
    const place = this.#pathFor(details.id);
    writeFileSync(place, text);
    const file = toStoredFile(details, place, Buffer.byteLength(text));
    this.writeMetadata(file);
    return file;
  }

  writeMetadata({
    id,
    type,
    scope,
    metadata,
    createdAt,
    expiresAt,
    path: file,
  }: ResourceMetadata & { readonly path: string }): void {
    writeFileSync(file + metadataSuffix, JSON.stringify({ id, type, scope, metadata, createdAt, expiresAt }));
  }

  readText(file: string): string {
    return readFileSync(file, "utf8");
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

function toStoredFile(details: ResourceMetadata, file: string, sizeBytes: number): StoredResourceFile {
  const { id, type, scope, metadata = {}, createdAt, expiresAt } = details;
  return { id, type, ...(scope !== undefined && { scope }), metadata, createdAt, expiresAt, path: file, sizeBytes };
}

function readMetadata(file: string): StoredResourceFile | null {
  try {
    const note = readJson(readFileSync(file + metadataSuffix), limits.json.manifest);
    if (note instanceof Error || typeof note !== "object" || note === null || Array.isArray(note)) return null;
    const { id, type, scope, metadata, createdAt, expiresAt } = note;
    if (typeof id !== "string" || typeof type !== "string") return null;
    if (typeof createdAt !== "number" || typeof expiresAt !== "number") return null;
    const more = isObject(metadata) ? { metadata } : {};
    return toStoredFile(
      { id, type, createdAt, expiresAt, ...(typeof scope === "string" && { scope }), ...more },
      file,
      statSync(file).size,
    );
  } catch {
    // A crash between the two writes leaves a file without its note, or half of one.
    return null;
  }
}

const isObject = (value: unknown): value is JsonObject => typeof value === "object" && value !== null && !Array.isArray(value);
