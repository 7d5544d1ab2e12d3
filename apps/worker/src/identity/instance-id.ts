// The worker's lasting identity: one line in one file, made once, whole or not at all, and on disk before it is used.

import { randomUUID } from "node:crypto";
import { closeSync, fsyncSync, linkSync, openSync, readFileSync, unlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { errorMessage, type Fault, fault } from "@astraflow/protocol";
import { createDirectory } from "@astraflow/runtime";

export const instanceIdFile = "worker_instance_id";
const instanceIdPattern = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/;

/** Reads the identity from the data directory, or makes it there. Two processes that start at once get the same one. */
export function loadOrCreateInstanceId(dataDir: string): string | Fault {
  const file = path.join(dataDir, instanceIdFile);
  try {
    createDirectory(dataDir);
    const kept = readInstanceId(file);
    if (kept === undefined) createInstanceIdFile(dataDir, file, randomUUID());
    const id = kept ?? readInstanceId(file) ?? "";
    if (instanceIdPattern.test(id)) return id;
    return fault("E.CONFIG.INVALID", `${file} does not hold an identity; remove it to get a new one, or put the old one back`);
  } catch (thrown) {
    return fault("E.CONFIG.INVALID", `the data directory ${dataDir} cannot be used: ${errorMessage(thrown)}`, undefined, thrown);
  }
}

/** Undefined where there is none yet, or none that can be read: nothing is made. */
export function findInstanceId(dataDir: string): string | undefined {
  try {
    const id = readInstanceId(path.join(dataDir, instanceIdFile)) ?? "";
    return instanceIdPattern.test(id) ? id : undefined;
  } catch {
    // The folder is no folder, or not ours to read: who looks at the data directory says so.
    return undefined;
  }
}

function readInstanceId(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8").trim();
  } catch (thrown) {
    if (errorCodeOf(thrown) === "ENOENT") return undefined;
    throw thrown;
  }
}

/** Written aside, flushed, then given its name: a crash leaves the old state or the new one, and the first of two writers wins. */
function createInstanceIdFile(dataDir: string, file: string, id: string): void {
  const aside = `${file}.${randomUUID()}`;
  writeFileSync(aside, `${id}\n`, { flag: "wx", mode: 0o600, flush: true });
  try {
    linkSync(aside, file);
  } catch (thrown) {
    if (errorCodeOf(thrown) !== "EEXIST") throw thrown;
  } finally {
    unlinkSync(aside);
  }
  const dir = openSync(dataDir, "r");
  try {
    fsyncSync(dir);
  } finally {
    closeSync(dir);
  }
}

function errorCodeOf(thrown: unknown): unknown {
  return thrown instanceof Error && "code" in thrown ? thrown.code : undefined;
}
