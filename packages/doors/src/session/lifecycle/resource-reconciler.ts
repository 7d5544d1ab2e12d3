// Compares the resources that a register reports with those that the worker's results have left there, and reports the missing ones as lost.

import type { LostResource } from "@astraflow/services";
import type { Session } from "./session.ts";

/** Called after a register. Work goes on meanwhile; what results add in that time is not lost. */
export function reconcileResources(session: Session): void {
  const { findLostResources } = session.context;
  const { tenant, worker, displayInfo, dialect } = session.identity;
  const reported = session.registration.takeReportedResources();
  if (findLostResources === null || reported === null || dialect !== "v2") return;
  const present = new Set(reported);
  session.presentResources = present;
  findLostResources({ tenant, worker, name: displayInfo.name, present }).then(
    (missing) => session.run(() => reportLost(session, present, missing)),
    (problem: unknown) => {
      session.log("warn", "session.uncompared", { why: String(problem) });
      reportLost(session, present, []);
    },
  );
}

function reportLost(session: Session, present: ReadonlySet<string>, missing: readonly LostResource[]): void {
  if (session.presentResources === present) session.presentResources = null;
  const lost = missing.filter(({ resource }) => !present.has(resource));
  if (session.isEnded || lost.length === 0) return;
  session.log("info", "session.resources.lost", { count: lost.length });
  for (const { resource, seenAt } of lost)
    session.notify({ type: "resource.removed", ...session.sender, resource, reason: "lost", seenAt });
}
