// Finds resources that a worker has lost: those that documents place there and that it does not report.

import { readArtifact, type StoreReader } from "@astraflow/engine";
import { documentNameOf } from "../documents/documents.ts";
import { createSemaphore } from "../environment/concurrency.ts";

export interface LostResource {
  readonly resource: string;
  /** When the document was written. */
  readonly seenAt: number;
}

export interface LostResourceQuery {
  readonly tenant: string;
  readonly worker: string;
  readonly name: string;
  readonly present: ReadonlySet<string>;
}

/** Rejects where the store cannot be read. */
export type FindLostResources = (query: LostResourceQuery) => Promise<LostResource[]>;

/** Resources beyond these pages end by their time to live. After a restart all workers register at once, so few searches run at a time. */
const finderLimits = { page: 500, pagesMax: 40, atOnce: 4 } as const;

export function createLostResourceFinder({ reader }: { readonly reader: StoreReader }): FindLostResources {
  const runLimited = createSemaphore(finderLimits.atOnce);
  return (query) => runLimited(() => queryLostResources(reader, query));
}

async function queryLostResources(reader: StoreReader, { tenant, worker, name, present }: LostResourceQuery) {
  const lost: LostResource[] = [];
  let after: string | undefined;
  for (let pages = 0; pages < finderLimits.pagesMax; pages++) {
    const query = { page: "docs", tenant, collection: "artifact", search: name, limit: finderLimits.page } as const;
    const page = await reader.page({ ...query, ...(after !== undefined && { after }) });
    for (const doc of page.items) {
      const resource = documentNameOf(doc);
      const body = readArtifact(doc);
      if (body.worker === worker && body.removed === undefined && !present.has(resource)) lost.push({ resource, seenAt: doc.at });
    }
    if (page.next === null) break;
    after = page.next;
  }
  return lost;
}
