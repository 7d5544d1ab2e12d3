// The routes that control runs: nodes skipped or retried, a run moved to other workers, one that ended started again.

import { readRebindRequest, readReplayRequest, readRetryRequest, readSteerRequest } from "@astraflow/protocol";
import {
  type ControlledRun,
  type NodeChange,
  planReplay,
  planRetry,
  presentRunRef,
  type RunServices,
  rebindRun,
  replayWithAudit,
  retryNode,
  retryWithAudit,
  type StartedRun,
  skipNode,
} from "@astraflow/services";
import { idempotencyKeyOf, replayedHeader } from "../requests/idempotency.ts";
import {
  type RestCall,
  type RestReply,
  type RouteHandler,
  readIdempotencyKey,
  readOptionalRequest,
} from "../requests/rest-call.ts";

type RunControlRoutes = "retryRun" | "replayRun" | "rebindRun" | "rebindSchedulerRun" | "skipNode" | "retryNode";

export function runControlHandlers(runs: RunServices): Record<RunControlRoutes, RouteHandler> {
  const { starter, digest } = runs;
  const readRun = ({ identity, params }: RestCall) => starter.readRunDetail(identity.tenant, params["runId"] ?? "");
  const readNodeChange = (call: RestCall, type: string): NodeChange => {
    const request = readOptionalRequest(call, readSteerRequest);
    const { reason = "asked by an operator" } = request;
    const { runId: run = "", nodeId: node = "" } = call.params;
    return { run, node, reason, ask: idempotencyKeyOf(call, type, request, digest) };
  };
  const rebind: RouteHandler = async (call) => {
    const request = readOptionalRequest(call, readRebindRequest);
    const idempotencyKey = idempotencyKeyOf(call, "run.rebind", request, digest);
    return controlledReply(await rebindRun(runs, call, call.params["runId"] ?? "", request, idempotencyKey));
  };

  return {
    async retryRun(call) {
      const { reason, dryRun } = readOptionalRequest(call, readRetryRequest);
      const detail = await readRun(call);
      if (dryRun === true) return { status: 200, body: await planRetry(starter, call, detail) };
      return startedReply(await retryWithAudit(runs, call, detail, readIdempotencyKey(call), reason));
    },

    async replayRun(call) {
      const { dryRun, ...request } = readOptionalRequest(call, readReplayRequest);
      const detail = await readRun(call);
      if (dryRun === true) return { status: 200, body: await planReplay(starter, call, detail, request) };
      return startedReply(await replayWithAudit(runs, call, detail, request, readIdempotencyKey(call)));
    },

    rebindRun: rebind,
    rebindSchedulerRun: rebind,
    skipNode: async (call) => controlledReply(await skipNode(runs, call, readNodeChange(call, "run.skip"))),
    retryNode: async (call) => controlledReply(await retryNode(runs, call, readNodeChange(call, "run.retry"))),
  };
}

export const startedReply = (run: StartedRun): RestReply => ({ body: presentRunRef(run), headers: replayedHeader(run.repeated) });

const controlledReply = ({ body, repeated }: ControlledRun): RestReply => ({ body, headers: replayedHeader(repeated) });
