// The routes that change runs: nodes skipped or retried, a run moved to other workers, one that ended started again, many runs changed at
// once, and dead letters.

import {
  fault,
  readBulkRequest,
  readRebindRequest,
  readReplayRequest,
  readRetryRequest,
  readSteerRequest,
} from "@astraflow/protocol";
import {
  type ControlledRun,
  dismissDeadLetter,
  listDeadLetters,
  type NodeChange,
  planReplay,
  planRetry,
  presentRunRef,
  type RunServices,
  rebindRun,
  replayWithAudit,
  requeueDeadLetter,
  retryNode,
  retryWithAudit,
  type StartedRun,
  skipNode,
} from "@astraflow/services";
import { type RestCall, type RestReply, type RouteHandler, type RouteHandlers, replayedHeader } from "../requests/rest-call.ts";

export function runControlHandlers(runs: RunServices) {
  const { starter, digest } = runs;
  const readRun = (call: RestCall) => starter.readRunDetail(call.tenant, call.param("runId"));
  const readNodeChange = (call: RestCall, type: string): NodeChange => {
    const request = call.readOptionalBody(readSteerRequest);
    const { reason = "asked by an operator" } = request;
    return { run: call.param("runId"), node: call.param("nodeId"), reason, ask: call.idempotencyKeyFor(type, request, digest) };
  };
  const rebind: RouteHandler = async (call) => {
    const request = call.readOptionalBody(readRebindRequest);
    const idempotencyKey = call.idempotencyKeyFor("run.rebind", request, digest);
    return controlledReply(await rebindRun(runs, call, call.param("runId"), request, idempotencyKey));
  };

  return {
    async retryRun(call) {
      const { reason, dryRun } = call.readOptionalBody(readRetryRequest);
      const detail = await readRun(call);
      if (dryRun === true) return { status: 200, body: await planRetry(starter, call, detail) };
      return startedReply(await retryWithAudit(runs, call, detail, call.readIdempotencyKey(), reason));
    },

    async replayRun(call) {
      const { dryRun, ...request } = call.readOptionalBody(readReplayRequest);
      const detail = await readRun(call);
      if (dryRun === true) return { status: 200, body: await planReplay(starter, call, detail, request) };
      return startedReply(await replayWithAudit(runs, call, detail, request, call.readIdempotencyKey()));
    },

    rebindRun: rebind,
    rebindSchedulerRun: rebind,
    skipNode: async (call) => controlledReply(await skipNode(runs, call, readNodeChange(call, "run.skip"))),
    retryNode: async (call) => controlledReply(await retryNode(runs, call, readNodeChange(call, "run.retry"))),
  } satisfies RouteHandlers;
}

export const startedReply = (run: StartedRun): RestReply => ({ body: presentRunRef(run), headers: replayedHeader(run.repeated) });

const controlledReply = ({ body, repeated }: ControlledRun): RestReply => ({ body, headers: replayedHeader(repeated) });

export const bulkHandlers = ({ bulk }: RunServices) =>
  ({
    async changeRuns(call) {
      const key = call.readIdempotencyKey();
      const request = call.readBody(readBulkRequest);
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
      const id = call.param("bulkId");
      const found = await bulk.find(call.tenant, id);
      if (found === null) throw fault("E.NOT_FOUND", `there is no bulk change ${id.slice(0, 100)}`);
      return { body: found };
    },
  }) satisfies RouteHandlers;

export function deadLetterHandlers(runs: RunServices) {
  const readChange = (call: RestCall, type: string) => {
    const request = call.readOptionalBody(readSteerRequest);
    return [call.param("taskId"), request.reason, call.idempotencyKeyFor(type, request, runs.digest)] as const;
  };
  return {
    async listDeadLetters(call) {
      const { q, runId, status, cursor } = call.query;
      return { body: await listDeadLetters(runs, call.tenant, { q, runId, status, cursor, limit: call.readPageLimit() }) };
    },

    async requeueDeadLetter(call) {
      const { run, isRepeated } = await requeueDeadLetter(runs, call, ...readChange(call, "letter.requeue"));
      return { body: presentRunRef(run), headers: replayedHeader(isRepeated) };
    },

    async dismissDeadLetter(call) {
      const { deadLetter, isRepeated } = await dismissDeadLetter(runs, call, ...readChange(call, "letter.dismiss"));
      return { body: deadLetter, headers: replayedHeader(isRepeated) };
    },
  } satisfies RouteHandlers;
}
