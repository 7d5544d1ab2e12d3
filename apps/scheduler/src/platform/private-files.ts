// Keeps the scheduler's files from the other users of the machine: who reads the signing key can act as anybody, and who reads the store
// knows every parameter and result. What an earlier version or an operator created with wider permissions is corrected.

import { chmodSync, lstatSync, readdirSync, type Stats } from "node:fs";
import { homedir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { errorMessage } from "@astraflow/protocol";

/** Permissions of the group and of others. */
const foreignBits = 0o077;
const stickyBit = 0o1000;
/** Not corrected: a key that others could read may be in their hands, so the start replaces it, and must see that it was readable. */
const keyFiles: ReadonlySet<string> = new Set(["session-keys.json", "session-keys.json.new"]);

export interface RestrictedFiles {
  /** Paths that others could use and can no longer. */
  readonly changed: readonly string[];
  /** Sentences about what others can still use. */
  readonly problems: readonly string[];
}

/** Takes the permissions of group and others from a folder and everything in it. Follows no symbolic link; a missing folder is no problem. */
export function restrictFolder(folder: string): RestrictedFiles {
  const path = resolve(folder);
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return { changed: [], problems: [] };
  const refusal = whyNotOurs(path, found);
  if (refusal !== null) return { changed: [], problems: [`${path} ${refusal}; use a folder of its own with --data-dir`] };
  return restrictPaths(walk(path, found));
}

/** The same for a store outside of the data folder: the file, and what SQLite and the lock put beside it. The folder stays as it is. */
export function restrictStoreFile(file: string): RestrictedFiles {
  const folder = dirname(file);
  if (lstatSync(folder, { throwIfNoEntry: false }) === undefined) return { changed: [], problems: [] };
  const suffixes = ["", "-wal", "-shm", ".lock", ".pid"];
  const paths = suffixes.map((suffix) => join(folder, `${basename(file)}${suffix}`));
  return restrictPaths(paths.flatMap((path) => describePath(path)));
}

/** A folder that others have to use is not closed for them. */
function whyNotOurs(path: string, found: Stats): string | null {
  if (!found.isDirectory()) return "is not a folder";
  if ((found.mode & stickyBit) !== 0) return "is shared by several users";
  if (path === dirname(path) || path === homedir()) return "holds more than the files of a scheduler";
  return null;
}

type FoundPath = readonly [path: string, found: Stats];

function describePath(path: string): FoundPath[] {
  const found = lstatSync(path, { throwIfNoEntry: false });
  return found === undefined ? [] : [[path, found]];
}

function* walk(path: string, found: Stats): Generator<FoundPath> {
  yield [path, found];
  if (!found.isDirectory()) return;
  for (const name of readdirSync(path)) for (const [child, stats] of describePath(join(path, name))) yield* walk(child, stats);
}

function restrictPaths(paths: Iterable<FoundPath>): RestrictedFiles {
  const changed: string[] = [];
  const problems: string[] = [];
  for (const [path, found] of paths) {
    const { mode } = found;
    if (found.isSymbolicLink() || (mode & foreignBits) === 0 || keyFiles.has(basename(path))) continue;
    try {
      chmodSync(path, mode & 0o7777 & ~foreignBits);
      changed.push(path);
    } catch (cause) {
      problems.push(`${path} is open to other users and cannot be closed (${errorMessage(cause)}); chmod it as its owner`);
    }
  }
  return { changed, problems };
}
