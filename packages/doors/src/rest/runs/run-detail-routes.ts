// The routes about parts of a run: its nodes page by page, one node with its values, what nodes printed, who is bound to it, what it left behind.

import { nodeAt, type RunDetail, readBindings, type StoreReader, slotOf, type TaskRow } from "@astraflow/engine";
import type { Plan } from "@astraflow/graph";
import { type Fault, fault, type JsonValue, type RunNodeStatus } from "@astraflow/protocol";
import {
  cachedPlanOf,
  instanceIdOf,
  invalidCursor,
  isoTime,
  type NodeViewContext,
  presentNodes,
  presentTasks,
  workerQueueOf,
} from "@astraflow/services";
import type { DoorEnvironment } from "../../environment/door-environment.ts";
import { type RestCall, type RouteHandler, readPageLimit, readWholeNumber } from "../requests/rest-call.ts";
import { readBoolean } from "../workers/worker-filter.ts";
import { artifactStatusesAt, readArtifactStatuses, readArtifacts } from "./run-artifacts.ts";
import type { RunHistory } from "./run-history.ts";
import { decodeLogCursor, readRunLog, runLogLimits } from "./run-logs.ts";
import { findRun, readNodeContext } from "./run-routes.ts";
import { presentValue, readValueAt, valueBytesMax } from "./run-values.ts";

export interface RunDetailRoutesOptions {
  readonly reader: StoreReader;
  readonly environment: DoorEnvironment;
  readonly ackDeadlineMs: number;
  readonly moments: RunHistory;
}

type RunDetailRoutes = "listRunNodes" | "getRunNode" | "getRunLogs" | "listRunBindings" | "listRunArtifacts";

export function runDetailHandlers({
  reader,
  environment,
  ackDeadlineMs,
  moments,
}: RunDetailRoutesOptions): Record<RunDetailRoutes, RouteHandler> {
  /** Without its tasks: whoever needs some reads those. */
  const readRunOf = (call: RestCall) => findRun(reader, call.identity.tenant, call.params["runId"] ?? "", 0);
  const readHistoryOf = (call: RestCall, at: number) => moments.readRunAt(call.identity.tenant, call.params["runId"] ?? "", at);

  /** With what became of the artifacts of these tasks. */
  const nodeContextOf = async (detail: RunDetail, tasks: readonly TaskRow[]): Promise<NodeViewContext> => ({
    ...(await readNodeContext(reader, { ...detail, tasks }, ackDeadlineMs)),
    fateOf: await readArtifactStatuses(reader, detail.run.tenant, tasks, environment.clock.now()),
  });

  /** A page of tasks as they are, or as they were. */
  const readTaskPage = async (call: RestCall, at: number | undefined) => {
    const limit = readPageLimit(call.query);
    const cursor = checkTaskCursor(call);
    if (at === undefined) {
      const { detail, head } = await readRunOf(call);
      const { id: run, tenant } = detail.run;
      const page = await reader.page({ page: "tasks", tenant, run, limit, ...(cursor !== undefined && { after: cursor }) });
      const context = await nodeContextOf(detail, page.items);
      return { ...page, context, workflow: detail.workflow, asOf: Math.min(head, page.head) };
    }
    const historical = await readHistoryOf(call, at);
    const rest = cursor === undefined ? historical.ids : historical.ids.filter((id) => id > cursor);
    const items = await moments.readTaskRows(historical, rest.slice(0, limit));
    const context = {
      ...(await readNodeContext(reader, { ...historical, tasks: items }, ackDeadlineMs)),
      fateOf: artifactStatusesAt(historical.fold),
    };
    const next = rest.length > limit ? (rest[limit - 1] ?? null) : null;
    return { items, next, context, workflow: historical.workflow, asOf: at };
  };

  /** One node as it is, or as it was. */
  const readNode = async (call: RestCall, at: number | undefined) => {
    const name = call.params["nodeId"] ?? "";
    if (at === undefined) {
      const { detail, head } = await readRunOf(call);
      const found = await findNode(reader, detail, name, ackDeadlineMs, (tasks) => nodeContextOf(detail, tasks));
      return { ...found, asOf: head };
    }
    const historical = await readHistoryOf(call, at);
    const { id } = resolveTaskId(historical, name);
    const [task = null] = await moments.readTaskRows(historical, [id]);
    const shown = { ...historical, tasks: task === null ? [] : [task] };
    const context = { ...(await readNodeContext(reader, shown, ackDeadlineMs)), fateOf: artifactStatusesAt(historical.fold) };
    const node = presentNodes(shown, context).find((one) => one.taskId === id);
    if (node === undefined) throw nodeNotFound(historical.run.id, name);
    return { task, node, asOf: at };
  };

  return {
    async listRunNodes(call) {
      const { status, hostNodeId, middleware } = call.query;
      const chainIndex = readWholeNumber(call.query, "chainIndex", undefined);
      const at = readWholeNumber(call.query, "at", undefined);
      const { items, next, context, workflow, asOf } = await readTaskPage(call, at);
      const shown = presentTasks(cachedPlanOf(workflow), items, context).filter(
        (node) =>
          (status === undefined || node.status === status) &&
          (hostNodeId === undefined || node.host_node_id === hostNodeId) &&
          (chainIndex === undefined || node.chain_index === chainIndex) &&
          (middleware === undefined || node.middlewares?.includes(middleware) === true),
      );
      return { body: { items: shown, nextCursor: next, ...(at !== undefined && { at }), asOf } };
    },

    async getRunNode(call) {
      const { path } = call.query;
      const at = readWholeNumber(call.query, "at", undefined);
      const offset = readWholeNumber(call.query, "offset", undefined);
      const length = readWholeNumber(call.query, "length", undefined, valueBytesMax);
      const { task, node, asOf } = await readNode(call, at);
      const params = task?.params ?? null;
      const parameters = params === null ? undefined : (JSON.parse(params) as JsonValue);
      const asked = { ...(offset !== undefined && { offset }), ...(length !== undefined && { length }) };
      const value =
        path === undefined ? {} : presentValue(readValueAt({ results: node.result, parameters }, path, node.nodeId), asked);
      return {
        body: { node, ...(parameters !== undefined && { parameters }), ...value, ...(at !== undefined && { at }), asOf },
      };
    },

    async getRunLogs(call) {
      const { detail, head } = await readRunOf(call);
      const { node, channel, q: words } = call.query;
      const log = await readRunLog(reader, detail, {
        ...(node !== undefined && { node }),
        ...(channel !== undefined && { channel }),
        ...(words !== undefined && words !== "" && { words }),
        cursor: decodeLogCursor(call.query["cursor"]),
        from: readWholeNumber(call.query, "from", 0, Number.MAX_SAFE_INTEGER),
        limit: readWholeNumber(call.query, "limit", runLogLimits.linesDefault, runLogLimits.linesMax),
      });
      if (call.header("accept")?.includes("text/plain") === true)
        return {
          body: log.items.map((line) => `${line.text}\n`).join(""),
          media: "text/plain; charset=utf-8",
          headers: log.nextCursor === null ? {} : { "x-next-cursor": log.nextCursor },
        };
      return { body: { ...log, asOf: head } };
    },

    async listRunBindings(call) {
      const { detail, head } = await readRunOf(call);
      const { items: workerRows } = await reader.page({ page: "workers", tenant: detail.run.tenant });
      const workers = new Map(workerRows.map(({ id, name }) => [id, name]));
      const items = Object.entries(readBindings(detail.run)).map(([name, { worker, at }]) => ({
        package: name,
        workerId: instanceIdOf(worker),
        workerName: workers.get(worker) ?? instanceIdOf(worker),
        queue: workerQueueOf(worker),
        at: isoTime(at),
      }));
      return { body: { items, asOf: head } };
    },

    async listRunArtifacts(call) {
      const { detail, head } = await readRunOf(call);
      const asked = {
        after: checkTaskCursor(call),
        limit: readPageLimit(call.query),
        isAll: readBoolean(call.query, "all") === true,
      };
      const { items, next } = await readArtifacts(reader, detail, (tasks) => nodeContextOf(detail, tasks), asked);
      return { body: { items, nextCursor: next, asOf: head } };
    },
  };
}

