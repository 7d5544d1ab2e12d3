// Control of runs: cancelled, moved to other workers, nodes skipped or retried, ended runs started again.

import {
  type AnswerBody,
  type Command,
  type IdempotencyKey,
  nodeAt,
  type RunDetail,
  readRunOrigin,
  type WorkerRow,
} from "@astraflow/engine";
import type { Plan } from "@astraflow/graph";
import {
  Fault,
  fault,
  nodeStatusByPhase,
  omitUndefined,
  type RebindRequest,
  type ReplayRequest,
  type RunPlan,
  type RunRef,
  type Steered,
  type Workflow,
} from "@astraflow/protocol";
import { auditRefusal, isNotFound, notFound, runAudit } from "../documents/documents.ts";
import { expectAnswer } from "../environment/engine-client.ts";
import type { ServiceContext } from "../environment/service-environment.ts";
import { actorOf, type Caller } from "../identity/identity.ts";
import { cachedPlanOf } from "../presentation/plan-cache.ts";
import { presentRunRef } from "../presentation/run-view.ts";
import { instanceIdOf } from "../presentation/worker-view.ts";
import type { ResolvedRunStart, RunStarter, StartedRun } from "./run-starter.ts";

export interface ControlledRun {
  readonly body: Steered | (Omit<Steered, "newRun"> & { readonly newRun: RunRef });
  readonly repeated: boolean;
}

export interface NodeChange {
  readonly run: string;
  readonly node: string;
  readonly reason: string;
  readonly ask: IdempotencyKey | null;
}

export interface ReplayOptions {
  readonly request: ReplayRequest;
  /** The idempotency key; null without one. */
  readonly key: string | null;
  readonly reason?: string | undefined;
}

type AuditData = Readonly<Record<string, unknown>>;

export class RunControl {
  readonly #context: ServiceContext;
  readonly #starter: RunStarter;

  constructor(context: ServiceContext, starter: RunStarter) {
    this.#context = context;
    this.#starter = starter;
  }

