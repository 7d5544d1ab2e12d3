// I16: of each concurrency key no more attempts are in force than its limit, and a grant is started once. Handlers are counted where they run:
// once the log calls a worker lost and gives its attempt on, the handler there must have stopped by itself.

import type { HandlerSeen, TrueTime } from "../observation.ts";
import type { Bench, Checker } from "./checker.ts";
import type { TaskLife } from "./lives.ts";
import type { Fact } from "./log-book.ts";

/** A process that was just woken may do its late work first. */
const wakeMs = 2_000;

export function singleFlight({ fail, lives, scene }: Bench): Checker {
  const started = new Map<string, string>();
  /** Handlers that run and were not told to stop, by `<task>#<fence>`. */
  const running = new Map<string, HandlerSeen>();
  /** Machines that were suspended: their clocks stood still, so they cannot know that their lease is over. */
  const suspended = new Set<string>();
  let saw = 0;

  const start = (seen: HandlerSeen): void => {
    const grant = `${seen.task}#${seen.fence}`;
    const where = `${seen.worker} (boot ${seen.boot})`;
    const first = started.get(grant);
    started.set(grant, where);
    running.set(grant, seen);
    saw++;
    // Asked again what became of it, a worker that cannot say so does it again.
    if (first !== undefined && !scene.isOlder(`${seen.tenant}/${seen.instance}`))
      fail(`${grant} was started twice: at ${first} and at ${where}`, [seen.task, seen.worker]);
  };

  /** Which grants of it have ended without a verdict because its holder was taken for lost. */
  const judgeLoss = ({ data, readAt, position, tenant }: Fact): void => {
    const task = lives.task(String(data["task"]));
    const isLost = data["code"] === "E.WORKER.LOST" && lives.workers.get(String(data["from"]))?.standing === "lost";
    const handler = task === undefined || !isLost ? undefined : running.get(`${task.id}#${task.fence}`);
    if (isLost) saw++;
    if (handler !== undefined && scene.isOlder(`${handler.tenant}/${handler.instance}`)) return;
    if (task === undefined || handler === undefined || suspended.has(handler.worker) || !isAwake(handler.worker, readAt)) return;
    fail(
      `${task.id} was given on at position ${position} of ${tenant} because ${handler.worker} was lost, ` +
        `and its handler under fence ${task.fence} still runs there, not told to stop`,
      [task.id, handler.worker],
    );
  };

  const isAwake = (process: string, at: TrueTime): boolean =>
    scene.isRunning(process) && at - (scene.processes.get(process)?.changedAt ?? at) > wakeMs;

  const countKeys = (tenant: string): void => {
    const held = new Map<string, TaskLife[]>();
    for (const run of lives.runs.values()) {
      if (run.tenant !== tenant || run.end !== null) continue;
      for (const task of run.tasks.values()) {
        const key = task.worker === null ? null : (task.node?.key ?? null);
        if (key === null) continue;
        const list = held.get(key) ?? [];
        list.push(task);
        held.set(key, list);
      }
    }
    for (const [key, tasks] of held) {
      saw++;
      const limit = Math.max(...tasks.map((task) => task.node?.keyLimit ?? 1));
      const ids = tasks.map((task) => task.id);
      if (tasks.length > limit)
        return fail(`${ids.join(" and ")} are held at once under key ${key}, whose limit is ${limit}`, ids);
    }
  };

  return {
    get saw() {
      return saw;
    },
    observe(seen) {
      if (seen.kind === "fault" && seen.name === "suspended") suspended.add(seen.target);
      if (seen.kind !== "handler") return;
      if (seen.event === "starts") start(seen);
      else if (running.get(`${seen.task}#${seen.fence}`)?.boot === seen.boot) running.delete(`${seen.task}#${seen.fence}`);
    },
    fact(fact) {
      if (fact.type === "task.requeued") judgeLoss(fact);
    },
    turn(tenant, facts) {
      if (facts.some((fact) => fact.type === "task.granted")) countKeys(tenant);
    },
  };
}
