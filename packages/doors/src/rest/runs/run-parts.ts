// The routes about parts of a run: its nodes page by page, one node with its values, what nodes printed, who is bound to it, what it left behind.

import { bindingsOf, nodeAt, type Reader, type RunDetail, slotOf, type TaskRow } from "@astraflow/engine";
import type { Plan } from "@astraflow/graph";
import { type Fault, fault, type JsonValue, type RunNodeStatus } from "@astraflow/protocol";
import type { DoorEnvironment } from "../../outside.ts";
import { cachedPlanOf } from "../../plans.ts";
import { type Call, type Handler, readCount, readLimit } from "../call.ts";
import { strangeCursor } from "../people/user-cursor.ts";
import { instant } from "../view.ts";
import { instanceIn, queueOf } from "../workers/view-workers.ts";
import { readFlag } from "../workers/worker-filter.ts";
import { fatesAt, readArtifacts, readFates } from "./run-artifacts.ts";
import { logLimits, readLog, readLogCursor } from "./run-logs.ts";
import type { Moments } from "./run-moment.ts";
import { showValue, valueBytesMax, valueIn } from "./run-values.ts";
import { findRun, nodeContext } from "./runs.ts";
import { type NodeContext, viewNodes, viewTasks } from "./view-nodes.ts";

export interface RunPartsOptions {
  readonly reader: Reader;
  readonly environment: DoorEnvironment;
  readonly ackDeadlineMs: number;
  readonly moments: Moments;
}

type PartRoutes = "listRunNodes" | "getRunNode" | "getRunLogs" | "listRunBindings" | "listRunArtifacts";

