// The files of a root that match a pattern, in the order of their names. Links are not followed, and not listed.

import { readdir } from "node:fs/promises";
import path from "node:path";
import { failure } from "./failure.ts";
import type { Root } from "./roots.ts";

/** Of a root that is larger, the pattern cannot be answered in reasonable time. */
const entriesSeenMax = 100_000;
/** What is being written is not there yet. */
const draftName = /^\.[0-9a-f-]{36}\.part$/;

export async function* listFiles(root: Root, pattern: string, signal: AbortSignal): AsyncGenerator<string> {
  let seen = 0;
  const visit = async function* (folder: string): AsyncGenerator<string> {
    signal.throwIfAborted();
    const entries = await readdir(path.join(root.folder, folder), { withFileTypes: true });
    seen += entries.length;
    if (seen > entriesSeenMax)
      throw failure(
        "E.RUNNER.REFUSED",
        `root ${root.name} has more than ${entriesSeenMax} entries; open a smaller folder as a root`,
      );
    for (const entry of entries.toSorted((one, other) => (one.name < other.name ? -1 : 1))) {
      const name = folder === "" ? entry.name : `${folder}/${entry.name}`;
      if (draftName.test(entry.name)) continue;
      if (entry.isDirectory()) yield* visit(name);
      else if (entry.isFile() && path.posix.matchesGlob(name, pattern)) yield name;
    }
  };
  yield* visit("");
}
