// Control of runs: cancelled, moved to other workers, nodes skipped or retried, ended runs started again.

import type { AnswerBody, Command, IdempotencyKey, RunDetail, WorkerRow } from "@astraflow/engine";
import {
  Fault,
  fault,
  nodeStatusByPhase,
  type RebindRequest,
  type ReplayRequest,
  type RunRef,
  type Steered,
} from "@astraflow/protocol";
import { auditRefusal, runAudit } from "../documents/audit.ts";
import { actorOf, type Caller } from "../identity/caller.ts";
import { presentRunRef } from "../presentation/run-view.ts";
import { instanceIdOf } from "../presentation/worker-view.ts";
import { nodeNotFound, runNotFound } from "./run-faults.ts";
import { replayRun, retryRun, topLevelNodeOf } from "./run-replay.ts";
import type { RunServices } from "./run-services.ts";
import type { StartedRun } from "./run-starter.ts";

export async function cancelRun(
  { engineClient }: RunServices,
  caller: Caller,
  run: string,
  ask: IdempotencyKey | null,
): Promise<StartedRun> {
  const reason = "cancelled by request";
  const answer = await engineClient
    .request({ type: "run.cancel", ...actorOf(caller), run, reason, ask })
    .catch((why: unknown) => {
      throw why instanceof Fault && why.code === "E.NOT_FOUND" ? runNotFound(run) : why;
    });
  if (answer.of !== "run") throw fault("E.INTERNAL", `run.cancel was answered with ${answer.of}`);
  return answer;
}

export interface ControlledRun {
  readonly body: Steered | (Omit<Steered, "newRun"> & { readonly newRun: RunRef });
  readonly repeated: boolean;
}

async function sendRunCommand(
  { engineClient, reader }: RunServices,
  command: Extract<Command, { type: "run.skip" | "run.retry" | "run.rebind" }>,
): Promise<ControlledRun> {
  const { run } = command;
  const answer = await engineClient.request(command).catch((why: unknown) => {
    // The engine has its own messages for what is missing; the API uses the same ones everywhere.
    if (!(why instanceof Fault) || why.code !== "E.NOT_FOUND" || why.details?.["run"] === undefined) throw why;
    const { node } = why.details;
    throw typeof node === "string" ? nodeNotFound(run, node) : runNotFound(run);
  });
  if (answer.of !== "steered") throw fault("E.INTERNAL", `${command.type} was answered with ${answer.of}`);
  const { items } = await reader.page({ page: "workers", tenant: command.tenant });
  return { body: presentSteered(answer, items), repeated: answer.repeated ?? false };
}

export interface NodeChange {
  readonly run: string;
  readonly node: string;
  readonly reason: string;
  readonly ask: IdempotencyKey | null;
}

export const skipNode = (runs: RunServices, caller: Caller, change: NodeChange): Promise<ControlledRun> =>
  sendRunCommand(runs, { type: "run.skip", ...actorOf(caller), ...change });

/** Retries a node. In a run that has ended this starts a new run from that node on. */
export async function retryNode(runs: RunServices, caller: Caller, change: NodeChange): Promise<ControlledRun> {
  try {
    return await sendRunCommand(runs, { type: "run.retry", ...actorOf(caller), ...change });
  } catch (why) {
    if (!(why instanceof Fault) || why.code !== "E.RUN.TERMINAL") throw why;
    const detail = await runs.starter.readRunDetail(caller.identity.tenant, change.run);
    const from = topLevelNodeOf(detail, change.node) ?? change.node;
    // Its own key: with the caller's the node may have been retried while the run was active. No caller's key contains a blank.
    const key = change.ask === null ? null : `again ${runs.digest(change.ask.key)}`;
    const started = await replayWithAudit(runs, caller, detail, { from }, key);
    return { body: { runId: detail.run.id, tasks: [], newRun: presentRunRef(started) }, repeated: started.repeated };
  }
}

/** Moves a run or one of its nodes to another worker. */
export async function rebindRun(
  runs: RunServices,
  caller: Caller,
  run: string,
  request: RebindRequest,
  ask: IdempotencyKey | null,
): Promise<ControlledRun> {
  const { worker, mode = "switch" } = request;
  const node = request.node ?? null;
  const { tenant } = caller.identity;
  const { items } = await runs.reader.page({ page: "workers", tenant });
  const audit = runAudit("run.rebind", run, { node, worker, mode });
  const target =
    worker === undefined
      ? null
      : await auditRefusal(runs.engineClient, caller, audit, () => findTargetWorker(items, tenant, worker).id);
  return sendRunCommand(runs, { type: "run.rebind", ...actorOf(caller), run, ask, node, worker: target, mode });
}

export const retryWithAudit = (
  { engineClient, starter }: RunServices,
  caller: Caller,
  detail: RunDetail,
  key: string | null,
  reason: string | undefined,
): Promise<StartedRun> =>
  auditRefusal(engineClient, caller, runAudit("run.retry", detail.run.id, { reason }), () =>
    retryRun(starter, caller, detail, { key, reason }),
  );

export const replayWithAudit = (
  { engineClient, starter }: RunServices,
  caller: Caller,
  detail: RunDetail,
  request: ReplayRequest,
  key: string | null,
): Promise<StartedRun> =>
  auditRefusal(engineClient, caller, runAudit("run.replay", detail.run.id, request), () =>
    replayRun(starter, caller, detail, { request, key }),
  );

/** By instance id, or by name if only one has it. */
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
