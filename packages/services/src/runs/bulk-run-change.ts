// What a bulk change does to one run.

import type { RunRow } from "@astraflow/engine";
import type { BulkRequest } from "@astraflow/protocol";
import { auditRefusal, runAudit } from "../documents/audit.ts";
import { actorOf } from "../identity/caller.ts";
import type { ApplyBulkChange } from "./bulk-changes.ts";
import { dismissDeadLetters } from "./dead-letters.ts";
import { replayRun, retryRun } from "./run-replay.ts";
import type { RunServices } from "./run-services.ts";
import type { RunStarter } from "./run-starter.ts";

/** Whether a run needs the change, as far as its state tells. It does not tell of dead letters. */
export function needsChange({ action, from, version = "same" }: BulkRequest, { phase, endedAt }: RunRow): boolean {
  if (action === "dismiss") return true;
  if (action === "cancel") return endedAt === null;
  const hasUnfinishedWork = phase === "failed" || phase === "cancelled";
  const isAsked = action === "replay" && (from !== undefined || version !== "same");
  return endedAt !== null && (hasUnfinishedWork || isAsked);
}

/** Every change is idempotent: a cancelled run stays cancelled, a retry has its key, a dismissed dead letter stays dismissed. */
export function createBulkRunChange(
  options: Pick<RunServices, "engineClient" | "reader" | "digest">,
  starter: RunStarter,
): ApplyBulkChange {
  const { engineClient } = options;
  return async (caller, request, run, changeId) => {
    const { action, reason, from, version } = request;
    if (!needsChange(request, run)) return { isChanged: false };
    if (action === "cancel") {
      await engineClient.request({
        type: "run.cancel",
        ...actorOf(caller),
        run: run.id,
        reason: reason ?? "cancelled with others",
      });
      return { isChanged: true };
    }
    if (action === "dismiss") return { isChanged: (await dismissDeadLetters(options, caller, run.id, reason)) > 0 };
    const detail = await starter.readRunDetail(caller.identity.tenant, run.id);
    const how = { ...(from !== undefined && { from }), ...(version !== undefined && { version }) };
    const audit = runAudit(`run.${action}`, run.id, { reason, ...how, bulk: changeId.slice(0, changeId.lastIndexOf(":")) });
    const key = `bulk ${options.digest(changeId)}`;
    const answer = await auditRefusal(engineClient, caller, audit, () =>
      action === "retry"
        ? retryRun(starter, caller, detail, { key, reason })
        : replayRun(starter, caller, detail, { request: how, key, reason }),
    );
    return { isChanged: true, newRun: answer.run };
  };
}
