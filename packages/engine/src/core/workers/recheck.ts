// Attempts that a worker kept over a join without being able to report them. A moment later the dispatch of each that has not ended is sent
// again: a worker that still runs it reports so, one that has lost it runs it now. Without this a result that got lost with
// the old connection would leave its task leased as long as the worker sends heartbeats.

import { runOf } from "../../storage/rows.ts";
import { sendDispatch } from "../delivery/dispatch.ts";
import { releaseStaleAttempt } from "../delivery/waiting-attempts.ts";
import type { AttemptTimer } from "../fleet/attempt-deadlines.ts";
import type { DecisionContext } from "../unit-of-work/decision-context.ts";
import type { IsolateFailure } from "../unit-of-work/root.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

/** Those that are due, limited per turn. */
export function dueRechecks({ fleet, settings }: Pick<DecisionContext, "fleet" | "settings">, now: number): AttemptTimer[] {
  const due = fleet
    .attemptsToRecheck(now, settings.recheckMs)
    .filter(({ worker }) => !fleet.pendingChanges.concernedWorkers.has(worker));
  return due.slice(0, settings.dueMax);
}

export function recheckAttempts(work: UnitOfWork, isolate: IsolateFailure): void {
  for (const { worker, task: id, fence } of dueRechecks(work, work.now)) {
    const connected = work.fleet.workers.get(worker);
    // A heartbeat or a join of this very turn: the fleet does not show it yet.
    if (connected === undefined || work.changedWorkers.has(worker)) continue;
    isolate(runOf(id), () => {
      if (work.fleetChanges.some((change) => change.type === "release" && change.task === id && change.fence === fence)) return;
      const task = work.task(id);
      const run = task === null ? null : work.run(task.run);
      if (task === null || run === null || task.phase !== "leased" || task.fence !== fence || task.worker !== worker) {
        releaseStaleAttempt(work, connected, id, fence);
        return;
      }
      // A run that is ending is swept soon, and the sweep stops the attempt.
      const isWanted = run.phase !== "ending" && task.epoch === connected.epoch;
      if (isWanted) sendDispatch(work, connected, run, work.nodeOf(run, task), task);
      work.changeFleet({ type: "recheck", worker, task: id, fence, sentAt: isWanted ? work.now : null });
      if (isWanted) work.incrementMetric("dispatch_recheck_total", { tenant: connected.tenant });
    });
  }
}
