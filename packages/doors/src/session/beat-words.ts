// A heartbeat that was stored, told to readers of events from what its session knows: no row is read for it.

import { type AnswerBody, type BeatWorker, readCondition } from "@astraflow/engine";
import { type HeartbeatData, heartbeatData } from "../events/beats.ts";
import { heartbeatOf, queueOf } from "../rest/workers/view-workers.ts";
import type { Bound } from "./greeting.ts";
import type { Surroundings } from "./surroundings.ts";

/** `body`: what the engine answered; the beat counts from that instant. */
export function tellBeat(
  { volatile, outside }: Pick<Surroundings, "volatile" | "outside">,
  bound: Bound,
  beat: BeatWorker,
  body: AnswerBody | null,
): void {
  const { tenant, worker, label } = bound;
  if (volatile?.hearsBeats(tenant) !== true) return;
  const at = (body?.of === "worker" ? body.at : undefined) ?? outside.clock.now();
  volatile.beat({ tenant, worker, workerName: label.name, at }, () => sessionBeat(bound, beat, at));
}

function sessionBeat({ worker, tenant, instance, label }: Bound, beat: BeatWorker, at: number): HeartbeatData {
  const { vitals } = readCondition(`{"vitals":${beat.vitals ?? "null"}}`);
  return heartbeatData({
    id: label.name,
    tenant,
    instanceId: instance,
    hostname: label.hostname,
    version: label.version,
    lastHeartbeatAt: new Date(at).toISOString(),
    queues: [queueOf(worker)],
    status: "online",
    connected: true,
    registered: true,
    heartbeat: heartbeatOf({ healthy: beat.healthy, vitals }),
  });
}
