// I37, seen from outside: no process of ours throws, spins, quarantines a unit or leaves the world unable to go on, whatever happens to it.

import { Checker } from "../../checking/checker.ts";
import type { Observation } from "../../observation/observation.ts";

export class NoProcessCrashesOrSpins extends Checker {
  override onObservation(observation: Observation): void {
    if (observation.kind === "process") this.checkedCount++;
    if (observation.kind === "broken")
      this.reportViolation(`${observation.name} at ${observation.process}: ${observation.message}`, [observation.process]);
  }
}
