// Which of its nullable fields a row has in each phase, as the unions of storage/rows.ts say: TypeScript refuses a table that says
// otherwise. Rows that come from a store are checked by it.

import type { InPhase, Row, RunRow, WorkerRow } from "../../storage/rows.ts";

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

const workerShapes: Shapes<WorkerRow> = {
  online: { due: true },
  away: { due: true },
  lost: {},
  enrolled: { due: false },
};

type FieldPresence = readonly (readonly [field: string, isSet: boolean])[];

const listed = (shapes: Readonly<Record<string, Readonly<Record<string, boolean>>>>): ReadonlyMap<string, FieldPresence> =>
  new Map(Object.entries(shapes).map(([phase, fields]) => [phase, Object.entries(fields)]));

const presenceByPhase = { run: listed(runShapes), worker: listed(workerShapes) };

/** What does not fit the phase of this row, in words; null when everything does. */
export function findMisfit(row: Row): string | null {
  if (row.kind !== "run" && row.kind !== "worker") return null;
  const presence = presenceByPhase[row.kind].get(row.phase);
  if (presence === undefined) return "is in no known phase";
  for (const [field, isSet] of presence) {
    const value = row[field as keyof typeof row];
    if ((value !== null) !== isSet) return `is ${row.phase} and its ${field} is ${value}`;
  }
  return null;
}
