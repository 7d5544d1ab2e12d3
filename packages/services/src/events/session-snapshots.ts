// What a client session that opens the stream without a cursor gets first: its open runs and those that have just ended, each as the status and the
// snapshot that the stream would have sent. Dashboards of the field draw their list of runs from it.

import type { RunPhase, RunRow, StoreReader } from "@astraflow/engine";
import { type EventData, omitUndefined } from "@astraflow/protocol";
import { isoTime } from "../presentation/iso-time.ts";
import type { EventLookup } from "./event-lookup.ts";
import type { StreamEvent } from "./fact-events.ts";

export const sessionSnapshotLimits = {
  /** The newest of them. A dashboard that has more asks for its runs page by page. */
  openRunsMax: 50,
  endedRunsMax: 20,
  /** A run that ended longer ago than this was seen by whoever watched it. */
  endedMs: 60_000,
} as const;

const openPhases: readonly RunPhase[] = ["queued", "running", "ending"];

/** Ids of the session's open and just-ended runs, oldest first. */
export async function findSessionRuns(
  reader: StoreReader,
  { tenant, client, now }: { readonly tenant: string; readonly client: string; readonly now: number },
): Promise<string[]> {
  const { openRunsMax, endedRunsMax, endedMs } = sessionSnapshotLimits;
  const query = { page: "runs", tenant, client } as const;
  // The newest of any phase first: a run that ends in between is found as one that has just ended, or by the stream.
  const newest = await reader.page({ ...query, limit: openRunsMax });
  const open = await Promise.all(openPhases.map((phase) => reader.page({ ...query, phase, limit: openRunsMax })));
  const ended = newest.items.filter(({ endedAt }) => endedAt !== null && endedAt >= now - endedMs).slice(0, endedRunsMax);
  const runs = newestFirst([...newest.items.filter(({ endedAt }) => endedAt === null), ...open.flatMap(({ items }) => items)]);
  return newestFirst([...runs.slice(0, openRunsMax), ...ended])
    .map(({ id }) => id)
    .reverse();
}

/** Each run once; ids sort by the time of their creation. */
const newestFirst = (runs: readonly RunRow[]): RunRow[] =>
  [...new Map(runs.map((run) => [run.id, run])).values()].sort((a, b) => (a.id < b.id ? 1 : -1));

export interface RunSnapshotEvents {
  readonly events: readonly StreamEvent[];
  /** Position of the log up to which the snapshot includes what happened to the run. */
  readonly asOf: number;
}

/** Null for a run that is gone. */
export async function snapshotEventsOf(lookup: EventLookup, tenant: string, runId: string): Promise<RunSnapshotEvents | null> {
  const snapshot = await lookup.runSnapshot(runId);
  if (snapshot === null) return null;
  const { status, clientId, createdAt, startedAt, finishedAt, error } = snapshot.run;
  const statusData: EventData<"run.status"> = {
    kind: "run.status",
    runId,
    status,
    ...omitUndefined({ startedAt, finishedAt, reason: error?.message }),
  };
  const about = {
    occurredAt: finishedAt ?? startedAt ?? createdAt ?? isoTime(0),
    scope: { tenant, runId, ...(clientId !== "" && { clientSessionId: clientId }) },
    node: null,
  };
  const events: StreamEvent[] = [
    { type: "run.status", ...about, data: statusData },
    { type: "run.snapshot", ...about, data: snapshot },
  ];
  return { events, asOf: snapshot.asOf };
}

/** Whether the snapshot of a run includes what the event tells. Printed text is in no snapshot. */
export const isPartOfSnapshot = ({ type, data }: Pick<StreamEvent, "type" | "data">): boolean =>
  !(type === "node.result.delta" && (data as EventData<"node.result.delta">).operation === "append");
