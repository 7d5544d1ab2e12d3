// I24: a worker that has been told to drain gets nothing that was granted later, and its heartbeats go on. Told is who heard the frame; the
// grant is judged by the log, because what was granted before may still be on its way.

import type { TrueTime } from "../observation.ts";
import type { Bench, Checker } from "./checker.ts";
import { dispatchesIn, type WireFrame } from "./wire.ts";

/** Beats that may be missed before a draining worker counts as silent. */
const missedMax = 4;

interface Drainer {
  readonly worker: string;
  readonly connection: string;
  readonly scheduler: string;
  beatAt: TrueTime;
}

export function drain({ fail, lives, scene }: Bench): Checker {
  /** Who was told to drain, by session, and what was sent to it after that. */
  const drainers = new Map<string, Drainer>();
  const late = new Map<string, { readonly worker: string; readonly told: string }>();
  /** Draining before the turn that is being read, by worker. */
  const before = new Set<string>();
  let saw = 0;

  const hearScheduler = ({ type, seen, stream, ...frame }: WireFrame): void => {
    const who = `${seen.tenant}/${seen.instance}`;
    if (type === "control.drain" && seen.event === "delivered")
      drainers.set(stream, { worker: seen.worker, connection: seen.connection, scheduler: seen.scheduler, beatAt: seen.at });
    if (type === "control.undrain" && seen.event === "sent") drainers.delete(stream);
    if (seen.event !== "sent" || !drainers.has(stream)) return;
    for (const { task, fence } of dispatchesIn({ type, seen, stream, ...frame })) {
      saw++;
      const name = `${task}#${fence}`;
      const grant = lives.grants.get(name);
      if (grant === undefined) late.set(name, { worker: who, told: seen.connection });
    }
  };

  return {
    get saw() {
      return saw;
    },
    frame(frame) {
      if (frame.seen.toward === "worker") return hearScheduler(frame);
      const drainer = drainers.get(frame.stream);
      if (drainer === undefined || frame.type !== "control.heartbeat" || frame.seen.event !== "sent") return;
      saw++;
      drainer.beatAt = frame.seen.at;
    },
    turn(_tenant, facts) {
      for (const { type, data, position } of facts) {
        if (type !== "task.granted") continue;
        const name = `${String(data["task"])}#${Number(data["fence"])}`;
        const sent = late.get(name);
        if (sent === undefined) continue;
        late.delete(name);
        if (before.has(sent.worker) && lives.workers.get(sent.worker)?.isDraining === true)
          return fail(
            `${name} was granted at position ${position} and sent to ${sent.worker} on ${sent.told}, which had been told to drain`,
            [String(data["task"]), sent.worker],
          );
      }
      for (const { worker } of facts)
        if (worker !== null) {
          if (lives.workers.get(worker)?.isDraining === true) before.add(worker);
          else before.delete(worker);
        }
    },
    passes(at) {
      const { heartbeatMs: usual = 0, quietHeartbeatMs: quiet = 0 } = scene.setUp?.promises ?? {};
      for (const [stream, { worker, connection, beatAt }] of drainers) {
        const heartbeatMs = scene.isOlder(worker) ? quiet : usual;
        const link = scene.links.get(connection);
        if (link?.isOpen !== true || !scene.isRunning(worker)) drainers.delete(stream);
        else if (at - Math.max(beatAt, scene.processes.get(worker)?.changedAt ?? 0) > missedMax * heartbeatMs)
          return fail(`${worker} was told to drain on ${connection} and its heartbeats have stopped`, [worker]);
      }
    },
  };
}
