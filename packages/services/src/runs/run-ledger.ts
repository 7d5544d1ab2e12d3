// Ledgers of one run and of a part of the log: figures that anybody can add up again from the same facts.

import { type EventPage, runKey, type StoreReader } from "@astraflow/engine";
import { type Fault, fault, type Ledger, LedgerFold, type RunLedger } from "@astraflow/protocol";
import { historyLimits } from "./run-history.ts";
import { findRun } from "./run-reader.ts";

export const ledgerLimits = { factsPage: 1_000, factsMax: 10_000 } as const;

/** Of every fact of a run: a ledger of a part would look like one of the whole. */
export async function readRunLedger(reader: StoreReader, tenant: string, run: string): Promise<RunLedger> {
  await findRun(reader, tenant, run, 0);
  const folding = new LedgerFold(null);
  let first: number | null = null;
  let after = 0;
  for (let facts = 0; facts < historyLimits.factsMax; ) {
    const query = { tenant, after, subject: runKey(run), limit: ledgerLimits.factsPage };
    let page = await reader.events(query);
    if (after < page.floor) page = await reader.events({ ...query, after: page.floor });
    const [firstFact] = page.items;
    if (first === null && firstFact?.type !== "run.created")
      throw expiredFault(`the first facts of run ${run} are no longer kept, so its ledger cannot be made`, page);
    first ??= firstFact?.position ?? 0;
    folding.add(page.items);
    after = page.items.at(-1)?.position ?? after;
    facts += page.items.length;
    if (page.items.length < ledgerLimits.factsPage)
      return { runId: run, figures: folding.finish().figures, from: first, to: after, asOf: page.head };
  }
  const { factsMax } = historyLimits;
  const why = `run ${run} has more than ${factsMax} facts; read the ledger of the log instead`;
  throw fault("E.REQUEST.TOO_LARGE", why, { run, factsMax });
}

/** Of the facts of the tenant's log after a position, at most `limit` of them. */
export async function readLogLedger(reader: StoreReader, tenant: string, after: number, limit: number): Promise<Ledger> {
  const folding = new LedgerFold(null);
  let to = after;
  for (let left = limit; ; ) {
    const page = await reader.events({ tenant, after: to, limit: Math.min(left, ledgerLimits.factsPage) });
    if (to < page.floor) throw expiredFault(`the facts up to ${page.floor} are no longer kept; begin after them`, page);
    if (after > page.head)
      throw fault("E.CURSOR.UNKNOWN", `query.after is beyond the end of the log, which is at ${page.head}`, {
        path: "query.after",
        head: page.head,
      });
    folding.add(page.items);
    left -= page.items.length;
    to = page.next;
    if (left <= 0 || page.items.length === 0 || to >= page.head) {
      const { figures } = folding.finish();
      return { figures, from: after + 1, to, next: to < page.head ? to : null, asOf: page.head };
    }
  }
}

const expiredFault = (why: string, { floor, head }: EventPage): Fault => fault("E.CURSOR.EXPIRED", why, { floor, head });
