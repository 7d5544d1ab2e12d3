// What a reader of events asks for, in its query: which events of the log pass, and what it wants besides of that which is in no log.

import { eventDataSchemas, limits } from "@astraflow/protocol";
import type { StreamEvent } from "@astraflow/services";
import { invalidRequest, type RestCall } from "../requests/rest-call.ts";
import type { VolatileFilter } from "./volatile-feed.ts";

export type EventFilter = (event: Pick<StreamEvent, "type" | "scope" | "node">) => boolean;

const knownTopics = [
  ...new Set(
    Object.keys(eventDataSchemas).flatMap((type) => type.split(".").map((_, at, all) => all.slice(0, at + 1).join("."))),
  ),
];

/** Whatever is named must fit; events that are about no run pass the filter of a client's session, as worker events do. */
export function readEventFilter(call: RestCall): EventFilter {
  const { clientSessionId, runId, nodeId, hostNodeId, middleware, workerName } = call.query;
  const chainIndex = call.number("chainIndex");
  const topics = readTopics(call.query["topics"]);
  return ({ type, scope, node }) => {
    if (topics !== null && !topics.some((topic) => type === topic || type.startsWith(`${topic}.`))) return false;
    if (clientSessionId !== undefined && scope.runId !== undefined && scope.clientSessionId !== clientSessionId) return false;
    if (runId !== undefined && scope.runId !== runId) return false;
    if (workerName !== undefined && scope.workerName !== workerName) return false;
    if (nodeId !== undefined && node?.nodeId !== nodeId) return false;
    if (chainIndex !== undefined && node?.chainIndex !== chainIndex) return false;
    if (middleware !== undefined && node?.middlewares?.includes(middleware) !== true) return false;
    return hostNodeId === undefined || node?.hostNodeId === hostNodeId;
  };
}

function readTopics(text: string | undefined): readonly string[] | null {
  if (text === undefined || text === "" || text === "*") return null;
  const topics = text.split(",").slice(0, limits.pageItemsMax);
  const unknown = topics.find((topic) => !knownTopics.includes(topic));
  if (unknown === undefined) return topics;
  throw invalidRequest("query.topics", `query.topics must be some of ${knownTopics.join(", ")}, with commas between them`);
}

/** Frames must be asked for by their topic, and are about workers and runs alone: with a filter for nodes none passes. */
export function readVolatileFilter({ query, tenant }: RestCall, filter: EventFilter): VolatileFilter {
  const { workerName, runId, frameType } = query;
  const wantsHeartbeatOf = (name: string): boolean =>
    filter({ type: "worker.heartbeat", scope: { tenant, workerName: name }, node: null });
  const wantsWireFrames = asksForWireFrames(query);
  if (frameType !== undefined && !wantsWireFrames) throw invalidRequest("query.frameType", "query.frameType needs topics=wire");
  const isAboutNodes = ["nodeId", "hostNodeId", "middleware", "chainIndex"].some((name) => query[name] !== undefined);
  return {
    heartbeat: wantsHeartbeatOf(workerName ?? "") ? wantsHeartbeatOf : null,
    frame: wantsWireFrames && !isAboutNodes ? { workerName, runId, frameType } : null,
  };
}

/** Frames are told to nobody who does not name them. */
export const asksForWireFrames = (query: RestCall["query"]): boolean =>
  readTopics(query["topics"])?.some((topic) => topic === "wire" || topic === "wire.frame") ?? false;
