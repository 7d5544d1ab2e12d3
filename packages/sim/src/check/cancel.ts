// I14: once a cancelling is in the log the run ends as cancelled, nothing of it is granted or succeeds any more, and no handler of an attempt
// that is over runs on without having been told to stop.

import type { HandlerSeen, TrueTime } from "../observation.ts";
import type { Bench, Checker } from "./checker.ts";

/** For the frame to travel, and for what waits at the door. */
const slackMs = 15_000;

interface Running {
  readonly seen: HandlerSeen;
  /** When the log first showed that its attempt is over. */
  overSince: TrueTime;
}

export function cancel({ fail, lives, scene }: Bench): Checker {
  const running = new Map<string, Running>();
  let saw = 0;

  const isOver = ({ task, fence }: HandlerSeen): boolean => {
    const life = lives.task(task);
    return life !== undefined && (life.end !== null || life.fence > fence || (life.fence === fence && life.worker === null));
  };

  return {
    get saw() {
      return saw;
    },
    fact({ run: id, type, position, tenant }) {
      const run = id === null ? undefined : lives.run(id);
      if (run?.isCancelling !== true) return;
      saw++;
      const where = `${type} at position ${position} of ${tenant}`;
      if (type === "task.granted" || type === "task.succeeded" || type === "task.skipped")
        return fail(`${where}: run ${run.id} was being cancelled`, [run.id]);
      if (type === "run.succeeded" || type === "run.failed")
        fail(`${where}: run ${run.id} was cancelled and ends otherwise`, [run.id]);
    },
    observe(seen) {
      if (seen.kind !== "handler") return;
      const key = `${seen.boot} ${seen.task}#${seen.fence}`;
      if (scene.isOlder(`${seen.tenant}/${seen.instance}`)) return;
      if (seen.event === "starts") running.set(key, { seen, overSince: Number.POSITIVE_INFINITY });
      else running.delete(key);
    },
    passes(at) {
      if (!scene.isCalm) return;
      const { heartbeatMs = 0, leaseMs = 0 } = scene.setUp?.promises ?? {};
      for (const one of running.values()) {
        const { seen } = one;
        if (!isOver(seen)) continue;
        one.overSince = Math.min(one.overSince, at);
        saw++;
        // The next heartbeat names it, and whoever hears that tells the worker to stop; after the longest silence the worker stops by itself.
        if (at <= Math.max(one.overSince, scene.healedAt) + leaseMs + 2 * heartbeatMs + slackMs) continue;
        return fail(`attempt ${seen.task}#${seen.fence} is over and its handler at ${seen.worker} was never told`, [
          seen.task,
          seen.worker,
        ]);
      }
    },
  };
}
