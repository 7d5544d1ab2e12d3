// Which of its nullable fields a row has in each phase, as the unions of storage/rows.ts say: TypeScript refuses a table that says
// otherwise. Rows that come from a store are checked by it.

import type { InPhase, Row, RunRow, TaskRow, WorkerRow } from "../../storage/rows.ts";

/** True: always set; false: always null; never: sometimes. */
type Presence<T> = [T] extends [null] ? false : null extends T ? never : true;

type Shapes<R extends { readonly phase: string }> = {
  readonly [P in R["phase"]]: {
    readonly [K in keyof R & string as null extends R[K]
      ? [Presence<InPhase<R, P>[K]>] extends [never]
        ? never
        : K
      : never]: Presence<InPhase<R, P>[K]>;
  };
};

const liveRun = { verdict: false, endedAt: false, error: false } as const;
const endedRun = { cursor: false, endedAt: true, due: false } as const;
const runShapes: Shapes<RunRow> = {
  queued: { ...liveRun, startedAt: false },
  running: { ...liveRun, startedAt: true },
  ending: { verdict: true, endedAt: false, due: true },
  succeeded: { ...endedRun, verdict: false, error: false },
  failed: { ...endedRun, verdict: true },
  cancelled: { ...endedRun, verdict: true },
};

const notQueued = { line: false, rank: false } as const;
const notHeld = { worker: false, boot: false } as const;
const openTask = { endedAt: false, result: false, error: false } as const;
const endedTask = { ...notQueued, due: false, endedAt: true } as const;
const taskShapes: Shapes<TaskRow> = {
  waiting: { ...openTask, ...notQueued, ...notHeld, due: false, readyAt: false, grantedAt: false },
  ready: { ...openTask, ...notHeld, line: true, readyAt: true },
  parked: { ...openTask, ...notHeld, readyAt: true },
  leased: { ...openTask, ...notQueued, worker: true, boot: true, readyAt: true, grantedAt: true },
  hosting: { ...openTask, ...notQueued, ...notHeld, readyAt: true },
  succeeded: { ...endedTask, result: true, error: false },
  skipped: { ...endedTask, result: true, error: false },
  failed: { ...endedTask, error: true },
  cancelled: { ...endedTask, result: false },
};

const workerShapes: Shapes<WorkerRow> = {
  online: { due: true },
  away: { due: true },
  lost: {},
  left: {},
  enrolled: { due: false },
};

type FieldPresence = readonly (readonly [field: string, isSet: boolean])[];

const listed = (shapes: Readonly<Record<string, Readonly<Record<string, boolean>>>>): ReadonlyMap<string, FieldPresence> =>
  new Map(Object.entries(shapes).map(([phase, fields]) => [phase, Object.entries(fields)]));

const presenceByPhase = { run: listed(runShapes), task: listed(taskShapes), worker: listed(workerShapes) };

/** What does not fit the phase of this row, in words; null when everything does. */
export function findMisfit(row: Row): string | null {
  if (row.kind !== "run" && row.kind !== "task" && row.kind !== "worker") return null;
  const presence = presenceByPhase[row.kind].get(row.phase);
  if (presence === undefined) return "is in no known phase";
  for (const [field, isSet] of presence) {
    const value = row[field as keyof typeof row];
    if ((value !== null) !== isSet) return `is ${row.phase} and its ${field} is ${value}`;
  }
  if (row.kind === "task" && row.phase === "parked" && row.line === null && row.due === null) return "is parked for ever";
  return null;
}
