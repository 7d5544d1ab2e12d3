// I16: of each concurrency key no more attempts are in force than its limit, and a grant is started once. Handlers are counted where they run:
// once the log calls a worker lost and gives its attempt on, the handler there must have stopped by itself.

import type { Checker, CheckerContext } from "../../checking/checker.ts";
import type { ProjectedTask } from "../../checking/log-projection.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import type { HandlerObservation, TrueTime } from "../../observation/observation.ts";

/** A process that was just woken may do its late work first. */
const wakeMs = 2_000;

export function checkConcurrencyLimitsHold({ reportViolation, projection, world }: CheckerContext): Checker {
  const started = new Map<string, string>();
  /** Handlers that run and were not told to stop, by `<task>#<fence>`. */
  const running = new Map<string, HandlerObservation>();
  /** Machines that were suspended: their clocks stood still, so they cannot know that their lease is over. */
  const suspended = new Set<string>();
  let checkedCount = 0;

  const start = (observation: HandlerObservation): void => {
    const grant = `${observation.task}#${observation.fence}`;
    const where = `${observation.worker} (boot ${observation.boot})`;
    const first = started.get(grant);
    started.set(grant, where);
    running.set(grant, observation);
    checkedCount++;
    // Asked again what became of it, a worker that cannot say so does it again.
    if (first !== undefined && !world.isLegacyWorker(`${observation.tenant}/${observation.instance}`))
      reportViolation(`${grant} was started twice: at ${first} and at ${where}`, [observation.task, observation.worker]);
  };

  /** Which grants of it have ended without a verdict because its holder was taken for lost. */
  const checkLoss = ({ data, readAt, position, tenant }: ObservedFact): void => {
    const task = projection.task(String(data["task"]));
    const isLost = data["code"] === "E.WORKER.LOST" && projection.workers.get(String(data["from"]))?.presence === "lost";
    const handler = task === undefined || !isLost ? undefined : running.get(`${task.id}#${task.fence}`);
    if (isLost) checkedCount++;
    if (handler !== undefined && world.isLegacyWorker(`${handler.tenant}/${handler.instance}`)) return;
    if (task === undefined || handler === undefined || suspended.has(handler.worker) || !isAwake(handler.worker, readAt)) return;
    reportViolation(
      `${task.id} was given on at position ${position} of ${tenant} because ${handler.worker} was lost, ` +
        `and its handler under fence ${task.fence} still runs there, not told to stop`,
      [task.id, handler.worker],
    );
  };

  const isAwake = (process: string, at: TrueTime): boolean =>
    world.isRunning(process) && at - (world.processes.get(process)?.changedAt ?? at) > wakeMs;

  const checkKeyLimits = (tenant: string): void => {
    const held = new Map<string, ProjectedTask[]>();
    for (const run of projection.runs.values()) {
      if (run.tenant !== tenant || run.endStatus !== null) continue;
      for (const task of run.tasks.values()) {
        const key = task.worker === null ? null : (task.node?.key ?? null);
        if (key === null) continue;
        const list = held.get(key) ?? [];
        list.push(task);
        held.set(key, list);
      }
    }
    for (const [key, tasks] of held) {
      checkedCount++;
      const limit = Math.max(...tasks.map((task) => task.node?.keyLimit ?? 1));
      const ids = tasks.map((task) => task.id);
      if (tasks.length > limit)
        return reportViolation(`${ids.join(" and ")} are held at once under key ${key}, whose limit is ${limit}`, ids);
    }
  };

  return {
    get checkedCount() {
      return checkedCount;
    },
    onObservation(observation) {
      if (observation.kind === "fault" && observation.name === "suspended") suspended.add(observation.target);
      if (observation.kind !== "handler") return;
      if (observation.event === "starts") start(observation);
      else if (running.get(`${observation.task}#${observation.fence}`)?.boot === observation.boot)
        running.delete(`${observation.task}#${observation.fence}`);
    },
    onFact(fact) {
      if (fact.type === "task.requeued") checkLoss(fact);
    },
    onTurn(tenant, facts) {
      if (facts.some((fact) => fact.type === "task.granted")) checkKeyLimits(tenant);
    },
  };
}