export function runPartHandlers({ reader, environment, ackDeadlineMs, moments }: RunPartsOptions): Record<PartRoutes, Handler> {
  /** Without its tasks: whoever needs some reads those. */
  const runIn = (call: Call) => findRun(reader, call.identity.tenant, call.params["runId"] ?? "", 0);
  const momentIn = (call: Call, at: number) => moments.read(call.identity.tenant, call.params["runId"] ?? "", at);

  /** With what became of the artifacts of these tasks. */
  const contextOf = async (detail: RunDetail, tasks: readonly TaskRow[]): Promise<NodeContext> => ({
    ...(await nodeContext(reader, { ...detail, tasks }, ackDeadlineMs)),
    fateOf: await readFates(reader, detail.run.tenant, tasks, environment.clock.now()),
  });

  /** A page of tasks as they are, or as they were. */
  const tasksIn = async (call: Call, at: number | undefined) => {
    const limit = readLimit(call.query);
    const cursor = readTaskCursor(call);
    if (at === undefined) {
      const { detail, head } = await runIn(call);
      const { id: run, tenant } = detail.run;
      const page = await reader.page({ page: "tasks", tenant, run, limit, ...(cursor !== undefined && { after: cursor }) });
      const context = await contextOf(detail, page.items);
      return { ...page, context, workflow: detail.workflow, asOf: Math.min(head, page.head) };
    }
    const moment = await momentIn(call, at);
    const rest = cursor === undefined ? moment.ids : moment.ids.filter((id) => id > cursor);
    const items = await moments.rows(moment, rest.slice(0, limit));
    const context = { ...(await nodeContext(reader, { ...moment, tasks: items }, ackDeadlineMs)), fateOf: fatesAt(moment.fold) };
    const next = rest.length > limit ? (rest[limit - 1] ?? null) : null;
    return { items, next, context, workflow: moment.workflow, asOf: at };
  };

  /** One node as it is, or as it was. */
  const nodeIn = async (call: Call, at: number | undefined) => {
    const name = call.params["nodeId"] ?? "";
    if (at === undefined) {
      const { detail, head } = await runIn(call);
      const found = await findNode(reader, detail, name, ackDeadlineMs, (tasks) => contextOf(detail, tasks));
      return { ...found, asOf: head };
    }
    const moment = await momentIn(call, at);
    const { id } = placeOf(moment, name);
    const [task = null] = await moments.rows(moment, [id]);
    const shown = { ...moment, tasks: task === null ? [] : [task] };
    const context = { ...(await nodeContext(reader, shown, ackDeadlineMs)), fateOf: fatesAt(moment.fold) };
    const node = viewNodes(shown, context).find((one) => one.taskId === id);
    if (node === undefined) throw missingNode(moment.run.id, name);
    return { task, node, asOf: at };
  };

  return {
    async listRunNodes(call) {
      const { status, hostNodeId, middleware } = call.query;
      const chainIndex = readCount(call.query, "chainIndex", undefined);
      const at = readCount(call.query, "at", undefined);
      const { items, next, context, workflow, asOf } = await tasksIn(call, at);
      const shown = viewTasks(cachedPlanOf(workflow), items, context).filter(
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
      const at = readCount(call.query, "at", undefined);
      const offset = readCount(call.query, "offset", undefined);
      const length = readCount(call.query, "length", undefined, valueBytesMax);
      const { task, node, asOf } = await nodeIn(call, at);
      const params = task?.params ?? null;
      const parameters = params === null ? undefined : (JSON.parse(params) as JsonValue);
      const asked = { ...(offset !== undefined && { offset }), ...(length !== undefined && { length }) };
      const value = path === undefined ? {} : showValue(valueIn({ results: node.result, parameters }, path, node.nodeId), asked);
      return {
        body: { node, ...(parameters !== undefined && { parameters }), ...value, ...(at !== undefined && { at }), asOf },
      };
    },

    async getRunLogs(call) {
      const { detail, head } = await runIn(call);
      const { node, channel, q: words } = call.query;
      const log = await readLog(reader, detail, {
        ...(node !== undefined && { node }),
        ...(channel !== undefined && { channel }),
        ...(words !== undefined && words !== "" && { words }),
        cursor: readLogCursor(call.query["cursor"]),
        from: readCount(call.query, "from", 0, Number.MAX_SAFE_INTEGER),
        limit: readCount(call.query, "limit", logLimits.linesDefault, logLimits.linesMax),
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
      const { detail, head } = await runIn(call);
      const { items: crew } = await reader.page({ page: "workers", tenant: detail.run.tenant });
      const workers = new Map(crew.map(({ id, name }) => [id, name]));
      const items = Object.entries(bindingsOf(detail.run)).map(([name, { worker, at }]) => ({
        package: name,
        workerId: instanceIn(worker),
        workerName: workers.get(worker) ?? instanceIn(worker),
        queue: queueOf(worker),
        at: instant(at),
      }));
      return { body: { items, asOf: head } };
    },

    async listRunArtifacts(call) {
      const { detail, head } = await runIn(call);
      const asked = { after: readTaskCursor(call), limit: readLimit(call.query), isAll: readFlag(call.query, "all") === true };
      const { items, next } = await readArtifacts(reader, detail, (tasks) => contextOf(detail, tasks), asked);
      return { body: { items, nextCursor: next, asOf: head } };
    },
  };
}

/** A task of this run; any other word would look like the end of the list. */
function readTaskCursor({ query, params }: Call): string | undefined {
  const { cursor } = query;
  if (cursor === undefined || cursor.startsWith(`${params["runId"] ?? ""}.`)) return cursor;
  throw strangeCursor();
}

export const missingNode = (run: string, node: string): Fault =>
  fault("E.NOT_FOUND", `run ${run} has no node ${node.slice(0, 200)}`);

/** Which task a name means: a node by its id, or a task by its id or slot where a node runs more than once. */
function placeOf({ run, workflow }: Pick<RunDetail, "run" | "workflow">, name: string): { id: string; plan: Plan } {
  const plan = cachedPlanOf(workflow);
  const top = plan.nodes.find((node) => node.id === name);
  const id = top !== undefined ? `${run.id}.${top.ordinal}` : name.startsWith(`${run.id}.`) ? name : `${run.id}.${name}`;
  if (nodeAt(plan, slotOf({ id, run: run.id })) === null) throw missingNode(run.id, name);
  return { id, plan };
}

/** A node as it is. One that was not reached has no task. */
export async function findNode(
  reader: Reader,
  detail: RunDetail,
  name: string,
  ackDeadlineMs: number,
  contextOf: (tasks: readonly TaskRow[]) => Promise<NodeContext> = (tasks) =>
    nodeContext(reader, { ...detail, tasks }, ackDeadlineMs),
): Promise<{ task: TaskRow | null; node: RunNodeStatus; plan: Plan }> {
  const { run } = detail;
  const { id, plan } = placeOf(detail, name);
  const { task } = await reader.page({ page: "task", tenant: run.tenant, task: id });
  const shown = { ...detail, tasks: task === null ? [] : [task] };
  const node = viewNodes(shown, await contextOf(shown.tasks)).find((one) => one.taskId === id);
  if (node === undefined) throw missingNode(run.id, name);
  return { task, node, plan };
}