  async cancel(caller: Caller, run: string, ask: IdempotencyKey | null): Promise<StartedRun> {
    const command = { type: "run.cancel", ...actorOf(caller), run, reason: "cancelled by request", ask } as const;
    const answer = await this.#context.engineClient.request(command).catch((why: unknown) => {
      throw isNotFound(why) ? notFound("run", run) : why;
    });
    return expectAnswer(answer, "run");
  }

  skipNode(caller: Caller, change: NodeChange): Promise<ControlledRun> {
    return this.#send({ type: "run.skip", ...actorOf(caller), ...change });
  }

  /** Retries a node. In a run that has ended this starts a new run from that node on. */
  async retryNode(caller: Caller, change: NodeChange): Promise<ControlledRun> {
    try {
      return await this.#send({ type: "run.retry", ...actorOf(caller), ...change });
    } catch (why) {
      if (!(why instanceof Fault) || why.code !== "E.RUN.TERMINAL") throw why;
      const detail = await this.#starter.readRunDetail(caller.identity.tenant, change.run);
      const from = topLevelNodeOf(detail, change.node) ?? change.node;
      // Its own key: with the caller's the node may have been retried while the run was active. No caller's key contains a blank.
      const key = change.ask === null ? null : `again ${this.#context.digest(change.ask.key)}`;
      const started = await this.replay(caller, detail, { request: { from }, key });
      return { body: { runId: detail.run.id, tasks: [], newRun: presentRunRef(started) }, repeated: started.repeated };
    }
  }

  /** Moves a run or one of its nodes to another worker. */
  async rebind(caller: Caller, run: string, request: RebindRequest, ask: IdempotencyKey | null): Promise<ControlledRun> {
    const { engineClient, reader } = this.#context;
    const { worker, node = null, mode = "switch" } = request;
    const { tenant } = caller.identity;
    const { items } = await reader.page({ page: "workers", tenant });
    const audit = runAudit("run.rebind", run, { node, worker, mode });
    const target =
      worker === undefined
        ? null
        : await auditRefusal(engineClient, caller, audit, () => findTargetWorker(items, tenant, worker).id);
    return this.#send({ type: "run.rebind", ...actorOf(caller), run, ask, node, worker: target, mode });
  }

  /** Starts a run again with the results that succeeded; only if it has ended and something is left to do. `data` is for the audit. */
  retry(
    caller: Caller,
    detail: RunDetail,
    options: Omit<ReplayOptions, "request">,
    data: AuditData = { reason: options.reason },
  ): Promise<StartedRun> {
    const audit = runAudit("run.retry", detail.run.id, data);
    return auditRefusal(this.#context.engineClient, caller, audit, () => {
      checkRetryable(detail);
      return this.startAgain(caller, detail, { ...options, request: {} });
    });
  }

  /** What a retry would do, without doing it. */
  async planRetry(caller: Caller, detail: RunDetail): Promise<RunPlan> {
    checkRetryable(detail);
    return this.planReplay(caller, detail, {});
  }

  /** Starts a run again from a node on, or what did not succeed of it. `data` is for the audit. */
  replay(caller: Caller, detail: RunDetail, options: ReplayOptions, data: AuditData = options.request): Promise<StartedRun> {
    const audit = runAudit("run.replay", detail.run.id, data);
    return auditRefusal(this.#context.engineClient, caller, audit, () => this.startAgain(caller, detail, options));
  }

  /** What a replay would do, without doing it. */
  async planReplay(caller: Caller, detail: RunDetail, request: ReplayRequest): Promise<RunPlan> {
    return this.#starter.previewStart(caller, await this.#buildReplayStart(caller, detail, { request, key: null }));
  }

  /** A replay without an audit entry of its own. */
  async startAgain(caller: Caller, detail: RunDetail, options: ReplayOptions): Promise<StartedRun> {
    return this.#starter.start(caller, await this.#buildReplayStart(caller, detail, options));
  }

  async #send(command: Extract<Command, { type: "run.skip" | "run.retry" | "run.rebind" }>): Promise<ControlledRun> {
    const { engineClient, reader } = this.#context;
    const { run, tenant } = command;
    const answer = await engineClient.request(command).catch((why: unknown) => {
      // The engine has its own messages for what is missing; the API uses the same ones everywhere.
      if (!isNotFound(why) || why.details?.["run"] === undefined) throw why;
      const { node } = why.details;
      throw typeof node === "string" ? nodeNotFound(run, node) : notFound("run", run);
    });
    const steered = expectAnswer(answer, "steered");
    const { items } = await reader.page({ page: "workers", tenant });
    return { body: presentSteered(steered, items), repeated: steered.repeated ?? false };
  }

  async #buildReplayStart(
    caller: Caller,
    detail: RunDetail,
    { request: { from, version = "same", allowUnknown }, key, reason }: ReplayOptions,
  ): Promise<ResolvedRunStart> {
    const { run } = detail;
    const same = JSON.parse(detail.workflow) as Workflow;
    if (from !== undefined && !same.nodes.some((node) => node.id === from) && version === "same")
      throw nodeNotFound(run.id, from);
    const chosen =
      version === "same"
        ? { workflow: same, ...(await this.#starter.readVersionOfRun(caller, run)) }
        : await this.#starter.readWorkflowVersion(caller, run.source, version);
    return {
      ...chosen,
      asked: { replay: run.id, version, ...(allowUnknown === true && { allowUnknown }) },
      client: run.client,
      priority: run.band,
      timeoutMs: null,
      labels: { ...readRunOrigin(run).labels },
      reuse: detail,
      replayOf: run.id,
      // What has run may run again though its package is gone; another version may not, unless the run was allowed unknown packages.
      allowUnknown: version === "same" || allowUnknown === true || readRunOrigin(run)["allowUnknown"] === true,
      ...omitUndefined({ from, reason }),
      key,
    };
  }
}

export const nodeNotFound = (run: string, node: string): Fault =>
  fault("E.NOT_FOUND", `run ${run} has no node ${node.slice(0, 200)}`);

function checkRetryable({ run }: RunDetail): void {
  if (run.endedAt === null)
    throw fault("E.RUN.ACTIVE", `run ${run.id} is ${run.phase}; wait until it has ended or cancel it, then retry it`, {
      run: run.id,
    });
  if (run.phase === "succeeded")
    throw fault("E.RUN.TERMINAL", `run ${run.id} succeeded, so nothing is left to retry; replay it from a node`, { run: run.id });
}

/** The top-level node that a node, slot or task belongs to, as a run starts again with a whole container or host. Null: there is none. */
export function topLevelNodeOf({ run, workflow }: RunDetail, name: string): string | null {
  const plan = cachedPlanOf(workflow);
  const slot = name.startsWith(`${run.id}.`) ? name.slice(run.id.length + 1) : name;
  const isSlot = /^[0-9]+([~*/]|$)/.test(slot) && nodeAt(plan, slot) !== null;
  const node = isSlot
    ? plan.nodes[Number.parseInt(slot, 10)]
    : plan.nodes.find((one) => one.id === name || containsNode(one, name));
  const top = node === undefined || node.host === null ? node : plan.nodes[node.host];
  return top?.id ?? null;
}

const containsNode = ({ container }: Plan["nodes"][number], id: string): boolean =>
  container?.body.nodes.some((node) => node.id === id || containsNode(node, id)) ?? false;

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
