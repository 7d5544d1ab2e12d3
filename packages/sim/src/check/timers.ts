// I13: deadlines of runs, attempts and waits are kept by the store: none fires early, and each fires within a bound after it is due or the last
// trouble of a scheduler or the store, whatever became of its worker; the lease of a silent worker too. Early is judged exactly, in store time; late in true time, with room for a store clock that catches up.

import type { TrueTime } from "../observation.ts";
import type { Bench, Checker } from "./checker.ts";
import type { RunLife, TaskLife } from "./lives.ts";
import type { Fact } from "./log-book.ts";
import { isCarried } from "./plans.ts";

/** After the later of due and the last trouble: the look of a second, work that waits, what is due before it. */
const lateMs = 4_000;
/** A store clock that follows a slower wall is at most 1 in 20 slower than true time; a reader of the log comes late, never early. */
const slowest = 1.1;

/** A pause doubles with every failure up to a minute, and is spread by a fifth to either side. */
const backoffFactor = 2;
const backoffMsMax = 60_000;
const spread = 0.2;

interface Told {
  readonly code?: unknown;
  readonly message?: unknown;
  readonly details?: Readonly<Record<string, unknown>>;
}

export function timers({ fail, lives, scene }: Bench): Checker {
  const notBefore = new Map<string, number>();
  const failures = new Map<string, number>();
  /** When a scheduler last heard a worker renew its lease. */
  const renewedAt = new Map<string, TrueTime>();
  let saw = 0;

  const judgeEarly = (id: string, task: TaskLife | undefined, { type, data, at, position }: Fact): void => {
    const error = (data["error"] ?? {}) as Told;
    const where = `${type} at position ${position}`;
    const since = at - (task?.grantedAt ?? 0);
    // The worker keeps the limit too, by its own clock; only the scheduler's words are judged in store time.
    const isOurs =
      error.code === "E.TIMEOUT" && String(error.message).startsWith("attempt ") && !isCarried(task?.node ?? null, id);
    if (isOurs && (type === "task.failed" || type === "task.retrying") && task?.node) {
      saw++;
      if (task.node.timeoutMs === null || since < task.node.timeoutMs)
        return fail(`${where}: ${id} was ended after ${since} ms, its limit is ${task.node.timeoutMs}`, [id]);
    }
    const waited = error.details?.["waitedMs"];
    if (type === "task.failed" && typeof waited === "number" && task?.node) {
      saw++;
      if (task.node.queueTimeoutMs === null || waited < task.node.queueTimeoutMs)
        return fail(`${where}: ${id} was given up after ${waited} ms in queue, its limit is ${task.node.queueTimeoutMs}`, [id]);
    }
    if (type === "task.retrying") notBefore.set(id, at + Number(data["delayMs"] ?? 0));
    // An operator may cut a pause short.
    if (type === "task.steered") notBefore.delete(id);
    if (type === "task.granted") {
      const due = notBefore.get(id) ?? 0;
      notBefore.delete(id);
      if (at < due) fail(`${where}: ${id} was granted ${due - at} ms before its pause was over`, [id]);
    }
  };

  const judgePause = (id: string, task: TaskLife | undefined, { data, position }: Fact): void => {
    const failed = failures.get(id) ?? 0;
    failures.set(id, failed + 1);
    const first = task?.node?.backoffMs ?? null;
    if (first === null) return;
    const pause = Math.min(backoffMsMax, first * backoffFactor ** failed);
    const delayMs = Number(data["delayMs"]);
    saw++;
    if (Math.abs(delayMs - pause) > pause * spread + 1)
      fail(
        `task.retrying at position ${position}: ${id} pauses for ${delayMs} ms after failure ${failed + 1}, not about ${pause}`,
        [id],
      );
  };

  const judgeRun = (run: RunLife, { data, at, position }: Fact): void => {
    const error = (data["error"] ?? {}) as Told;
    if (error.code !== "E.TIMEOUT" || error.details?.["task"] !== undefined || run.plan === null) return;
    saw++;
    const limit = run.plan.timeoutMs;
    if (limit === null || at - run.createdAt < limit)
      fail(`run.failed at position ${position}: run ${run.id} was ended after ${at - run.createdAt} ms, its limit is ${limit}`, [
        run.id,
      ]);
  };

  const isLate = (at: TrueTime, since: TrueTime, limit: number): boolean =>
    at > Math.max(since + limit * slowest, scene.troubledAt) + lateMs;

  const judgeLate = (at: TrueTime, run: RunLife): void => {
    const limit = run.plan?.timeoutMs ?? null;
    if (limit !== null && isLate(at, run.readAt, limit))
      return fail(`run ${run.id} has a limit of ${limit} ms and goes on`, [run.id]);
    for (const task of run.tasks.values()) {
      if (task.end !== null || task.node === null || run.isCondemned) continue;
      const granted = lives.grants.get(`${task.id}#${task.fence}`)?.fact.readAt ?? at;
      const { timeoutMs, queueTimeoutMs } = task.node;
      if (task.worker !== null && timeoutMs !== null && isLate(at, granted, timeoutMs))
        return fail(`attempt ${task.id}#${task.fence} has a limit of ${timeoutMs} ms and goes on`, [task.id]);
      if (task.isReady && queueTimeoutMs !== null && isLate(at, task.readAt, queueTimeoutMs))
        return fail(`${task.id} may wait ${queueTimeoutMs} ms and still does`, [task.id]);
    }
  };

  const judgeLeases = (): void => {
    const { troubledAt } = scene;
    const { leaseMs: usual = 0, quietLeaseMs: quiet = 0 } = scene.setUp?.promises ?? {};
    for (const [worker, held] of lives.held) {
      const leaseMs = (scene.isOlder(worker) ? quiet : usual) * slowest;
      const at = lives.knownAt.get(worker.slice(0, worker.indexOf("/"))) ?? 0;
      // After trouble nobody's lease ends before a whole period is over.
      const due = Math.max((renewedAt.get(worker) ?? 0) + leaseMs, troubledAt + 2 * leaseMs);
      if (held.size > 0 && at > due + lateMs)
        return fail(`${worker} renews its lease no more and still holds ${[...held].join(", ")}`, [worker, ...held]);
    }
  };

  return {
    get saw() {
      return saw;
    },
    fact(fact) {
      const run = fact.run === null ? undefined : lives.run(fact.run);
      if (run === undefined) return;
      if (fact.type === "run.failed") judgeRun(run, fact);
      if (typeof fact.data["task"] !== "string") return;
      const task = lives.task(fact.data["task"]);
      // A container tries one of its iterations again, by a rule of its own.
      if (fact.type === "task.retrying" && fact.data["frame"] === undefined) judgePause(fact.data["task"], task, fact);
      judgeEarly(fact.data["task"], task, fact);
    },
    frame({ seen, type }) {
      if (
        seen.toward === "scheduler" &&
        seen.event === "delivered" &&
        (type === "control.heartbeat" || type === "control.register" || type === "control.resume")
      )
        renewedAt.set(`${seen.tenant}/${seen.instance}`, seen.at);
    },
    passes() {
      judgeLeases();
      for (const run of lives.runs.values()) if (run.end === null) judgeLate(lives.knownAt.get(run.tenant) ?? 0, run);
    },
  };
}
