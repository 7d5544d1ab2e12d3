// Which facts about workers are also news for whoever watches the scheduler's log. Joins, leaves, drains and kicks are told where they
// happen, at the doors.

import type { WorkerNews } from "../../effect.ts";
import type { Fact, Key, Tenant } from "../../rows.ts";

const bad = new Set(["worker.lost", "worker.strained", "worker.saturated", "worker.cloned"]);
const good = new Set(["worker.relieved", "worker.unsaturated"]);

export function newsOf(tenant: Tenant, subject: Key, event: string, data: Fact["data"]): WorkerNews | null {
  if (!subject.startsWith("worker/")) return null;
  // 1x WARN, 2x DEGRADED, 3x UNHEALTHY, and back.
  const isGood = event === "worker.liveness" ? data["to"] === "fresh" : good.has(event);
  if (!isGood && !bad.has(event) && event !== "worker.liveness") return null;
  return { type: "worker", tenant, worker: subject.slice("worker/".length), event, isGood, data };
}
