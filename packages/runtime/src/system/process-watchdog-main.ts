// A program beside the worker that kills the process groups of its handlers once the worker is gone. Started by process-watchdog.ts.

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
