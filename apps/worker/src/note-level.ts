// How important a note of the link is to whoever reads the log. The runtime knows what happened, not what an operator expects.

import type { LinkNote, WorkerNote } from "@astraflow/runtime";

/** Hears every note in order; answers with the level to log it at. */
export class NoteLevels {
  #phaseLeft: unknown;

  levelOf(note: LinkNote | WorkerNote): LinkNote["level"] {
    if (note.event === "phase") this.#phaseLeft = note.details?.["from"];
    // A scheduler that knows no undrain ends a drain by a fresh session: what was asked for, so nothing to warn of.
    const isDrainOver =
      note.event === "reset" && this.#phaseLeft === "DRAINING" && note.details?.["code"] === "E.SESSION.UNKNOWN";
    return isDrainOver ? "info" : note.level;
  }
}
