// The routes about runs: started, listed, shown, cancelled. Parts of a run (nodes, logs, bindings) are in run-detail-routes.ts.

import type { RunPhase } from "@astraflow/engine";
import { fault, limits, type RunStatus, readRunStartRequest } from "@astraflow/protocol";
import {
  cancelRun,
  decodeIdCursor,
  definitionDigestOf,
  encodeIdCursor,
  invalidCursor,
  listRunEvents,
  listRuns,
  presentRun,
  type RunServices,
  readRun,
  readRunAt,
  readRunDefinition,
} from "@astraflow/services";
import { idempotencyKeyOf } from "../requests/idempotency.ts";
import { type RouteHandler, readIdempotencyKey, readPageLimit, readRequest, readWholeNumber } from "../requests/rest-call.ts";
import { startedReply } from "./run-control-routes.ts";

type RunRoutes = "startRun" | "listRuns" | "getRun" | "getRunDefinition" | "cancelRun" | "listRunEvents";

export function runHandlers(runs: RunServices): Record<RunRoutes, RouteHandler> {
  const { reader, starter, digest } = runs;
  return {
    async startRun(call) {
      const key = readIdempotencyKey(call);
      const request = readRequest(call, readRunStartRequest);
      const start = await starter.resolveStart(call, request, key);
      if (request.dryRun === true) return { status: 200, body: await starter.previewStart(call, start) };
      return startedReply(await starter.start(call, start));
    },

    async listRuns({ identity: { tenant }, query }) {
      const { clientId: client, workflowId: source, q: search, worker, cursor, status } = query;
      const before = decodeIdCursor("runs", cursor);
      const since = readTime(query["since"], "since");
      const until = readTime(query["until"], "until");
      const { items, next, head } = await listRuns(reader, {
        tenant,
        limit: readPageLimit(query),
        phases: phasesOf(status),
        ...(worker !== undefined && { worker }),
        ...(before !== undefined && { before }),
        ...(client !== undefined && { client }),
        ...(source !== undefined && { source }),
        ...(since !== undefined && { since }),
        ...(until !== undefined && { until }),
        ...(search !== undefined && search.trim() !== "" && { search }),
      });
      return { body: { items: items.map(presentRun), nextCursor: encodeIdCursor("runs", next), asOf: head } };
    },

    async getRun({ identity: { tenant }, params, query }) {
      const runId = params["runId"] ?? "";
      const at = readWholeNumber(query, "at", undefined);
      return { body: await (at === undefined ? readRun(runs, tenant, runId) : readRunAt(runs, tenant, runId, at)) };
    },

    async getRunDefinition(call) {
      const { run, isFinal, show } = await readRunDefinition(runs, call.identity.tenant, call.params["runId"] ?? "");
      const etag = `W/"sha256:${definitionDigestOf(run.workflow)}"`;
      // The definition never changes; the states of its nodes do, until the run has ended.
      if (isFinal && call.header("if-none-match") === etag) return { status: 304, body: "", headers: { etag } };
      return { body: await show(), headers: { etag } };
    },

    async cancelRun(call) {
      const idempotencyKey = idempotencyKeyOf(call, "run.cancel", null, digest);
      return startedReply(await cancelRun(runs, call, call.params["runId"] ?? "", idempotencyKey));
    },

    async listRunEvents({ identity, params, query }) {
      const page = { after: readEventCursor(query["cursor"]), limit: readPageLimit(query) };
      return { body: await listRunEvents(reader, identity.tenant, params["runId"] ?? "", page) };
    },
  };
}

/** A time of the query, in ms. */
function readTime(text: string | undefined, name: string): number | undefined {
  if (text === undefined) return undefined;
  const at = /^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].{1,40})?$/.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isFinite(at)) return at;
  throw fault("E.REQUEST.INVALID", `query.${name} must be a date or a time such as 2026-01-31T12:00:00Z`, {
    path: `query.${name}`,
  });
}

const runStatuses: readonly RunStatus[] = ["queued", "running", "succeeded", "failed", "cancelled"];

/** A run that is ending is shown as running, so asking for the running ones asks for both. */
function phasesOf(status: string | undefined): readonly (RunPhase | null)[] {
  if (status === undefined) return [null];
  const asked = [...new Set(status.split(","))];
  if (!asked.every((one) => (runStatuses as readonly string[]).includes(one)))
    throw fault("E.REQUEST.INVALID", `query.status must be one or more of ${runStatuses.join(", ")}, with commas between them`, {
      path: "query.status",
    });
  return asked.flatMap((one): RunPhase[] => (one === "running" ? ["running", "ending"] : [one as RunPhase]));
}

function readEventCursor(cursor: string | undefined): number | null {
  if (cursor === undefined) return null;
  const position = /^[0-9]{1,16}$/.test(cursor) && cursor.length <= limits.idCharsMax ? Number(cursor) : Number.NaN;
  if (Number.isSafeInteger(position)) return position;
  throw invalidCursor();
}
