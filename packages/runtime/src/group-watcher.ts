// A program of its own, one beside a worker whose handlers start processes: it reads which groups there are and ends what is left of them
// once the worker is gone, however that went. It is told nothing else, holds nothing else, and ends by itself. Started by group-watch.ts.

import { createInterface } from "node:readline";
import { endGroup } from "./children.ts";
import { KnownGroups } from "./process-groups.ts";

const groups = new KnownGroups();

const hear = (word: string): void => {
  const group = Number(word.slice(1));
  if (!Number.isSafeInteger(group) || group <= 1) return;
  if (word.startsWith("+")) groups.look(group);
  else if (word.startsWith("-")) groups.forget(group);
};

for (const word of process.argv.slice(2)) hear(word);
createInterface({ input: process.stdin })
  .on("line", hear)
  .on("close", () => {
    for (const group of groups.left()) endGroup(group, "SIGKILL");
  });
