// The routes about changes of many runs at once. How they are worked off is ../bulk.ts; what is done to one run stands here.

import type { RunRow } from "@astraflow/engine";
import { type BulkRequest, Fault, fault, readBulkRequest } from "@astraflow/protocol";
import { type ApplyBulkChange, auditRefusal, type BulkChanges, type EngineClient, runAudit } from "@astraflow/services";
import { type RouteHandler, readIdempotencyKey, readJsonBody } from "../requests/rest-call.ts";
import { dismissDeadLetters } from "./dead-letter-routes.ts";
import { replayRun, retryRun } from "./run-replay.ts";
import type { RunStarter, RunStarterOptions } from "./run-starter.ts";

export function bulkHandlers({ bulk }: { readonly bulk: BulkChanges }): Record<"changeRuns" | "getBulk", RouteHandler> {
  return {
    async changeRuns(call) {
      const key = readIdempotencyKey(call);
      const request = readBulkRequest(readJsonBody(call));
      if (request instanceof Fault) throw request;
      if (Object.keys(request.filter).length === 0)
        throw fault("E.REQUEST.INVALID", "body.filter must name something: an empty one would change every run", {
          path: "body.filter",
        });
      for (const word of ["from", "version"] as const)
        if (request[word] !== undefined && request.action !== "replay")
          throw fault("E.REQUEST.INVALID", `body.${word} is for action replay, not ${request.action}`, { path: `body.${word}` });
      return { body: await bulk.start(call, request, key), ...(request.dryRun === true && { status: 200 }) };
    },

    async getBulk(call) {
      const id = call.params["bulkId"] ?? "";
      const found = await bulk.find(call.identity.tenant, id);
      if (found === null) throw fault("E.NOT_FOUND", `there is no bulk change ${id.slice(0, 100)}`);
      return { body: found };
    },
  };
}

/** Whether there is something to do to a run, as far as its state tells: of letters it does not. */
export function needsChange({ action, from, version = "same" }: BulkRequest, { phase, endedAt }: RunRow): boolean {
  if (action === "dismiss") return true;
  if (action === "cancel") return endedAt === null;
  const hasUnfinishedWork = phase === "failed" || phase === "cancelled";
  const isAsked = action === "replay" && (from !== undefined || version !== "same");
  return endedAt !== null && (hasUnfinishedWork || isAsked);
}

/** Each does nothing the second time: cancelling is idempotent, a retry has its key, a dismissed letter stays so. */
export function createBulkRunChange(
  options: RunStarterOptions & { readonly engineClient: EngineClient },
  starter: RunStarter,
): ApplyBulkChange {
  const { engineClient } = options;
  return async (caller, request, run, changeId) => {
    const { action, reason, from, version } = request;
    const { tenant, user } = caller.identity;
    if (!needsChange(request, run)) return { isChanged: false };
    if (action === "cancel") {
      await engineClient.request({
        type: "run.cancel",
        tenant,
        by: user,
        corr: caller.requestId,
        run: run.id,
        reason: reason ?? "cancelled with others",
      });
      return { isChanged: true };
    }
    if (action === "dismiss") return { isChanged: (await dismissDeadLetters(options, caller, run.id, reason)) > 0 };
    const detail = await starter.detailOf(tenant, run.id);
    const how = { ...(from !== undefined && { from }), ...(version !== undefined && { version }) };
    const audit = runAudit(`run.${action}`, run.id, { reason, ...how, bulk: changeId.slice(0, changeId.lastIndexOf(":")) });
    const key = `bulk ${options.digest(changeId)}`;
    const answer = await auditRefusal(engineClient, caller, audit, () =>
      action === "retry" ? retryRun(starter, caller, detail, key, reason) : replayRun(starter, caller, detail, how, key, reason),
    );
    return { isChanged: true, newRun: answer.run };
  };
}
