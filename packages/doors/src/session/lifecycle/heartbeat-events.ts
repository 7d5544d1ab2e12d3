// Publishes a stored heartbeat to readers of events, from what its session knows: no row is read for it.

import { type AnswerBody, type RecordHeartbeatCommand, readCondition } from "@astraflow/engine";
import { type HeartbeatData, heartbeatEventData, presentHeartbeat, workerQueueOf } from "@astraflow/services";
import type { HandshakeIdentity } from "../registration/worker-handshake.ts";
import type { SessionContext } from "./session-context.ts";

/** `body`: the answer of the engine, which says when the heartbeat was stored. */
export function publishHeartbeat(
  { volatile, environment }: Pick<SessionContext, "volatile" | "environment">,
  identity: HandshakeIdentity,
  heartbeat: RecordHeartbeatCommand,
  body: AnswerBody | null,
): void {
  const { tenant, worker, displayInfo } = identity;
  if (volatile?.hasHeartbeatListeners(tenant) !== true) return;
  const at = (body?.of === "worker" ? body.at : undefined) ?? environment.clock.now();
  volatile.publishHeartbeat({ tenant, worker, workerName: displayInfo.name, at }, () => buildHeartbeat(identity, heartbeat, at));
}

function buildHeartbeat(
  { worker, tenant, instance, displayInfo }: HandshakeIdentity,
  heartbeat: RecordHeartbeatCommand,
  at: number,
): HeartbeatData {
  const { vitals } = readCondition(`{"vitals":${heartbeat.vitals ?? "null"}}`);
  return heartbeatEventData({
    id: displayInfo.name,
    tenant,
    instanceId: instance,
    hostname: displayInfo.hostname,
    version: displayInfo.version,
    lastHeartbeatAt: new Date(at).toISOString(),
    queues: [workerQueueOf(worker)],
    status: "online",
    connected: true,
    registered: true,
    heartbeat: presentHeartbeat({ healthy: heartbeat.healthy, vitals }),
  });
}
