// Which facts about workers also go to the scheduler's log. Joins, leaves, drains and kicks are logged where they
// happen, at the doors.

import type { WorkerNotice } from "../../interface/effect.ts";
import type { Fact, RowKey, Tenant } from "../../storage/rows.ts";

const alarmingFacts = new Set(["worker.lost", "worker.strained", "worker.saturated", "worker.cloned"]);
const recoveryFacts = new Set(["worker.relieved", "worker.unsaturated"]);

export function workerNoticeFor(tenant: Tenant, subject: RowKey, event: string, data: Fact["data"]): WorkerNotice | null {
  if (!subject.startsWith("worker/")) return null;
  // 1x WARN, 2x DEGRADED, 3x UNHEALTHY, and back.
  const isGood = event === "worker.liveness" ? data["to"] === "fresh" : recoveryFacts.has(event);
  if (!isGood && !alarmingFacts.has(event) && event !== "worker.liveness") return null;
  return { type: "worker", tenant, worker: subject.slice("worker/".length), event, isRecovery: isGood, data };
}
