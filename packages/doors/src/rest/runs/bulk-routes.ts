// The routes about changes of many runs at once.

import { fault, readBulkRequest } from "@astraflow/protocol";
import type { RunServices } from "@astraflow/services";
import { type RouteHandler, readIdempotencyKey, readRequest } from "../requests/rest-call.ts";

export function bulkHandlers({ bulk }: RunServices): Record<"changeRuns" | "getBulk", RouteHandler> {
  return {
    async changeRuns(call) {
      const key = readIdempotencyKey(call);
      const request = readRequest(call, readBulkRequest);
      if (Object.keys(request.filter).length === 0)
        throw fault("E.REQUEST.INVALID", "body.filter must name something: an empty one would change every run", {
          path: "body.filter",
        });
      for (const field of ["from", "version"] as const)
        if (request[field] !== undefined && request.action !== "replay")
          throw fault("E.REQUEST.INVALID", `body.${field} is for action replay, not ${request.action}`, {
            path: `body.${field}`,
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
