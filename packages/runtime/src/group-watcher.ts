// A program of its own, one beside a worker whose handlers start processes: it reads which groups there are and ends what is left of them
// once the worker is gone, however that went. It is told nothing else, holds nothing else, and ends by itself. Started by group-watch.ts.

import { createInterface } from "node:readline";
import { endGroup } from "./children.ts";
import { KnownGroups } from "./process-groups.ts";

const groups = new KnownGroups();

createInterface({ input: process.stdin })
  .on("line", (line) => {
    const group = Number(line.slice(1));
    if (!Number.isSafeInteger(group) || group <= 1) return;
    if (line.startsWith("+")) groups.look(group);
    else if (line.startsWith("-")) groups.forget(group);
  })
  .on("close", () => {
    for (const group of groups.left()) endGroup(group, "SIGKILL");
  });
