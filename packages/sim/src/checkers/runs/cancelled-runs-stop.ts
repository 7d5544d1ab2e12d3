// I14: once a cancelling is in the log the run ends as cancelled, nothing of it is granted or succeeds any more, and no handler of an attempt
// that is over runs on without having been told to stop.

import type { Checker, CheckerContext } from "../../checking/checker.ts";
import type { HandlerObservation, TrueTime } from "../../observation/observation.ts";

/** For the frame to travel, and for what waits at the door. */
const slackMs = 15_000;

interface Running {
  readonly seen: HandlerObservation;
  /** When the log first showed that its attempt is over. */
  overSince: TrueTime;
}

export function checkCancelledRunsStop({ reportViolation, projection, world }: CheckerContext): Checker {
  const running = new Map<string, Running>();
  let checkedCount = 0;

  const isOver = ({ task, fence }: HandlerObservation): boolean => {
    const projected = projection.task(task);
    return (
      projected !== undefined &&
      (projected.endStatus !== null || projected.fence > fence || (projected.fence === fence && projected.worker === null))
    );
  };

  return {
    get checkedCount() {
      return checkedCount;
    },
    onFact({ run: id, type, position, tenant }) {
      const run = id === null ? undefined : projection.run(id);
      if (run?.isCancelling !== true) return;
      checkedCount++;
      const where = `${type} at position ${position} of ${tenant}`;
      if (type === "task.granted" || type === "task.succeeded" || type === "task.skipped")
        return reportViolation(`${where}: run ${run.id} was being cancelled`, [run.id]);
      if (type === "run.succeeded" || type === "run.failed")
        reportViolation(`${where}: run ${run.id} was cancelled and ends otherwise`, [run.id]);
    },
    onObservation(observation) {
      if (observation.kind !== "handler") return;
      const key = `${observation.boot} ${observation.task}#${observation.fence}`;
      if (world.isLegacyWorker(`${observation.tenant}/${observation.instance}`)) return;
      if (observation.event === "starts") running.set(key, { seen: observation, overSince: Number.POSITIVE_INFINITY });
      else running.delete(key);
    },
    onTimePassed(at) {
      if (!world.areFaultsOver) return;
      const { heartbeatMs = 0, leaseMs = 0 } = world.setup?.guarantees ?? {};
      for (const one of running.values()) {
        const { seen: observation } = one;
        if (!isOver(observation)) continue;
        one.overSince = Math.min(one.overSince, at);
        checkedCount++;
        // The next heartbeat names it, and whoever hears that tells the worker to stop; after the longest silence the worker stops by itself.
        if (at <= Math.max(one.overSince, world.faultsEndedAt) + leaseMs + 2 * heartbeatMs + slackMs) continue;
        return reportViolation(
          `attempt ${observation.task}#${observation.fence} is over and its handler at ${observation.worker} was never told`,
          [observation.task, observation.worker],
        );
      }
    },
  };
}
