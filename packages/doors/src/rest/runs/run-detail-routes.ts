// The routes about parts of a run: its nodes, one node with its values, its logs, its bindings to workers, its artifacts.

import type { JsonValue } from "@astraflow/protocol";
import {
  cachedPlanOf,
  decodeLogCursor,
  findRun,
  invalidCursor,
  listRunArtifacts,
  listRunBindings,
  presentTasks,
  presentValue,
  type RunServices,
  readNode,
  readRunLog,
  readTaskPage,
  readValueAt,
  runLogLimits,
  valueBytesMax,
} from "@astraflow/services";
import { readBoolean } from "../requests/query-readers.ts";
import { type RestCall, type RouteHandler, readPageLimit, readWholeNumber } from "../requests/rest-call.ts";

type RunDetailRoutes = "listRunNodes" | "getRunNode" | "getRunLogs" | "listRunBindings" | "listRunArtifacts";

export function runDetailHandlers(runs: RunServices): Record<RunDetailRoutes, RouteHandler> {
  const { reader } = runs;
  return {
    async listRunNodes(call) {
      const { status, hostNodeId, middleware } = call.query;
      const chainIndex = readWholeNumber(call.query, "chainIndex", undefined);
      const at = readWholeNumber(call.query, "at", undefined);
      const page = { limit: readPageLimit(call.query), cursor: readTaskCursor(call), at };
      const { items, next, context, workflow, asOf } = await readTaskPage(runs, call.identity.tenant, runIdOf(call), page);
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
      const { task, node, asOf } = await readNode(runs, call.identity.tenant, runIdOf(call), call.params["nodeId"] ?? "", at);
      const params = task?.params ?? null;
      const parameters = params === null ? undefined : (JSON.parse(params) as JsonValue);
      const range = { ...(offset !== undefined && { offset }), ...(length !== undefined && { length }) };
      const value =
        path === undefined ? {} : presentValue(readValueAt({ results: node.result, parameters }, path, node.nodeId), range);
      return {
        body: { node, ...(parameters !== undefined && { parameters }), ...value, ...(at !== undefined && { at }), asOf },
      };
    },

    async getRunLogs(call) {
      const { detail, head } = await findRun(reader, call.identity.tenant, runIdOf(call), 0);
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

    listRunBindings: async (call) => ({ body: await listRunBindings(reader, call.identity.tenant, runIdOf(call)) }),

    async listRunArtifacts(call) {
      const query = {
        after: readTaskCursor(call),
        limit: readPageLimit(call.query),
        isAll: readBoolean(call.query, "all") === true,
      };
      return { body: await listRunArtifacts(runs, call.identity.tenant, runIdOf(call), query) };
    },
  };
}

const runIdOf = ({ params }: RestCall): string => params["runId"] ?? "";

/** A task of this run; anything else would look like the end of the list. */
function readTaskCursor(call: RestCall): string | undefined {
  const { cursor } = call.query;
  if (cursor === undefined || cursor.startsWith(`${runIdOf(call)}.`)) return cursor;
  throw invalidCursor();
}
