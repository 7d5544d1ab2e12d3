// I37, as seen from outside: no process throws, loops without rest, quarantines a root or leaves the simulated run unable to continue.

import { Checker } from "../../checking/checker.ts";
import type { Observation } from "../../observation/observation.ts";

export class NoProcessCrashesOrSpins extends Checker {
  override onObservation(observation: Observation): void {
    if (observation.kind === "process") this.checkedCount++;
    if (observation.kind === "broken")
      this.fail(`${observation.name} at ${observation.process}: ${observation.message}`, observation.process);
  }
}
