// What a bulk change does to one run.

import type { RunRow } from "@astraflow/engine";
import type { BulkRequest } from "@astraflow/protocol";
import type { ServiceContext } from "../environment/service-environment.ts";
import { actorOf } from "../identity/caller.ts";
import { definedFields } from "../presentation/fields.ts";
import type { ApplyBulkChange } from "./bulk-changes.ts";
import type { DeadLetters } from "./dead-letters.ts";
import type { RunControl } from "./run-control.ts";
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
export const createBulkRunChange =
  (
    { engineClient, digest }: Pick<ServiceContext, "engineClient" | "digest">,
    { starter, control, deadLetters }: { starter: RunStarter; control: RunControl; deadLetters: DeadLetters },
  ): ApplyBulkChange =>
  async (caller, request, run, changeId) => {
    const { action, reason, from, version } = request;
    if (!needsChange(request, run)) return { isChanged: false };
    if (action === "dismiss") return { isChanged: (await deadLetters.dismissAllOf(caller, run.id, reason)) > 0 };
    if (action === "cancel") {
      const command = { type: "run.cancel", ...actorOf(caller), run: run.id, reason: reason ?? "cancelled with others" } as const;
      await engineClient.request(command);
      return { isChanged: true };
    }
    const detail = await starter.readRunDetail(caller.identity.tenant, run.id);
    const how = definedFields({ from, version });
    const data = { reason, ...how, bulk: changeId.slice(0, changeId.lastIndexOf(":")) };
    const options = { key: `bulk ${digest(changeId)}`, reason };
    const answer = await (action === "retry"
      ? control.retry(caller, detail, options, data)
      : control.replay(caller, detail, { ...options, request: how }, data));
    return { isChanged: true, newRun: answer.run };
  };
