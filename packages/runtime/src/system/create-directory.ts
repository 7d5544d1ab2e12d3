// Makes the folders a worker keeps its files in: its identity and the attempts' own directories.

import { existsSync, mkdirSync } from "node:fs";
import { dirname } from "node:path";

/** Makes a folder and those above it. Part by part: the recursive `mkdirSync` of Node never returns where the system answers a mkdir with ENOENT, as below /proc. */
export function createDirectory(dir: string): void {
  const missing: string[] = [];
  for (let part = dir; !existsSync(part) && dirname(part) !== part; part = dirname(part)) missing.unshift(part);
  for (const part of missing) {
    try {
      mkdirSync(part);
    } catch (error) {
      // Another process was faster. Where it is not a directory, the next step fails with a clear error.
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
  }
}
