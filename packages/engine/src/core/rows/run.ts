// The state machine of a run, and its origin. A run ends when its last task has; one that must end early is `ending` until every task
// is cancelled, so that work larger than a turn is a cursor and not a long transaction.

import { type Fault, fault, isRecord } from "@astraflow/protocol";
import type { LiveRun, Millis, RunId, RunPhase, RunRow, TaskId } from "../../storage/rows.ts";
import { requireLegalMove } from "./invariant-broken.ts";
import { type RowAfter, type Steps, takeStep } from "./moves.ts";
import { parsedColumn } from "./parsed-column.ts";

export type RunTransition =
  | { readonly type: "start" }
  | { readonly type: "open"; readonly tasks: number }
  | { readonly type: "succeed" }
  | { readonly type: "condemn"; readonly verdict: "failed" | "cancelled"; readonly error: string | null }
  | { readonly type: "sweep"; readonly cursor: TaskId; readonly ended: number }
  | { readonly type: "close" };

export const runMoves = {
  queued: { start: ["running"], open: ["queued"], succeed: ["succeeded"], condemn: ["ending"] },
  running: { open: ["running"], succeed: ["succeeded"], condemn: ["ending"] },
  ending: { sweep: ["ending"], close: ["failed", "cancelled"] },
  succeeded: {},
  failed: {},
  cancelled: {},
} as const satisfies Record<RunPhase, Partial<Record<RunTransition["type"], readonly RunPhase[]>>>;

export const isRunLive = (run: RunRow): run is LiveRun => run.phase === "queued" || run.phase === "running";

const runSteps: Steps<RunRow, RunTransition, typeof runMoves> = {
  start: (run, _, now) => ({ ...run, phase: "running", startedAt: now }),
  open: (run, event) => ({ ...run, open: run.open + event.tasks }),
  succeed: (run, _, now) => ({ ...run, phase: "succeeded", open: 0, cursor: null, due: null, endedAt: now }),
  condemn: (run, { verdict, error }) => ({
    ...run,
    phase: "ending",
    verdict,
    error,
    cursor: null,
    // Before every deadline of its own tasks: those must not be due before the sweep that ends them.
    due: run.createdAt,
  }),
  sweep: (run, { cursor, ended }) => ({ ...run, cursor, open: run.open - ended, due: run.createdAt }),
  close: (run, _, now) => ({ ...run, phase: run.verdict, open: 0, due: null, cursor: null, endedAt: now }),
};

type RunAfter<R extends RunRow, E extends RunTransition> = RowAfter<R, E, typeof runMoves, RunRow>;

export function stepRun<R extends RunRow, E extends RunTransition>(run: R, event: E, now: Millis): RunAfter<R, E> | Fault {
  if (!(event.type in runMoves[run.phase]))
    return fault("E.RUN.TERMINAL", `run ${run.id} is ${run.phase} and cannot ${event.type}`, { run: run.id, phase: run.phase });
  return takeStep(runSteps, run, event, now);
}

export function applyRunTransition<R extends RunRow, E extends RunTransition>(run: R, event: E, now: Millis): RunAfter<R, E> {
  return requireLegalMove(stepRun(run, event, now));
}

/** Who started a run, which version of the workflow, which run it repeats. Written once; shown and searched, never decided upon. */
export interface RunOrigin {
  readonly by?: string;
  readonly corr?: string;
  /** Published version of the workflow, or null for a draft or a definition that came with the request. */
  readonly version?: number | string | null;
  /** Digest of that version as it was published; the stored plan may hold more, from the manifests of its packages. */
  readonly versionHash?: string;
  /** The run that this one repeats, and from which node on. */
  readonly replayOf?: RunId;
  readonly from?: string;
  readonly to?: string;
  readonly labels?: Readonly<Record<string, string>>;
  /** Further fields of the caller. */
  readonly [more: string]: unknown;
}

export const readRunOrigin = parsedColumn<RunRow, RunOrigin>(
  (run) => run.about,
  {},
  (text) => {
    const parsed: unknown = JSON.parse(text);
    return isRecord(parsed) ? parsed : {};
  },
).read;
