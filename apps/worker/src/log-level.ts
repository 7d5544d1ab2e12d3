// How important a note of the link is to whoever reads the log. The runtime knows what happened, not what an operator expects.

import type { LinkLogEvent, WorkerLogEvent } from "@astraflow/runtime";

/** Hears every note in order; answers with the level to log it at. */
export class LogLevelPolicy {
  #previousPhase: unknown;

  levelOf(event: LinkLogEvent | WorkerLogEvent): LinkLogEvent["level"] {
    if (event.event === "phase") this.#previousPhase = event.details?.["from"];
    // A scheduler that knows no undrain ends a drain by a fresh session: what was asked for, so nothing to warn of.
    const isDrainOver =
      event.event === "reset" && this.#previousPhase === "DRAINING" && event.details?.["code"] === "E.SESSION.UNKNOWN";
    return isDrainOver ? "info" : event.level;
  }
}
