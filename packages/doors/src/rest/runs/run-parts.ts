// The routes about parts of a run: its nodes page by page, one node with its values, what nodes printed, who is bound to it, what it left behind.

import { bindingsOf, nodeAt, type Reader, type RunDetail, slotOf, type TaskRow } from "@astraflow/engine";
import { type Plan, readPath, valueAt } from "@astraflow/graph";
import { type Fault, fault, type JsonValue, type RunNodeStatus } from "@astraflow/protocol";
import { planOfText } from "../../plans.ts";
import { type Call, type Handler, readCount, readLimit } from "../call.ts";
import { instant } from "../view.ts";
import { instanceIn, queueOf } from "../workers/view-workers.ts";
import { readArtifacts } from "./run-artifacts.ts";
import { logLimits, readLog, readLogCursor } from "./run-logs.ts";
import { findRun, nodeContext } from "./runs.ts";
import { viewNodes, viewTasks } from "./view-nodes.ts";

export interface RunPartsOptions {
  readonly reader: Reader;
  readonly ackDeadlineMs: number;
}

type PartRoutes = "listRunNodes" | "getRunNode" | "getRunLogs" | "listRunBindings" | "listRunArtifacts";

/** Characters of one value that an answer shows; a caller who wants more asks for a range. */
const valueCharsMax = 1024 * 1024;

export function runPartHandlers({ reader, ackDeadlineMs }: RunPartsOptions): Record<PartRoutes, Handler> {
  const runIn = (call: Call) => findRun(reader, call.identity.tenant, call.params["runId"] ?? "");

  return {
    async listRunNodes(call) {
      const { tenant } = call.identity;
      const run = call.params["runId"] ?? "";
      const limit = readLimit(call.query);
      const { cursor, status, host, middleware } = call.query;
      const chainIndex = readCount(call.query, "chainIndex", undefined);
      const { detail, head } = await runIn(call);
      const page = await reader.page({ page: "tasks", tenant, run, limit, ...(cursor !== undefined && { after: cursor }) });
      const plan = planOfText(detail.workflow);
      const context = await nodeContext(reader, { ...detail, tasks: page.items }, ackDeadlineMs);
      const shown = viewTasks(plan, page.items, context).filter(
        (node) =>
          (status === undefined || node.status === status) &&
          (host === undefined || node.host_node_id === host) &&
          (chainIndex === undefined || node.chain_index === chainIndex) &&
          (middleware === undefined || node.middlewares?.includes(middleware) === true),
      );
      return { body: { items: shown, nextCursor: page.next, asOf: Math.min(head, page.head) } };
    },

    async getRunNode(call) {
      const { detail, head } = await runIn(call);
      const { task, node } = await findNode(reader, detail, call.params["nodeId"] ?? "", ackDeadlineMs);
      const params = task?.params ?? null;
      const parameters = params === null ? undefined : (JSON.parse(params) as JsonValue);
      const { path } = call.query;
      const value = path === undefined ? undefined : valueOf(path, node, parameters, call.query);
      return {
        body: { node, ...(parameters !== undefined && { parameters }), ...(value !== undefined && { value }), asOf: head },
      };
    },

    async getRunLogs(call) {
      const { detail, head } = await runIn(call);
      const { node, channel, q: words } = call.query;
      const log = await readLog(reader, call.identity.tenant, detail, {
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
      const { workers } = await nodeContext(reader, detail, ackDeadlineMs);
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
      const contextOf = (tasks: readonly TaskRow[]) => nodeContext(reader, { ...detail, tasks }, ackDeadlineMs);
      const after = call.query["cursor"];
      const { items, next } = await readArtifacts(reader, detail, contextOf, { after, limit: readLimit(call.query) });
      return { body: { items, nextCursor: next, asOf: head } };
    },
  };
}

export const missingNode = (run: string, node: string): Fault =>
  fault("E.NOT_FOUND", `run ${run} has no node ${node.slice(0, 200)}`);

/** A node by its id, or a task by its id or slot where a node runs more than once. A node that was not reached has no task. */
export async function findNode(
  reader: Reader,
  detail: RunDetail,
  name: string,
  ackDeadlineMs: number,
): Promise<{ task: TaskRow | null; node: RunNodeStatus; plan: Plan }> {
  const { run } = detail;
  const plan = planOfText(detail.workflow);
  const top = plan.nodes.find((node) => node.id === name);
  const id = top !== undefined ? `${run.id}.${top.ordinal}` : name.startsWith(`${run.id}.`) ? name : `${run.id}.${name}`;
  if (nodeAt(plan, slotOf({ id, run: run.id })) === null) throw missingNode(run.id, name);
  const { task } = await reader.page({ page: "task", tenant: run.tenant, task: id });
  const shown = { ...detail, tasks: task === null ? [] : [task] };
  const context = await nodeContext(reader, shown, ackDeadlineMs);
  const node = viewNodes(shown, context).find((one) => one.taskId === id);
  if (node === undefined) throw missingNode(run.id, name);
  return { task, node, plan };
}

/** The value at a path of the node's results or parameters; of a text also a stretch. */
function valueOf(
  path: string,
  node: RunNodeStatus,
  parameters: JsonValue | undefined,
  query: Readonly<Record<string, string>>,
): JsonValue | undefined {
  const read = readPath(path);
  if (typeof read === "string") throw fault("E.REQUEST.INVALID", read, { path: "query.path" });
  const value = valueAt(read.root === "results" ? node.result : parameters, read.steps) as JsonValue | undefined;
  if (value === undefined) throw fault("E.NOT_FOUND", `node ${node.nodeId} has no value at ${path}`, { path: "query.path" });
  if (typeof value !== "string") return value;
  const offset = readCount(query, "offset", 0, Number.MAX_SAFE_INTEGER);
  return value.slice(offset, offset + readCount(query, "length", valueCharsMax, valueCharsMax));
}
