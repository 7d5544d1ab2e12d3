// The routes about runs as wholes: started, listed, shown, cancelled, audited by their ledgers, and the queues of waiting work. Parts of a run
// (nodes, logs, bindings) are in run-detail-routes.ts.

import type { RunPhase } from "@astraflow/engine";
import { omitUndefined, readRunStartRequest } from "@astraflow/protocol";
import {
  decodeIdCursor,
  definitionDigestOf,
  encodeIdCursor,
  ledgerLimits,
  listQueues,
  presentRun,
  type RunServices,
  readLogLedger,
  readQueueMetric,
  readRunLedger,
} from "@astraflow/services";
import type { RouteHandlers } from "../requests/rest-call.ts";
import { startedReply } from "./run-control-routes.ts";

export function runHandlers({ reader, runReader, starter, control, digest, environment }: RunServices) {
  return {
    async startRun(call) {
      const key = call.readIdempotencyKey();
      const request = call.readBody(readRunStartRequest);
      const start = await starter.resolveStart(call, request, key);
      if (request.dryRun === true) return { status: 200, body: await starter.previewStart(call, start) };
      const { problems, ...started } = await starter.start(call, start);
      const reply = startedReply(started);
      return problems === undefined ? reply : { ...reply, body: { ...(reply.body as object), problems } };
    },

    async listRuns(call) {
      const { clientId: client, workflowId: source, q, worker, cursor, status } = call.query;
      const search = q?.trim() === "" ? undefined : q;
      const before = decodeIdCursor("runs", cursor);
      const times = { since: call.time("since"), until: call.time("until") };
      const { items, next, head } = await runReader.list({
        tenant: call.tenant,
        limit: call.readPageLimit(),
        phases: phasesOf(status),
        ...omitUndefined({ worker, before, client, source, search, ...times }),
      });
      return { body: { items: items.map(presentRun), nextCursor: encodeIdCursor("runs", next), asOf: head } };
    },

    async getRun(call) {
      const runId = call.param("runId");
      const at = call.number("at");
      return { body: await (at === undefined ? runReader.read(call.tenant, runId) : runReader.readAt(call.tenant, runId, at)) };
    },

    async getRunDefinition(call) {
      const { run, isFinal, show } = await runReader.readDefinition(call.tenant, call.param("runId"));
      const etag = `W/"sha256:${definitionDigestOf(run.workflow)}"`;
      // The definition never changes; the states of its nodes do, until the run has ended.
      if (isFinal && call.header("if-none-match") === etag) return { status: 304, body: "", headers: { etag } };
      return { body: await show(), headers: { etag } };
    },

    async cancelRun(call) {
      const idempotencyKey = call.idempotencyKeyFor("run.cancel", null, digest);
      return startedReply(await control.cancel(call, call.param("runId"), idempotencyKey));
    },

    async listRunEvents(call) {
      const { cursor } = call.query;
      const after = cursor === undefined ? null : Number(cursor);
      return { body: await runReader.listEvents(call.tenant, call.param("runId"), { after, limit: call.readPageLimit() }) };
    },

    getRunLedger: async (call) => ({ body: await readRunLedger(reader, call.tenant, call.param("runId")) }),

    async getLedger(call) {
      const after = call.number("after") ?? 0;
      const limit = call.number("limit") ?? ledgerLimits.factsMax;
      return { body: await readLogLedger(reader, call.tenant, after, limit) };
    },

    listQueues: async (call) => ({ body: await listQueues(reader, call.tenant, environment.clock.now()) }),

    /** The number for an autoscaler. */
    async getKedaMetric(call) {
      const { pool, package: packageName } = call.query;
      return { body: await readQueueMetric(reader, call.tenant, { pool, packageName }) };
    },
  } satisfies RouteHandlers;
}

/** A run that is ending is shown as running, so asking for the running ones asks for both. */
function phasesOf(status: string | undefined): readonly (RunPhase | null)[] {
  if (status === undefined) return [null];
  const asked = [...new Set(status.split(","))];
  return asked.flatMap((one): RunPhase[] => (one === "running" ? ["running", "ending"] : [one as RunPhase]));
}
