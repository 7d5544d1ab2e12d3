// I39: when all faults have ended every run ends within the bound, and every call is answered. What hangs for ever is named here.

import type { Checker, CheckerContext } from "../../checking/checker.ts";

/** A process that was just started may need this long before it answers. */
const startMs = 5_000;

export function checkEverythingEndsAfterFaults({ reportViolation, projection, world }: CheckerContext): Checker {
  let checkedCount = 0;

  const openRuns = (): string[] => {
    const open: string[] = [];
    for (const run of projection.runs.values())
      if (run.endStatus === null) {
        const tasks = [...run.tasks.values()].filter((task) => task.endStatus === null);
        const states = tasks.map(
          (task) => `${task.id} ${task.worker === null ? (task.isReady ? "ready" : "waiting") : `with ${task.worker}`}`,
        );
        open.push(`${run.id} (${states.join(", ") || "no open task"})`);
      }
    return open;
  };

  return {
    get checkedCount() {
      return checkedCount;
    },
    onObservation(observation) {
      if (observation.kind !== "phase" || observation.phase !== "converged" || observation.isInTime !== false) return;
      const open = openRuns();
      const ids = open.map((text) => text.slice(0, text.indexOf(" ")));
      reportViolation(
        `the bound is over and these go on: ${open.slice(0, 5).join("; ") || "no run, but perhaps an order about a worker"}`,
        ids.slice(0, 5),
      );
    },
    onExchange({ call, answer }) {
      if (call.at <= world.faultsEndedAt + startMs) return;
      checkedCount++;
      if (answer.status === 0)
        reportViolation(`${call.route} of ${call.caller} on ${call.scheduler} was never answered in calm`, [call.scheduler]);
    },
    onEnd() {
      checkedCount += projection.runs.size;
      const [first] = openRuns();
      if (first !== undefined) reportViolation(`at the end this goes on: ${first}`, [first.slice(0, first.indexOf(" "))]);
    },
  };
}
