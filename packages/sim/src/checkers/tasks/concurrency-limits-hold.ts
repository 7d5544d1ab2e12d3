// I16: a concurrency key never has more leased attempts than its limit, and a grant is started once. Handlers are counted where they run: once the log
// has declared a worker lost and requeued its attempt, the handler there must have stopped by itself.

import { Checker } from "../../checking/checker.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import type { HandlerObservation, Observation, TrueTime } from "../../observation/observation.ts";

/** A process that has just resumed may do its late work first. */
const wakeMs = 2_000;

export class ConcurrencyLimitsHold extends Checker {
  readonly #started = new Map<string, string>();
  /** Handlers that run and were not told to stop, by `<task>#<fence>`. */
  readonly #running = new Map<string, HandlerObservation>();
  /** Machines that were suspended: their clocks stopped, so they cannot know that their lease has ended. */
  readonly #suspended = new Set<string>();

  override onObservation(observation: Observation): void {
    if (observation.kind === "fault" && observation.name === "suspended") this.#suspended.add(observation.target);
    if (observation.kind !== "handler") return;
    if (observation.event === "starts") this.#start(observation);
    else if (this.#running.get(`${observation.task}#${observation.fence}`)?.boot === observation.boot)
      this.#running.delete(`${observation.task}#${observation.fence}`);
  }

  #start(observation: HandlerObservation): void {
    const grant = `${observation.task}#${observation.fence}`;
    const where = `${observation.worker} (boot ${observation.boot})`;
    const first = this.#started.get(grant);
    this.#started.set(grant, where);
    this.#running.set(grant, observation);
    this.checkedCount++;
    // A worker that cannot report its state runs a repeated dispatch again.
    if (first !== undefined && !this.world.isLegacyWorker(observation.worker))
      this.fail(`${grant} was started twice: at ${first} and at ${where}`, observation.task, observation.worker);
  }

  /** An attempt is taken back because its holder was taken for lost: its handler must have stopped. */
  override onFact({ type, data, readAt, position, tenant, task: id }: ObservedFact): void {
    if (type !== "task.requeued") return;
    const task = this.projection.task(id);
    const isLost = data["code"] === "E.WORKER.LOST" && this.projection.workers.get(String(data["from"]))?.presence === "lost";
    const handler = task === undefined || !isLost ? undefined : this.#running.get(`${task.id}#${task.fence}`);
    if (isLost) this.checkedCount++;
    if (task === undefined || handler === undefined || this.world.isLegacyWorker(handler.worker)) return;
    if (this.#suspended.has(handler.worker) || !this.#isAwake(handler.worker, readAt)) return;
    this.fail(
      `${task.id} was requeued at position ${position} of ${tenant} because ${handler.worker} was lost, ` +
        `and its handler under fence ${task.fence} still runs there, not told to stop`,
      task.id,
      handler.worker,
    );
  }

  #isAwake(process: string, at: TrueTime): boolean {
    return this.world.isRunning(process) && at - (this.world.processes.get(process)?.changedAt ?? at) > wakeMs;
  }

  override onTurn(tenant: string, facts: readonly ObservedFact[]): void {
    if (!facts.some(({ type }) => type === "task.granted")) return;
    const runs = [...this.projection.runs.values()].filter((run) => run.tenant === tenant && run.endStatus === null);
    const held = runs.flatMap(({ tasks }) => [...tasks.values()]).filter(({ worker }) => worker !== null);
    for (const [key, tasks] of Map.groupBy(held, ({ node }) => node?.policy.concurrency?.key)) {
      if (key === undefined) continue;
      this.checkedCount++;
      const limit = Math.max(...tasks.map((task) => task.node?.policy.concurrency?.limit ?? 1));
      const ids = tasks.map((task) => task.id);
      if (tasks.length > limit)
        return this.fail(`${ids.join(" and ")} are held at once under key ${key}, whose limit is ${limit}`, ...ids);
    }
  }
}
