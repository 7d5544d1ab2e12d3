// The state machine of a run. A run ends when its last task has; one that must end early is `ending` until every task
// is cancelled, so that work larger than a turn is a cursor and not a long transaction.

import { type Fault, fault } from "@astraflow/protocol";
import type { Millis, RunPhase, RunRow, TaskId } from "../../storage/rows.ts";
import { requireLegalMove } from "./invariant-broken.ts";

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

export const isRunEnded = (run: RunRow): boolean =>
  run.phase === "succeeded" || run.phase === "failed" || run.phase === "cancelled";

export function stepRun(run: RunRow, event: RunTransition, now: Millis): RunRow | Fault {
  if (!(event.type in runMoves[run.phase]))
    return fault("E.RUN.TERMINAL", `run ${run.id} is ${run.phase} and cannot ${event.type}`, { run: run.id, phase: run.phase });
  switch (event.type) {
    case "start":
      return { ...run, phase: "running", startedAt: now };
    case "open":
      return { ...run, open: run.open + event.tasks };
    case "succeed":
      return { ...run, phase: "succeeded", open: 0, due: null, endedAt: now };
    case "condemn":
      // Before every deadline of its own tasks: those must not be due before the sweep that ends them.
      return { ...run, phase: "ending", verdict: event.verdict, error: event.error, cursor: null, due: run.createdAt };
    case "sweep":
      return { ...run, cursor: event.cursor, open: run.open - event.ended, due: run.createdAt };
    case "close":
      return { ...run, phase: run.verdict ?? "failed", open: 0, due: null, cursor: null, endedAt: now };
  }
}

export function applyRunTransition(run: RunRow, event: RunTransition, now: Millis): RunRow {
  return requireLegalMove(stepRun(run, event, now));
}
