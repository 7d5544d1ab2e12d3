// The routes that change runs: nodes skipped or retried, a run moved to other workers, one that ended started again, many runs changed at
// once, and dead letters.

import { bodyReaderOf, fault } from "@astraflow/protocol";
import { type ControlledRun, type NodeChange, presentRunRef, type RunServices, type StartedRun } from "@astraflow/services";
import {
  invalidRequest,
  type RestCall,
  type RestReply,
  type RouteHandler,
  type RouteHandlers,
  replayedHeader,
} from "../requests/rest-call.ts";

export function runControlHandlers({ starter, control, digest }: RunServices) {
  const readRun = (call: RestCall) => starter.readRunDetail(call.tenant, call.param("runId"));
  const readNodeChange = (call: RestCall, type: string): NodeChange => {
    const request = call.readOptionalBody(bodyReaderOf("skipNode"));
    const { reason = "asked by an operator" } = request;
    return { run: call.param("runId"), node: call.param("nodeId"), reason, ask: call.idempotencyKeyFor(type, request, digest) };
  };
  const rebind: RouteHandler = async (call) => {
    const request = call.readOptionalBody(bodyReaderOf("rebindRun"));
    const idempotencyKey = call.idempotencyKeyFor("run.rebind", request, digest);
    return controlledReply(await control.rebind(call, call.param("runId"), request, idempotencyKey));
  };

  return {
    async retryRun(call) {
      const { reason, dryRun } = call.readOptionalBody(bodyReaderOf("retryRun"));
      const detail = await readRun(call);
      if (dryRun === true) return { status: 200, body: await control.planRetry(call, detail) };
      return startedReply(await control.retry(call, detail, { key: call.readIdempotencyKey(), reason }));
    },

    async replayRun(call) {
      const { dryRun, ...request } = call.readOptionalBody(bodyReaderOf("replayRun"));
      const detail = await readRun(call);
      if (dryRun === true) return { status: 200, body: await control.planReplay(call, detail, request) };
      return startedReply(await control.replay(call, detail, { request, key: call.readIdempotencyKey() }));
    },

    rebindRun: rebind,
    rebindSchedulerRun: rebind,
    skipNode: async (call) => controlledReply(await control.skipNode(call, readNodeChange(call, "run.skip"))),
    retryNode: async (call) => controlledReply(await control.retryNode(call, readNodeChange(call, "run.retry"))),
  } satisfies RouteHandlers;
}

export const startedReply = (run: StartedRun): RestReply => ({ body: presentRunRef(run), headers: replayedHeader(run.repeated) });

const controlledReply = ({ body, repeated }: ControlledRun): RestReply => ({ body, headers: replayedHeader(repeated) });

export const bulkHandlers = ({ bulk }: RunServices) =>
  ({
    async changeRuns(call) {
      const key = call.readIdempotencyKey();
      const request = call.readBody(bodyReaderOf("changeRuns"));
      if (Object.keys(request.filter).length === 0)
        throw invalidRequest("body.filter", "body.filter must name something: an empty one would change every run");
      for (const field of ["from", "version"] as const)
        if (request[field] !== undefined && request.action !== "replay")
          throw invalidRequest(`body.${field}`, `body.${field} is for action replay, not ${request.action}`);
      return { body: await bulk.start(call, request, key), ...(request.dryRun === true && { status: 200 }) };
    },

    async getBulk(call) {
      const id = call.param("bulkId");
      const found = await bulk.find(call.tenant, id);
      if (found === null) throw fault("E.NOT_FOUND", `there is no bulk change ${id.slice(0, 100)}`);
      return { body: found };
    },
  }) satisfies RouteHandlers;

export function deadLetterHandlers({ deadLetters, digest }: RunServices) {
  const readChange = (call: RestCall, type: string) => {
    const request = call.readOptionalBody(bodyReaderOf("skipNode"));
    return [call.param("taskId"), request.reason, call.idempotencyKeyFor(type, request, digest)] as const;
  };
  return {
    async listDeadLetters(call) {
      const { q, runId, status, cursor } = call.query;
      return { body: await deadLetters.list(call.tenant, { q, runId, status, cursor, limit: call.readPageLimit() }) };
    },

    async requeueDeadLetter(call) {
      const { run, isRepeated } = await deadLetters.requeue(call, ...readChange(call, "letter.requeue"));
      return { body: presentRunRef(run), headers: replayedHeader(isRepeated) };
    },

    async dismissDeadLetter(call) {
      const { deadLetter, isRepeated } = await deadLetters.dismiss(call, ...readChange(call, "letter.dismiss"));
      return { body: deadLetter, headers: replayedHeader(isRepeated) };
    },
  } satisfies RouteHandlers;
}
