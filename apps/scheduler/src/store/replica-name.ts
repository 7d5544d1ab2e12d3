// The name under which this scheduler is known in a store that several share. Made once from the machine's name and a random part,
// and kept in the data folder: a scheduler that is started again takes up its own row, and two folders never share a name.

import { randomBytes } from "node:crypto";
import { existsSync, linkSync, mkdirSync, readFileSync, rmSync, unlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { errorMessage } from "@astraflow/protocol";
import { StartupError } from "../platform/startup-error.ts";
import { createSyncedFile } from "../platform/synced-file.ts";
import { namePattern } from "../settings/setting-readers.ts";

const replicaNameFile = "replica_name";
const hostCharsMax = 40;

/** Reads the name from the data folder, or makes it there. Two processes that start at once get the same one. */
export function loadOrCreateReplicaName(dataDir: string, host: string): string {
  const file = join(dataDir, replicaNameFile);
  try {
    createFolder(dataDir);
    if (!existsSync(file)) createFileOnce(file, generateReplicaName(host));
    const name = readFileSync(file, "utf8").trim();
    if (namePattern.test(name)) return name;
  } catch (cause) {
    throw new StartupError(
      `${file} cannot be written (${errorMessage(cause)}); choose another folder with --data-dir, or name this scheduler with --replica.`,
      cause,
    );
  }
  throw new StartupError(`${file} contains no name; delete it to get a new one, or restore the old one.`, undefined);
}

function generateReplicaName(host: string): string {
  const safeHost = host.replace(/[^A-Za-z0-9._-]/g, "-").replace(/^[^A-Za-z0-9]+/, "");
  return `${safeHost.slice(0, hostCharsMax) || "scheduler"}-${randomBytes(4).toString("hex")}`;
}

/** One folder at a time: the recursive `mkdirSync` of Node never returns where mkdir fails with ENOENT, as below /proc. */
function createFolder(dir: string): void {
  if (existsSync(dir)) return;
  createFolder(dirname(dir));
  try {
    mkdirSync(dir, 0o700);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "EEXIST") throw cause; // another process was faster
  }
}

/** Writes aside, syncs, then links: a crash never leaves half a file, and the first of two writers wins. */
function createFileOnce(file: string, text: string): void {
  const temporaryFile = `${file}.${process.pid}`;
  rmSync(temporaryFile, { force: true });
  createSyncedFile(temporaryFile, `${text}\n`);
  try {
    linkSync(temporaryFile, file);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "EEXIST") throw cause;
  } finally {
    unlinkSync(temporaryFile);
  }
}
