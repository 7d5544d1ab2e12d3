// The routes about changes of many runs at once. How they are worked off is ../bulk.ts; what is done to one run stands here.

import { Fault, fault, readBulkRequest } from "@astraflow/protocol";
import type { Bulk, BulkAct } from "../../bulk.ts";
import type { Link } from "../../link.ts";
import { type Handler, readBody, readIdempotencyKey } from "../call.ts";
import { aboutRun, keepRefusal } from "../refusals.ts";
import { dismissLetters } from "./letters.ts";
import { retryRun } from "./run-again.ts";
import type { Starter, StartOptions } from "./run-start.ts";

export function bulkHandlers({ bulk }: { readonly bulk: Bulk }): Record<"changeRuns" | "getBulk", Handler> {
  return {
    async changeRuns(call) {
      const key = readIdempotencyKey(call);
      const request = readBulkRequest(readBody(call));
      if (request instanceof Fault) throw request;
      if (Object.keys(request.filter).length === 0)
        throw fault("E.REQUEST.INVALID", "body.filter must name something: an empty one would change every run", {
          path: "body.filter",
        });
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

/** Each does nothing the second time: cancelling is idempotent, a retry has its key, a dismissed letter stays so. */
export function createBulkAct(options: StartOptions & { readonly link: Link }, starter: Starter): BulkAct {
  const { link } = options;
  return async (asker, { action, reason }, run, word) => {
    const { tenant, user } = asker.identity;
    if (action === "cancel") {
      if (run.endedAt !== null) return false;
      await link.ask({
        type: "run.cancel",
        tenant,
        by: user,
        corr: asker.requestId,
        run: run.id,
        reason: reason ?? "cancelled with others",
      });
      return true;
    }
    if (action === "dismiss") return (await dismissLetters(options, asker, run.id, reason)) > 0;
    if (run.phase !== "failed" && run.phase !== "cancelled") return false;
    const detail = await starter.detailOf(tenant, run.id);
    await keepRefusal(link, asker, aboutRun("run.retry", run.id, { reason, bulk: word.slice(0, word.lastIndexOf(":")) }), () =>
      retryRun(starter, asker, detail, `bulk ${options.digest(word)}`, reason),
    );
    return true;
  };
}
