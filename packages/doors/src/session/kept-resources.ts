// What a worker still keeps against what its results have left with it: found out after a register that names what is kept. Whatever the
// documents say beyond that went with an old process or a lost disk. What follows from it is the engine's business.

import { type Reader, readArtifact } from "@astraflow/engine";
import { createTurnstile } from "../turnstile.ts";

export interface LostResource {
  readonly resource: string;
  /** When the document that was seen was written. */
  readonly seenAt: number;
}

export interface KeptQuestion {
  readonly tenant: string;
  readonly worker: string;
  readonly name: string;
  readonly kept: ReadonlySet<string>;
}

/** Gives what is gone; rejects where the store cannot be read. */
export type CompareKept = (question: KeptQuestion) => Promise<LostResource[]>;

/**
 * Documents read at once, and in all: what lies beyond ends by its time to live. After a restart every worker comes at once, and their
 * comparisons must not take the store from everybody else: the others wait.
 */
const compareLimits = { page: 500, pagesMax: 40, atOnce: 4 } as const;

export function createKeptComparison({ reader }: { readonly reader: Reader }): CompareKept {
  const inTurn = createTurnstile(compareLimits.atOnce);
  return (question) => inTurn(() => findLost(reader, question));
}

async function findLost(reader: Reader, { tenant, worker, name, kept }: KeptQuestion): Promise<LostResource[]> {
  const gone: LostResource[] = [];
  const prefixLength = `${tenant}/artifact/`.length;
  let after: string | undefined;
  for (let pages = 0; pages < compareLimits.pagesMax; pages++) {
    const page = await reader.page({
      page: "docs",
      tenant,
      collection: "artifact",
      search: name,
      limit: compareLimits.page,
      ...(after !== undefined && { after }),
    });
    for (const doc of page.items) {
      const resource = doc.id.slice(prefixLength);
      const body = readArtifact(doc);
      if (body.worker === worker && body.removed === undefined && !kept.has(resource)) gone.push({ resource, seenAt: doc.at });
    }
    if (page.next === null) break;
    after = page.next;
  }
  return gone;
}
