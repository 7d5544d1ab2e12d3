// What a worker still keeps against what its results have left with it: found out after a register that names what is kept. Whatever the
// documents say beyond that went with an old process or a lost disk. What follows from it is the engine's business.

import { readArtifact, type StoreReader } from "@astraflow/engine";
import { createSemaphore } from "../environment/semaphore.ts";

export interface LostResource {
  readonly resource: string;
  /** When the document that was seen was written. */
  readonly seenAt: number;
}

export interface LostResourceQuery {
  readonly tenant: string;
  readonly worker: string;
  readonly name: string;
  readonly present: ReadonlySet<string>;
}

/** Gives what is gone; rejects where the store cannot be read. */
export type FindLostResources = (query: LostResourceQuery) => Promise<LostResource[]>;

/**
 * Documents read at once, and in all: what lies beyond ends by its time to live. After a restart every worker comes at once, and their
 * comparisons must not take the store from everybody else: the others wait.
 */
const finderLimits = { page: 500, pagesMax: 40, atOnce: 4 } as const;

export function createLostResourceFinder({ reader }: { readonly reader: StoreReader }): FindLostResources {
  const runLimited = createSemaphore(finderLimits.atOnce);
  return (query) => runLimited(() => queryLostResources(reader, query));
}

async function queryLostResources(
  reader: StoreReader,
  { tenant, worker, name, present }: LostResourceQuery,
): Promise<LostResource[]> {
  const lost: LostResource[] = [];
  const prefixLength = `${tenant}/artifact/`.length;
  let after: string | undefined;
  for (let pages = 0; pages < finderLimits.pagesMax; pages++) {
    const page = await reader.page({
      page: "docs",
      tenant,
      collection: "artifact",
      search: name,
      limit: finderLimits.page,
      ...(after !== undefined && { after }),
    });
    for (const doc of page.items) {
      const resource = doc.id.slice(prefixLength);
      const body = readArtifact(doc);
      if (body.worker === worker && body.removed === undefined && !present.has(resource)) lost.push({ resource, seenAt: doc.at });
    }
    if (page.next === null) break;
    after = page.next;
  }
  return lost;
}
