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
import type { Bulk } from "../../bulk.ts";
import { type Call, type Handler, type Reply, readIdempotencyKey, readWords } from "../call.ts";
import { askOf, replayed } from "../keys.ts";
import { aboutRun, keepRefusal } from "../refusals.ts";
import { viewRunRef } from "../view.ts";
import { instanceIn } from "../workers/view-workers.ts";
import { bulkHandlers } from "./bulk-routes.ts";
import { letterHandlers } from "./letters.ts";
import { placementHandlers } from "./placement.ts";
import { queueHandlers } from "./queues.ts";
import { planReplay, planRetry, replayRun, retryRun, topNodeOf } from "./run-again.ts";
import { missingNode } from "./run-parts.ts";
import { createStarter, missingRun, type RunAnswer, type StartOptions } from "./run-start.ts";
import { nodeStatusByPhase } from "./view-nodes.ts";

export interface SteeringOptions extends StartOptions {
  readonly ackDeadlineMs: number;
  readonly bulk: Bulk;
}

type SteeringRoutes = "retryRun" | "replayRun" | "rebindRun" | "rebindSchedulerRun" | "skipNode" | "retryNode";

type Others = ReturnType<typeof letterHandlers> &
  ReturnType<typeof placementHandlers> &
  ReturnType<typeof queueHandlers> &
  ReturnType<typeof bulkHandlers>;

export function steeringHandlers(options: SteeringOptions): Record<SteeringRoutes, Handler> & Others {
  const { engineClient, reader } = options;
  const starter = createStarter(options);

  const steer = async (call: Call, command: Command): Promise<Reply & { body: Steered }> => {
    const run = call.params["runId"] ?? "";
    const answer = await engineClient.request(command).catch((why: unknown) => {
      // The engine has words of its own for what it misses; a run or a node is missed in the same ones everywhere.
      if (!(why instanceof Fault) || why.code !== "E.NOT_FOUND" || why.details?.["run"] === undefined) throw why;
      const { node } = why.details;
      throw typeof node === "string" ? missingNode(run, node) : missingRun(run);
    });
    if (answer.of !== "steered") throw fault("E.INTERNAL", `${command.type} was answered with ${answer.of}`);
    const { items } = await reader.page({ page: "workers", tenant: call.identity.tenant });
    return { body: viewSteered(answer, items), headers: replayed(answer.repeated ?? false) };
  };
  const words = (call: Call, type: string, request: object) => {
    const { tenant, user: by } = call.identity;
    const run = call.params["runId"] ?? "";
    return { tenant, by, corr: call.requestId, run, ask: askOf(call, type, request, options.digest) };
  };
  const onNode = async (call: Call, type: "run.skip" | "run.retry"): Promise<Reply> => {
    const request = readWords(call, readSteerRequest);
    const { reason = "asked by an operator" } = request;
    const node = call.params["nodeId"] ?? "";
    return steer(call, { type, ...words(call, type, request), node, reason });
  };

  const rebind: Handler = async (call) => {
    const request = readWords(call, readRebindRequest);
    const { node = null, worker, mode = "switch" } = request;
    const ordered = words(call, "run.rebind", request);
    const { tenant } = call.identity;
    const { items } = await reader.page({ page: "workers", tenant });
    const deed = aboutRun("run.rebind", ordered.run, { node, worker, mode });
    const target =
      worker === undefined ? null : await keepRefusal(engineClient, call, deed, () => findWorker(items, tenant, worker).id);
    return steer(call, { type: "run.rebind", ...ordered, node, worker: target, mode });
  };
  /** The run anew from a node on; the order is about the run that was. */
  const replay = (call: Call, detail: RunDetail, request: ReplayRequest, key: string | null): Promise<RunAnswer> =>
    keepRefusal(engineClient, call, aboutRun("run.replay", detail.run.id, request), () =>
      replayRun(starter, call, detail, request, key),
    );

  return {
    ...letterHandlers({ ...options, starter }),
    ...placementHandlers(options),
    ...queueHandlers(options),
    ...bulkHandlers(options),

    async retryRun(call) {
      const { reason, dryRun } = readWords(call, readRetryRequest);
      const detail = await starter.detailOf(call.identity.tenant, call.params["runId"] ?? "");
      if (dryRun === true) return { status: 200, body: await planRetry(starter, call, detail) };
      const key = readIdempotencyKey(call);
      const deed = aboutRun("run.retry", detail.run.id, { reason });
      return started(await keepRefusal(engineClient, call, deed, () => retryRun(starter, call, detail, key, reason)));
    },

    async replayRun(call) {
      const request = readWords(call, readReplayRequest);
      const detail = await starter.detailOf(call.identity.tenant, call.params["runId"] ?? "");
      const { dryRun, ...asked } = request;
      if (dryRun === true) return { status: 200, body: await planReplay(starter, call, detail, asked) };
      return started(await replay(call, detail, asked, readIdempotencyKey(call)));
    },

    rebindRun: rebind,
    rebindSchedulerRun: rebind,
    skipNode: (call) => onNode(call, "run.skip"),

    async retryNode(call) {
      const node = call.params["nodeId"] ?? "";
      try {
        return await onNode(call, "run.retry");
      } catch (why) {
        if (!(why instanceof Fault) || why.code !== "E.RUN.TERMINAL") throw why;
        // What is over stays as it is: the node is tried again in a run of its own.
        const detail = await starter.detailOf(call.identity.tenant, call.params["runId"] ?? "");
        const from = topNodeOf(detail, node) ?? node;
        const key = readIdempotencyKey(call);
        // A key of its own: under the caller's the node may have been tried again while the run was under way. No caller's key has a blank.
        const own = key === null ? null : `again ${options.digest(key)}`;
        const answer = await replay(call, detail, { from }, own);
        return { body: { runId: detail.run.id, tasks: [], newRun: viewRunRef(answer) }, headers: replayed(answer.repeated) };
      }
    },
  };
}

const started = (answer: RunAnswer) => ({
  body: viewRunRef(answer),
  headers: replayed(answer.repeated),
});

/** By instance id, else by name where only one has it. */
function findWorker(workers: readonly WorkerRow[], tenant: string, name: string): WorkerRow {
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

function viewSteered(answer: Extract<AnswerBody, { of: "steered" }>, workers: readonly WorkerRow[]): Steered {
  const nameOf = (id: string) => workers.find((worker) => worker.id === id)?.name ?? instanceIn(id);
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
