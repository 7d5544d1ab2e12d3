// The routes that steer runs: one node skipped or tried again, a run moved to other workers, one that ended started anew. Each reads the
// words, asks the engine, and says what was done to whom.

import type { AnswerBody, Command, RunDetail, WorkerRow } from "@astraflow/engine";
import {
  Fault,
  fault,
  type ReplayRequest,
  readRebindRequest,
  readReplayRequest,
  readRetryRequest,
  readSteerRequest,
  type Steered,
} from "@astraflow/protocol";
import { auditRefusal, type BulkChanges, instanceIdOf, nodeStatusByPhase, presentRunRef, runAudit } from "@astraflow/services";
import { idempotencyKeyOf, replayedHeader } from "../requests/idempotency.ts";
import {
  type RestCall,
  type RestReply,
  type RouteHandler,
  readIdempotencyKey,
  readOptionalRequest,
} from "../requests/rest-call.ts";
import { bulkHandlers } from "./bulk-routes.ts";
import { deadLetterHandlers } from "./dead-letter-routes.ts";
import { placementHandlers } from "./placement-routes.ts";
import { queueHandlers } from "./queue-routes.ts";
import { nodeNotFound } from "./run-detail-routes.ts";
import { planReplay, planRetry, replayRun, retryRun, topLevelNodeOf } from "./run-replay.ts";
import { createRunStarter, type RunStarterOptions, runNotFound, type StartedRun } from "./run-starter.ts";

export interface RunControlRoutesOptions extends RunStarterOptions {
  readonly ackDeadlineMs: number;
  readonly bulk: BulkChanges;
}

type RunControlRoutes = "retryRun" | "replayRun" | "rebindRun" | "rebindSchedulerRun" | "skipNode" | "retryNode";

type RelatedRunRoutes = ReturnType<typeof deadLetterHandlers> &
  ReturnType<typeof placementHandlers> &
  ReturnType<typeof queueHandlers> &
  ReturnType<typeof bulkHandlers>;

