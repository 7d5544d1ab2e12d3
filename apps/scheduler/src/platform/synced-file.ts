// Files that a crash must not damage.

import { closeSync, fsyncSync, openSync, writeSync } from "node:fs";

/** Creates the file, readable by this user only, and writes it to the disk. Throws if it exists. */
export function createSyncedFile(path: string, text: string): void {
  syncFile(path, "wx", text);
}

/** Writes the names in a folder to the disk. */
export const syncFolder = (path: string): void => syncFile(path, "r", "");

function syncFile(path: string, flags: "r" | "wx", text: string): void {
  const handle = openSync(path, flags, 0o600);
  try {
    if (text !== "") writeSync(handle, text);
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
