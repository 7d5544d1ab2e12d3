// One scheduler per database file. The lock is an open transaction on a small database beside it, so the operating system lets go
// of it when its holder is killed; a number in a file could outlive its process.

import { closeSync, existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fault } from "@astraflow/protocol";

const sqliteBusy = 5;

/** Makes the folder of the file and takes the lock; closing what it answers lets go of it. */
export function lockDatabase(file: string): DatabaseSync {
  makeFolder(dirname(file));
  createPrivateFile(`${file}.lock`);
  const lock = new DatabaseSync(`${file}.lock`, { timeout: 0 });
  try {
    lock.exec("BEGIN EXCLUSIVE");
  } catch (error) {
    lock.close();
    if (((error as { errcode?: number }).errcode ?? 0) % 256 !== sqliteBusy) throw error;
    const pid = readHolderPid(file);
    const advice = "stop that process, or start this one with another --data-dir";
    throw fault("E.STORE.IN_USE", `${file} is in use by process ${pid ?? "unknown"}; ${advice}`, { file, pid });
  }
  // Only for the sentence above; whether the lock is held is never read from here.
  writeFileSync(`${file}.pid`, `${process.pid}\n`, { mode: 0o600 });
  return lock;
}

/** SQLite would let everybody read a file that it creates; what it puts beside one gets the permissions of that one. An empty file is a new one. */
export function createPrivateFile(file: string): void {
  closeSync(openSync(file, "a", 0o600));
}

/** Part by part: the recursive `mkdirSync` of Node never returns where the system answers a mkdir with ENOENT, as below /proc. */
function makeFolder(dir: string): void {
  const missing: string[] = [];
  for (let part = dir; !existsSync(part) && dirname(part) !== part; part = dirname(part)) missing.unshift(part);
  for (const part of missing) {
    try {
      mkdirSync(part, 0o700);
    } catch (error) {
      // Another process was faster. Where it is no folder, whatever comes next in it fails and says so.
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
  }
}

function readHolderPid(file: string): number | null {
  try {
    return Number.parseInt(readFileSync(`${file}.pid`, "utf8"), 10) || null;
  } catch (error) {
    // The holder may not have come to writing it yet.
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}
