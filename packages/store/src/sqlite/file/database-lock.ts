// One scheduler per database file. The lock is an open transaction on a small database beside it, so the operating system lets go
// of it when its holder is killed; a number in a file could outlive its process.

import { readFileSync, writeFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { fault } from "@astraflow/protocol";

export interface DatabaseLock {
  release(): void;
}

const sqliteBusy = 5;

export function lockDatabase(file: string): DatabaseLock {
  const lock = new DatabaseSync(`${file}.lock`, { timeout: 0 });
  try {
    lock.exec("BEGIN EXCLUSIVE");
  } catch (error) {
    lock.close();
    if (((error as { errcode?: number }).errcode ?? 0) % 256 !== sqliteBusy) throw error;
    const pid = readHolderPid(file);
    throw fault(
      "E.STORE.IN_USE",
      `${file} is in use by process ${pid ?? "unknown"}; stop that process, or start this one with another --data-dir`,
      {
        file,
        pid,
      },
    );
  }
  // Only for the sentence above; whether the lock is held is never read from here.
  writeFileSync(`${file}.pid`, `${process.pid}\n`);
  return {
    release() {
      lock.exec("ROLLBACK");
      lock.close();
    },
  };
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