export function runControlHandlers(options: RunControlRoutesOptions): Record<RunControlRoutes, RouteHandler> & RelatedRunRoutes {
  const { engineClient, reader } = options;
  const starter = createRunStarter(options);

  const sendRunCommand = async (call: RestCall, command: Command): Promise<RestReply & { body: Steered }> => {
    const run = call.params["runId"] ?? "";
    const answer = await engineClient.request(command).catch((why: unknown) => {
      // The engine has words of its own for what it misses; a run or a node is missed in the same ones everywhere.
      if (!(why instanceof Fault) || why.code !== "E.NOT_FOUND" || why.details?.["run"] === undefined) throw why;
      const { node } = why.details;
      throw typeof node === "string" ? nodeNotFound(run, node) : runNotFound(run);
    });
    if (answer.of !== "steered") throw fault("E.INTERNAL", `${command.type} was answered with ${answer.of}`);
    const { items } = await reader.page({ page: "workers", tenant: call.identity.tenant });
    return { body: presentSteered(answer, items), headers: replayedHeader(answer.repeated ?? false) };
  };
  const commandFields = (call: RestCall, type: string, request: object) => {
    const { tenant, user: by } = call.identity;
    const run = call.params["runId"] ?? "";
    return { tenant, by, corr: call.requestId, run, ask: idempotencyKeyOf(call, type, request, options.digest) };
  };
  const changeNode = async (call: RestCall, type: "run.skip" | "run.retry"): Promise<RestReply> => {
    const request = readOptionalRequest(call, readSteerRequest);
    const { reason = "asked by an operator" } = request;
    const node = call.params["nodeId"] ?? "";
    return sendRunCommand(call, { type, ...commandFields(call, type, request), node, reason });
  };

  const rebind: RouteHandler = async (call) => {
    const request = readOptionalRequest(call, readRebindRequest);
    const { node = null, worker, mode = "switch" } = request;
    const command = commandFields(call, "run.rebind", request);
    const { tenant } = call.identity;
    const { items } = await reader.page({ page: "workers", tenant });
    const audit = runAudit("run.rebind", command.run, { node, worker, mode });
    const target =
      worker === undefined
        ? null
        : await auditRefusal(engineClient, call, audit, () => findTargetWorker(items, tenant, worker).id);
    return sendRunCommand(call, { type: "run.rebind", ...command, node, worker: target, mode });
  };
  /** The run anew from a node on; the order is about the run that was. */
  const replayWithAudit = (call: RestCall, detail: RunDetail, request: ReplayRequest, key: string | null): Promise<StartedRun> =>
    auditRefusal(engineClient, call, runAudit("run.replay", detail.run.id, request), () =>
      replayRun(starter, call, detail, request, key),
    );

  return {
    ...deadLetterHandlers({ ...options, starter }),
    ...placementHandlers(options),
    ...queueHandlers(options),
    ...bulkHandlers(options),

    async retryRun(call) {
      const { reason, dryRun } = readOptionalRequest(call, readRetryRequest);
      const detail = await starter.detailOf(call.identity.tenant, call.params["runId"] ?? "");
      if (dryRun === true) return { status: 200, body: await planRetry(starter, call, detail) };
      const key = readIdempotencyKey(call);
      const audit = runAudit("run.retry", detail.run.id, { reason });
      return startedReply(await auditRefusal(engineClient, call, audit, () => retryRun(starter, call, detail, key, reason)));
    },

    async replayRun(call) {
      const request = readOptionalRequest(call, readReplayRequest);
      const detail = await starter.detailOf(call.identity.tenant, call.params["runId"] ?? "");
      const { dryRun, ...asked } = request;
      if (dryRun === true) return { status: 200, body: await planReplay(starter, call, detail, asked) };
      return startedReply(await replayWithAudit(call, detail, asked, readIdempotencyKey(call)));
    },

    rebindRun: rebind,
    rebindSchedulerRun: rebind,
    skipNode: (call) => changeNode(call, "run.skip"),

    async retryNode(call) {
      const node = call.params["nodeId"] ?? "";
      try {
        return await changeNode(call, "run.retry");
      } catch (why) {
        if (!(why instanceof Fault) || why.code !== "E.RUN.TERMINAL") throw why;
        // What is over stays as it is: the node is tried again in a run of its own.
        const detail = await starter.detailOf(call.identity.tenant, call.params["runId"] ?? "");
        const from = topLevelNodeOf(detail, node) ?? node;
        const key = readIdempotencyKey(call);
        // A key of its own: under the caller's the node may have been tried again while the run was under way. No caller's key has a blank.
        const replayKey = key === null ? null : `again ${options.digest(key)}`;
        const answer = await replayWithAudit(call, detail, { from }, replayKey);
        return {
          body: { runId: detail.run.id, tasks: [], newRun: presentRunRef(answer) },
          headers: replayedHeader(answer.repeated),
        };
      }
    },
  };
}

const startedReply = (answer: StartedRun) => ({
  body: presentRunRef(answer),
  headers: replayedHeader(answer.repeated),
});

/** By instance id, else by name where only one has it. */
function findTargetWorker(workers: readonly WorkerRow[], tenant: string, name: string): WorkerRow {
  const exact = workers.find((worker) => worker.id === `${tenant}/${name}`);
  const named = workers.filter((worker) => worker.name === name);
  const online = named.filter((worker) => worker.phase === "online");
  const found = exact ?? (online.length === 1 ? online[0] : named.length === 1 ? named[0] : undefined);
  if (found !== undefined) return found;
  if (named.length > 1)
    throw fault("E.REQUEST.INVALID", `${named.length} workers have the name ${name.slice(0, 100)}; name one by its instance id`, {
      path: "body.worker",
    });
  throw fault("E.NOT_FOUND", `there is no worker ${name.slice(0, 100)}`, { path: "body.worker" });
}

function presentSteered(answer: Extract<AnswerBody, { of: "steered" }>, workers: readonly WorkerRow[]): Steered {
  const nameOf = (id: string) => workers.find((worker) => worker.id === id)?.name ?? instanceIdOf(id);
  return {
    runId: answer.run,
    tasks: answer.tasks.map((task) => ({
      taskId: task.task,
      nodeId: task.node,
      ...(task.from !== null && { from: nameOf(task.from) }),
      ...(task.to !== null && { to: nameOf(task.to) }),
      sent: task.sent,
      status: nodeStatusByPhase[task.phase as keyof typeof nodeStatusByPhase] ?? task.phase,
    })),
  };
}
