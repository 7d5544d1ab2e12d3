// The files of a worker's resources: one folder, each file with a note beside it that says what it is, so that it outlives the process.
// Which of them are kept, and for how long, is resources.ts.

import { createHash } from "node:crypto";
import { copyFileSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { type JsonObject, limits, readJson } from "@astraflow/protocol";
import { makeFolder } from "./folder.ts";

export interface KeptWords {
  readonly id: string;
  readonly type: string;
  readonly scope?: string | undefined;
  readonly metadata?: JsonObject;
  readonly createdAt: number;
  readonly expiresAt: number;
}

export interface KeptFile {
  readonly id: string;
  readonly type: string;
  readonly scope?: string;
  readonly metadata: JsonObject;
  readonly createdAt: number;
  readonly expiresAt: number;
  readonly path: string;
  readonly sizeBytes: number;
}

const noteEnding = ".note.json";

export class ResourceFolder {
  readonly #dir: string;
  /** Files below this are moved in, as their directories go with their attempts. */
  readonly #workRoot: string;

  constructor(dir: string, workRoot: string) {
    this.#dir = path.resolve(dir);
    this.#workRoot = path.resolve(workRoot);
  }

  /** Notes that cannot be read, and files without a note, are nobody's any more and go. */
  recall(): KeptFile[] {
    const found: KeptFile[] = [];
    for (const name of this.#names()) {
      if (name.endsWith(noteEnding)) continue;
      const file = path.join(this.#dir, name);
      const kept = readNote(file);
      if (kept === null) this.remove(file);
      else found.push(kept);
    }
    return found;
  }

  take(words: KeptWords, given: string): { readonly file: KeptFile; readonly isOwn: boolean } {
    const from = path.resolve(given);
    const sizeBytes = statSync(from).size;
    if (!from.startsWith(`${this.#workRoot}${path.sep}`)) return { file: fileOf(words, from, sizeBytes), isOwn: false };
    const to = this.#placeOf(words.id);
    try {
      renameSync(from, to);
    } catch {
      // Another disk, or a file that somebody else holds: a copy is as good, and the original goes with its directory.
      copyFileSync(from, to);
    }
    const file = fileOf(words, to, sizeBytes);
    this.note(file);
    return { file, isOwn: true };
  }

  write(words: KeptWords, text: string): KeptFile {
    const place = this.#placeOf(words.id);
    writeFileSync(place, text);
    const file = fileOf(words, place, Buffer.byteLength(text));
    this.note(file);
    return file;
  }

  note({ id, type, scope, metadata, createdAt, expiresAt, path: file }: KeptWords & { readonly path: string }): void {
    writeFileSync(file + noteEnding, JSON.stringify({ id, type, scope, metadata, createdAt, expiresAt }));
  }

  read(file: string): string {
    return readFileSync(file, "utf8");
  }

  remove(file: string): void {
    rmSync(file, { force: true });
    rmSync(file + noteEnding, { force: true });
  }

  /** A plain name, whatever an id holds. */
  #placeOf(id: string): string {
    makeFolder(this.#dir);
    return path.join(this.#dir, createHash("sha256").update(id).digest("hex").slice(0, 32));
  }

  #names(): string[] {
    try {
      return readdirSync(this.#dir);
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return [];
      throw thrown;
    }
  }
}

function fileOf(words: KeptWords, file: string, sizeBytes: number): KeptFile {
  const { id, type, scope, metadata = {}, createdAt, expiresAt } = words;
  return { id, type, ...(scope !== undefined && { scope }), metadata, createdAt, expiresAt, path: file, sizeBytes };
}

function readNote(file: string): KeptFile | null {
  try {
    const note = readJson(readFileSync(file + noteEnding), limits.json.manifest);
    if (note instanceof Error || typeof note !== "object" || note === null || Array.isArray(note)) return null;
    const { id, type, scope, metadata, createdAt, expiresAt } = note;
    if (typeof id !== "string" || typeof type !== "string") return null;
    if (typeof createdAt !== "number" || typeof expiresAt !== "number") return null;
    const more = isObject(metadata) ? { metadata } : {};
    return fileOf(
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
