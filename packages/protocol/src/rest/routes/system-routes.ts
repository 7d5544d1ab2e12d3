// The routes about the scheduler as a whole: its stream of events, its own health, metrics and documentation.

import { limits } from "../../json/limits.ts";
import * as t from "../../schema/field-types.ts";
import { HealthSchema } from "../bodies/run-bodies.ts";
import { authFaults, type Route, readFaults, route } from "./route.ts";

export const eventRoutes = {
  streamEvents: route("GET", "/api/v1/events", "view", {
    summary:
      "What happens to runs, nodes, workers and commands, as server-sent events with the body Event. An event named error has the body Error: " +
      "E.CURSOR.EXPIRED says that events are missing before the next one, any other ends the stream. Events without an id line are not in the " +
      "log: every heartbeat of a worker, and, for callers with the permission operate who request the topic wire, the frames of workers at this scheduler.",
    query: {
      clientSessionId: {
        schema: t.id(),
        description:
          "Only runs that were started with this clientId, and events that belong to no run. Without a cursor the stream begins with snapshots of " +
          "the open and just-ended ones.",
      },
      runId: { schema: t.id() },
      nodeId: { schema: t.id() },
      hostNodeId: { schema: t.id(), description: "Only middlewares of this host." },
      chainIndex: { schema: t.integer(0), description: "Only middlewares at this place of their chain, 0 for the outermost." },
      middleware: { schema: t.id(), description: "Only hosts that have this middleware in their chain." },
      workerName: { schema: t.name() },
      topics: {
        schema: t.line(limits.idCharsMax),
        description:
          "Types or prefixes of types, separated by commas: run, node, node.result, worker.heartbeat. Default: all except wire.",
      },
      frameType: {
        schema: t.id(),
        description: "With the topic wire: only frames of this type, or whose type begins so: biz.exec, control.ack.",
      },
      after: { schema: t.id(), description: "As Last-Event-ID: the asOf of a page, or the id of an event." },
    },
    headers: {
      "Last-Event-ID": t.optional(
        t.string({ pattern: "^[0-9]{1,16}([.][0-9]{1,6})?$", description: "Resume after this event without gaps." }),
      ),
    },
    media: "text/event-stream",
    faults: [...readFaults, "E.SHUTTING_DOWN", "E.STORE.BUSY"],
  }),
} as const satisfies Record<string, Route>;

export const systemRoutes = {
  getOpenapi: route("GET", "/api/v1/openapi.json", "open", {
    summary: "This document.",
    response: t.openObject(),
    faults: ["E.REQUEST.INVALID", "E.INTERNAL"],
  }),
  getHealth: route("GET", "/healthz", "open", {
    summary: "The process is alive.",
    response: HealthSchema,
    faults: ["E.REQUEST.INVALID", "E.INTERNAL"],
  }),
  getReadiness: route("GET", "/readyz", "open", {
    summary: "The process can take work: the store answers and nothing is shutting down.",
    response: HealthSchema,
    faults: ["E.REQUEST.INVALID", "E.INTERNAL", "E.STORE.BUSY", "E.SHUTTING_DOWN"],
  }),
  getMetrics: route("GET", "/metrics", "metrics", {
    summary:
      "Metrics in the Prometheus text form. With the grant admin instead of metrics: the series of the caller's tenant only.",
    media: "text/plain; version=0.0.4",
    faults: [...authFaults, "E.REQUEST.INVALID"],
  }),
} as const satisfies Record<string, Route>;
