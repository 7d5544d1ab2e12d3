// The routes about parts of a run: its nodes, one node with its values and why it waits, its logs, its bindings to workers, its artifacts.

import { type JsonValue, omitUndefined } from "@astraflow/protocol";
import {
  decodeLogCursor,
  explainPlacement,
  findRun,
  presentValue,
  type RunServices,
  readRunLog,
  readValueAt,
  runLogLimits,
  unknownCursor,
} from "@astraflow/services";
import type { RestCall, RouteHandlers } from "../requests/rest-call.ts";

export function runDetailHandlers(runs: RunServices) {
  const { reader, runReader } = runs;
  return {
    async listRunNodes(call) {
      const { status, hostNodeId, middleware } = call.query;
      const chainIndex = call.number("chainIndex");
      const at = call.number("at");
      const page = { limit: call.readPageLimit(), cursor: readTaskCursor(call), at };
      const { nodes, next, asOf } = await runReader.listNodes(call.tenant, call.param("runId"), page);
      const shown = nodes.filter(
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
      const at = call.number("at");
      const offset = call.number("offset");
      const length = call.number("length");
      const { task, node, asOf } = await runReader.readNode(call.tenant, call.param("runId"), call.param("nodeId"), at);
      const params = task?.params ?? null;
      const parameters = params === null ? undefined : (JSON.parse(params) as JsonValue);
      const readRange = (valuePath: string) =>
        presentValue(
          readValueAt({ results: node.result, parameters }, valuePath, node.nodeId),
          omitUndefined({ offset, length }),
        );
      return { body: omitUndefined({ node, parameters, ...(path !== undefined && readRange(path)), at, asOf }) };
    },

    getPlacement: async (call) => ({
      body: await explainPlacement(runs, call.tenant, call.param("runId"), call.param("nodeId")),
    }),

    async getRunLogs(call) {
      const { detail, head } = await findRun(reader, call.tenant, call.param("runId"), 0);
      const { node, channel, q: words } = call.query;
      const log = await readRunLog(reader, detail, {
        ...omitUndefined({ node, channel, words: words || undefined }),
        cursor: decodeLogCursor(call.query["cursor"]),
        from: call.number("from") ?? 0,
        limit: call.number("limit") ?? runLogLimits.linesDefault,
      });
      if (call.header("accept")?.includes("text/plain") === true)
        return {
          body: log.items.map((line) => `${line.text}\n`).join(""),
          media: "text/plain; charset=utf-8",
          headers: log.nextCursor === null ? {} : { "x-next-cursor": log.nextCursor },
        };
      return { body: { ...log, asOf: head } };
    },

    listRunBindings: async (call) => ({ body: await runReader.listBindings(call.tenant, call.param("runId")) }),

    async listRunArtifacts(call) {
      const query = { after: readTaskCursor(call), limit: call.readPageLimit(), isAll: call.boolean("all") === true };
      return { body: await runReader.listArtifacts(call.tenant, call.param("runId"), query) };
    },
  } satisfies RouteHandlers;
}

/** A task of this run; anything else would look like the end of the list. */
function readTaskCursor(call: RestCall): string | undefined {
  const { cursor } = call.query;
  if (cursor === undefined || cursor.startsWith(`${call.param("runId")}.`)) return cursor;
  throw unknownCursor();
}
