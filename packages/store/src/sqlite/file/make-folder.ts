// Makes the folder of a database file. Who may use it then is the lock's business.

import { existsSync, mkdirSync } from "node:fs";
import { dirname } from "node:path";

/** Makes a folder and those above it. Part by part: the recursive `mkdirSync` of Node never returns where the system answers a mkdir with ENOENT, as below /proc. */
export function makeFolder(dir: string): void {
  const missing: string[] = [];
  for (let part = dir; !existsSync(part) && dirname(part) !== part; part = dirname(part)) missing.unshift(part);
  for (const part of missing) {
    try {
      mkdirSync(part);
    } catch (error) {
      // Another process was faster. Where it is no folder, whatever comes next in it fails and says so.
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
  }
}
