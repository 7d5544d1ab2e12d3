// I14: once the log says that a run is being cancelled, the run ends as cancelled, none of its tasks is granted or succeeds any more, and no handler
// of an ended attempt keeps running without having been told to stop.

import { Checker } from "../../checking/checker.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import type { HandlerObservation, Observation, TrueTime } from "../../observation/observation.ts";

/** For latency and queued commands. */
const slackMs = 15_000;

export class CancelledRunsStop extends Checker {
  /** Handlers by boot and attempt, and when the log first showed that the attempt is over. */
  readonly #running = new Map<string, { readonly handler: HandlerObservation; overSince: TrueTime }>();

  override onFact({ run: id, type, where }: ObservedFact): void {
    const run = id === null ? undefined : this.projection.runs.get(id);
    if (run?.isCancelling !== true) return;
    this.checkedCount++;
    if (type === "task.granted" || type === "task.succeeded" || type === "task.skipped")
      return this.fail(`${where}: run ${run.id} was being cancelled`, run.id);
    if (type === "run.succeeded" || type === "run.failed")
      this.fail(`${where}: run ${run.id} was cancelled and ended otherwise`, run.id);
  }

  override onObservation(observation: Observation): void {
    if (observation.kind !== "handler") return;
    const key = `${observation.boot} ${observation.task}#${observation.fence}`;
    if (this.world.isLegacyWorker(observation.worker)) return;
    if (observation.event === "starts") this.#running.set(key, { handler: observation, overSince: Number.POSITIVE_INFINITY });
    else this.#running.delete(key);
  }

  override onTimePassed(at: TrueTime): void {
    if (!this.world.areFaultsOver) return;
    const { heartbeatMs = 0, leaseMs = 0 } = this.world.setup?.guarantees ?? {};
    for (const one of this.#running.values()) {
      const { task, fence, worker } = one.handler;
      if (!this.#isOver(one.handler)) continue;
      one.overSince = Math.min(one.overSince, at);
      this.checkedCount++;
      // The next heartbeat lists it, and the scheduler sends a cancel; after a long silence the worker stops by itself.
      if (at <= Math.max(one.overSince, this.world.faultsEndedAt) + leaseMs + 2 * heartbeatMs + slackMs) continue;
      return this.fail(`attempt ${task}#${fence} is over and its handler at ${worker} was never told to stop`, task, worker);
    }
  }

  #isOver({ task, fence }: HandlerObservation): boolean {
    const projected = this.projection.task(task);
    return (
      projected !== undefined &&
      (projected.endStatus !== null || projected.fence > fence || (projected.fence === fence && projected.worker === null))
    );
  }
}
