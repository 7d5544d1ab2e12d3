// What removing old rows has in common in all stores: which rows may go, counted how.

import type { Millis, RemovalSlice, RemovedCounts } from "@astraflow/engine";

export type RemovalOf<Of extends RemovalSlice["of"]> = Extract<RemovalSlice, { readonly of: Of }>;

export const noneRemoved: RemovedCounts = { runs: 0, tasks: 0, chunks: 0, logEntries: 0, keys: 0, workers: 0 };

export const auditFactPrefix = "audit.";
/** How the text of a log row's facts shows that one of them is an audit entry. Data may look like one: such a row stays as long. */
export const auditFactMark = `["${auditFactPrefix}`;

/** The instant at or before which something must have happened to be old enough. */
export const cutoffOf = (now: Millis, { olderThanMs }: { readonly olderThanMs: Millis }): Millis => now - olderThanMs;

/** What decides about a row of the log. */
export interface LogRowAge {
  readonly at: Millis;
  readonly isOfKeptRun: boolean;
  readonly isAudit: boolean;
}

export function isLogRowOld(row: LogRowAge, now: Millis, slice: RemovalOf<"log">): boolean {
  if (row.isOfKeptRun || row.at > cutoffOf(now, slice)) return false;
  return !row.isAudit || (slice.auditOlderThanMs !== null && row.at <= now - slice.auditOlderThanMs);
}

/** A worker whose condition mentions commands that wait for its answer; they end by their own time. */
export const pendingCommandsMark = '"orders"';
