// The routes about ledgers.

import { fault } from "@astraflow/protocol";
import { ledgerLimits, type RunServices, readLogLedger, readRunLedger } from "@astraflow/services";
import { type RouteHandler, readWholeNumber } from "../requests/rest-call.ts";

export const ledgerHandlers = ({ reader }: RunServices): Record<"getRunLedger" | "getLedger", RouteHandler> => ({
  getRunLedger: async ({ identity, params }) => ({
    body: await readRunLedger(reader, identity.tenant, params["runId"] ?? ""),
  }),

  async getLedger({ identity, query }) {
    const after = readWholeNumber(query, "after", 0);
    const limit = readWholeNumber(query, "limit", ledgerLimits.factsMax, ledgerLimits.factsMax);
    if (limit < 1) throw fault("E.REQUEST.INVALID", "query.limit must be at least 1", { path: "query.limit" });
    return { body: await readLogLedger(reader, identity.tenant, after, limit) };
  },
});
