// I37, seen from outside: no process of ours throws, spins, quarantines a unit or leaves the world unable to go on, whatever happens to it.

import type { Checker, CheckerContext } from "../../checking/checker.ts";

export function checkNoProcessCrashesOrSpins({ reportViolation }: CheckerContext): Checker {
  let checkedCount = 0;
  return {
    get checkedCount() {
      return checkedCount;
    },
    onObservation(observation) {
      if (observation.kind === "process") checkedCount++;
      if (observation.kind === "broken")
        reportViolation(`${observation.name} at ${observation.process}: ${observation.message}`, [observation.process]);
    },
  };
}
