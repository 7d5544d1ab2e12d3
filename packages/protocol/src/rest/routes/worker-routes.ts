// The routes about workers, the frames of vendors, and what an autoscaler asks.

import Type from "typebox";
import { integer, nameString, optional } from "../../schema/field-types.ts";
import {
  CommandRefSchema,
  ExtensionRefSchema,
  ExtensionRequestSchema,
  ScalingSchema,
  WorkerDetailSchema,
  WorkerDiagnosticsSchema,
  WorkerKickRequestSchema,
  WorkerListSchema,
} from "../bodies/worker-bodies.ts";
import { idempotencyKeyHeader, pagingQuery, type Route, readFaults, route, workerIdParam, writeFaults } from "./route.ts";

const extensionTypeParam = {
  type: Type.String({
    pattern: "^ext\\.vendor\\.(?!astraflow\\.)[a-z0-9][a-z0-9._-]{0,100}$",
    description: "Type of the frames; ext.vendor.astraflow.* is not for callers.",
  }),
};
export const workerRoutes = {
  listWorkers: route("GET", "/api/v1/workers", {
    summary: "Workers known to the scheduler. Filters that are named must all fit.",
    query: {
      ...pagingQuery,
      queue: { schema: nameString() },
      connected: { schema: Type.Boolean() },
      registered: { schema: Type.Boolean() },
      healthy: { schema: Type.Boolean() },
      packageName: { schema: nameString() },
      packageVersion: { schema: nameString() },
      packageStatus: { schema: nameString() },
      maxHeartbeatAgeSeconds: { schema: Type.Number({ minimum: 0 }) },
      maxInflight: { schema: integer(0) },
      maxLatencyMs: { schema: integer(0) },
    },
    response: WorkerListSchema,
    faults: readFaults,
    grant: "view",
  }),
  getWorker: route("GET", "/api/v1/workers/{workerId}", {
    summary: "One worker, by its instance id or its name.",
    params: workerIdParam,
    response: WorkerDetailSchema,
    faults: [...readFaults, "E.NOT_FOUND"],
    grant: "view",
  }),
  getWorkerDiagnostics: route("GET", "/api/v1/workers/{workerId}/diagnostics", {
    summary: "All that is known of one worker: its session, what it holds, what it can do, its resources and its outbox.",
    params: workerIdParam,
    response: WorkerDiagnosticsSchema,
    faults: [...readFaults, "E.NOT_FOUND"],
    grant: "view",
  }),
  drainWorker: route("POST", "/api/v1/workers/{workerId}/drain", {
    summary: "Give this worker nothing new and let it finish what it holds.",
    params: workerIdParam,
    headers: idempotencyKeyHeader,
    response: CommandRefSchema,
    status: 202,
    faults: [...writeFaults, "E.NOT_FOUND"],
    grant: "operate",
  }),
  undrainWorker: route("POST", "/api/v1/workers/{workerId}/undrain", {
    summary: "Give this worker work again.",
    params: workerIdParam,
    headers: idempotencyKeyHeader,
    response: CommandRefSchema,
    status: 202,
    faults: [...writeFaults, "E.NOT_FOUND"],
    grant: "operate",
  }),
  kickWorker: route("POST", "/api/v1/workers/{workerId}/kick", {
    summary:
      "End this worker's session now, wherever its socket is. It keeps what it holds and may come back with a good credential.",
    params: workerIdParam,
    headers: idempotencyKeyHeader,
    request: WorkerKickRequestSchema,
    isBodyOptional: true,
    response: CommandRefSchema,
    status: 202,
    faults: [...writeFaults, "E.REQUEST.MEDIA", "E.NOT_FOUND"],
    grant: "operate",
  }),
  getScaling: route("GET", "/api/v1/scaling", {
    summary: "How much work waits and how much the workers can take: what an autoscaler needs to know.",
    response: ScalingSchema,
    faults: readFaults,
    grant: "view",
  }),
  streamExtension: route("GET", "/api/v1/extensions/{type}", {
    summary:
      "Frames of this type that workers send, as server-sent events with the body ExtensionFrame, from the scheduler that holds the worker's socket. " +
      "An event named error has the body Error: E.CURSOR.EXPIRED says that frames may be missing before the next one, any other ends the stream.",
    params: extensionTypeParam,
    headers: {
      "Last-Event-ID": optional(
        Type.String({ pattern: "^[0-9]{1,16}$", description: "Go on after this event; within five minutes without a gap." }),
      ),
    },
    media: "text/event-stream",
    faults: [...readFaults, "E.SHUTTING_DOWN"],
    grant: "view",
  }),
  tellWorker: route("POST", "/api/v1/extensions/{type}", {
    summary:
      "Hand a frame of this type to a worker that is online, wherever its socket is. The same key and body give the same frame id.",
    params: extensionTypeParam,
    headers: idempotencyKeyHeader,
    request: ExtensionRequestSchema,
    response: ExtensionRefSchema,
    status: 202,
    faults: [...writeFaults, "E.REQUEST.MEDIA", "E.NOT_FOUND", "E.SESSION.UNKNOWN"],
    grant: "edit",
  }),
} as const satisfies Record<string, Route>;
