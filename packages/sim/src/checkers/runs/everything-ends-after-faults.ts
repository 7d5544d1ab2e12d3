// I39: after all faults have ended, every run ends within the time limit and every call is answered. The violation names what hangs.

import { type ApiExchange, Checker } from "../../checking/checker.ts";
import type { Observation } from "../../observation/observation.ts";

/** A process that was just started may need this long to answer. */
const startMs = 5_000;

export class EverythingEndsAfterFaults extends Checker {
  override onObservation(observation: Observation): void {
    if (observation.kind !== "phase" || observation.phase !== "converged" || observation.isInTime !== false) return;
    const open = this.#openRuns();
    const ids = open.map((text) => text.slice(0, text.indexOf(" ")));
    this.fail(
      `the time limit has passed and these have not ended: ${open.slice(0, 5).join("; ") || "no run, but perhaps a worker command"}`,
      ...ids.slice(0, 5),
    );
  }

  override onExchange({ call, answer }: ApiExchange): void {
    if (call.at <= this.world.faultsEndedAt + startMs) return;
    this.checkedCount++;
    if (answer.status === 0)
      this.fail(`${call.route} of ${call.caller} on ${call.scheduler} was never answered after the faults ended`, call.scheduler);
  }

  override onEnd(): void {
    this.checkedCount += this.projection.runs.size;
    const [first] = this.#openRuns();
    if (first !== undefined) this.fail(`not ended at the end: ${first}`, first.slice(0, first.indexOf(" ")));
  }

  #openRuns(): string[] {
    const open = [...this.projection.runs.values()].filter((run) => run.endStatus === null);
    return open.map(({ id, tasks }) => {
      const openTasks = [...tasks.values()].filter((task) => task.endStatus === null);
      const states = openTasks.map(
        (task) => `${task.id} ${task.worker === null ? (task.isReady ? "ready" : "waiting") : `with ${task.worker}`}`,
      );
      return `${id} (${states.join(", ") || "no open task"})`;
    });
  }
}
