// What the engine finds out about workers (late, lost, strained, full, cloned, and well again), as lines of the log.

import type { EngineClient } from "@astraflow/services";
import type { DoorEnvironment } from "../../environment/door-environment.ts";

/** The returned function ends that. */
export function logWorkerEvents(engineClient: EngineClient, environment: DoorEnvironment): () => void {
  return engineClient.on("worker", ({ tenant, worker, event, isRecovery: isGood, data }) =>
    environment.log({ ...data, level: isGood ? "info" : "warn", event, tenant, sender: { id: worker.slice(tenant.length + 1) } }),
  );
}
