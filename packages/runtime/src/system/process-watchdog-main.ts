// A program of its own, one beside a worker whose handlers start processes: it reads which groups there are and ends what is left of them
// once the worker is gone, however that went. It knows nothing else and ends by itself. Started by process-watchdog.ts.

import { createInterface } from "node:readline";
import { killProcessGroup } from "./child-processes.ts";
import { WatchedGroups } from "./process-groups.ts";

const watchedGroups = new WatchedGroups();

const handleLine = (line: string): void => {
  const group = Number(line.slice(1));
  if (!Number.isSafeInteger(group) || group <= 1) return;
  if (line.startsWith("+")) watchedGroups.watch(group);
  else if (line.startsWith("-")) watchedGroups.unwatch(group);
};

for (const line of process.argv.slice(2)) handleLine(line);
createInterface({ input: process.stdin })
  .on("line", handleLine)
  .on("close", () => {
    for (const group of watchedGroups.survivingGroups()) killProcessGroup(group, "SIGKILL");
  });