/** A task of this run; any other word would look like the end of the list. */
function checkTaskCursor({ query, params }: RestCall): string | undefined {
  const { cursor } = query;
  if (cursor === undefined || cursor.startsWith(`${params["runId"] ?? ""}.`)) return cursor;
  throw invalidCursor();
}

export const nodeNotFound = (run: string, node: string): Fault =>
  fault("E.NOT_FOUND", `run ${run} has no node ${node.slice(0, 200)}`);

/** Which task a name means: a node by its id, or a task by its id or slot where a node runs more than once. */
function resolveTaskId({ run, workflow }: Pick<RunDetail, "run" | "workflow">, name: string): { id: string; plan: Plan } {
  const plan = cachedPlanOf(workflow);
  const top = plan.nodes.find((node) => node.id === name);
  const id = top !== undefined ? `${run.id}.${top.ordinal}` : name.startsWith(`${run.id}.`) ? name : `${run.id}.${name}`;
  if (nodeAt(plan, slotOf({ id, run: run.id })) === null) throw nodeNotFound(run.id, name);
  return { id, plan };
}

/** A node as it is. One that was not reached has no task. */
export async function findNode(
  reader: StoreReader,
  detail: RunDetail,
  name: string,
  ackDeadlineMs: number,
  nodeContextOf: (tasks: readonly TaskRow[]) => Promise<NodeViewContext> = (tasks) =>
    readNodeContext(reader, { ...detail, tasks }, ackDeadlineMs),
): Promise<{ task: TaskRow | null; node: RunNodeStatus; plan: Plan }> {
  const { run } = detail;
  const { id, plan } = resolveTaskId(detail, name);
  const { task } = await reader.page({ page: "task", tenant: run.tenant, task: id });
  const shown = { ...detail, tasks: task === null ? [] : [task] };
  const node = presentNodes(shown, await nodeContextOf(shown.tasks)).find((one) => one.taskId === id);
  if (node === undefined) throw nodeNotFound(run.id, name);
  return { task, node, plan };
}
