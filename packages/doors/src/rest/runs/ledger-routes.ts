// The ledger over REST: figures that anybody can add up again from the same facts. What is counted is in protocol's ledger-fold.ts.

import { runKey, type StoreReader } from "@astraflow/engine";
import { fault, type Ledger, type LedgerState, type RunLedger, startLedgerFold } from "@astraflow/protocol";
import { type RouteHandler, readWholeNumber } from "../requests/rest-call.ts";
import { historyLimits } from "./run-history.ts";
import { findRun } from "./run-routes.ts";

const ledgerLimits = { factsPage: 1_000, factsMax: 10_000 } as const;

export function ledgerHandlers({ reader }: { readonly reader: StoreReader }): Record<"getRunLedger" | "getLedger", RouteHandler> {
  return {
    async getRunLedger(call) {
      const { tenant } = call.identity;
      const runId = call.params["runId"] ?? "";
      await findRun(reader, tenant, runId, 0);
      const { book, from, to, head } = await readRunLedger(reader, tenant, runId);
      const body: RunLedger = { runId, figures: book.figures, from, to, asOf: head };
      return { body };
    },

    async getLedger(call) {
      const { tenant } = call.identity;
      const after = readWholeNumber(call.query, "after", 0);
      const limit = readWholeNumber(call.query, "limit", ledgerLimits.factsMax, ledgerLimits.factsMax);
      if (limit < 1) throw fault("E.REQUEST.INVALID", "query.limit must be at least 1", { path: "query.limit" });
      const { book, to, head } = await readLogLedger(reader, tenant, after, limit);
      const body: Ledger = { figures: book.figures, from: after + 1, to, next: to < head ? to : null, asOf: head };
      return { body };
    },
  };
}

/** Every fact of a run; a ledger of a part would seem to be one of the whole. */
async function readRunLedger(
  reader: StoreReader,
  tenant: string,
  run: string,
): Promise<{ book: LedgerState; from: number; to: number; head: number }> {
  const folding = startLedgerFold(null);
  let first: number | null = null;
  let after = 0;
  for (let facts = 0; facts < historyLimits.factsMax; ) {
    const query = { tenant, after, subject: runKey(run), limit: ledgerLimits.factsPage };
    let page = await reader.events(query);
    if (after < page.floor) page = await reader.events({ ...query, after: page.floor });
    const [firstFact] = page.items;
    if (first === null && firstFact?.type !== "run.created")
      throw fault("E.CURSOR.EXPIRED", `the first facts of run ${run} are no longer kept, so its ledger cannot be made`, {
        floor: page.floor,
        head: page.head,
      });
    first ??= firstFact?.position ?? 0;
    folding.add(page.items);
    after = page.items.at(-1)?.position ?? after;
    facts += page.items.length;
    if (page.items.length < ledgerLimits.factsPage) return { book: folding.finish(), from: first, to: after, head: page.head };
  }
  throw fault(
    "E.REQUEST.TOO_LARGE",
    `run ${run} has more than ${historyLimits.factsMax} facts; read the ledger of the log instead`,
    {
      run,
      factsMax: historyLimits.factsMax,
    },
  );
}

/** A stretch of the tenant's log, of at most so many facts whatever the log holds. */
async function readLogLedger(
  reader: StoreReader,
  tenant: string,
  after: number,
  limit: number,
): Promise<{ book: LedgerState; to: number; head: number }> {
  const folding = startLedgerFold(null);
  let to = after;
  for (let left = limit; ; ) {
    const page = await reader.events({ tenant, after: to, limit: Math.min(left, ledgerLimits.factsPage) });
    if (to < page.floor)
      throw fault("E.CURSOR.EXPIRED", `the facts up to ${page.floor} are no longer kept; begin after them`, {
        floor: page.floor,
        head: page.head,
      });
    if (after > page.head)
      throw fault("E.REQUEST.INVALID", `query.after is beyond the end of the log, which is at ${page.head}`, {
        path: "query.after",
        head: page.head,
      });
    folding.add(page.items);
    left -= page.items.length;
    to = page.next;
    if (left <= 0 || page.items.length === 0 || to >= page.head) return { book: folding.finish(), to, head: page.head };
  }
}
