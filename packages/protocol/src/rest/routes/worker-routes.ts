// The routes about workers: their enrolment, commands to them, the frames of vendors, and what an autoscaler asks.

import * as t from "../../schema/field-types.ts";
import * as bodies from "../bodies/worker-bodies.ts";
import * as enrolment from "../bodies/worker-enrolment-bodies.ts";
import { idempotencyKeyHeaderOf, pagingQuery, type Route, readFaults, route, writeFaults } from "./route.ts";

export const workerRoutes = {
  listWorkers: route("GET", "/api/v1/workers", "view", {
    summary: "Workers known to the scheduler. Filters that are named must all fit.",
    query: {
      ...pagingQuery,
      queue: { schema: t.name() },
      connected: { schema: t.boolean() },
      registered: { schema: t.boolean() },
      healthy: { schema: t.boolean() },
      packageName: { schema: t.name() },
      packageVersion: { schema: t.name() },
      packageStatus: { schema: t.name() },
      maxHeartbeatAgeSeconds: { schema: t.number({ minimum: 0, maximum: 1_000_000_000 }) },
      maxInflight: { schema: t.integer(0) },
      maxLatencyMs: { schema: t.integer(0) },
    },
    response: bodies.WorkerListSchema,
  }),
  getWorker: route("GET", "/api/v1/workers/{workerId}", "view", {
    summary: "One worker, by its instance id or its name.",
    response: bodies.WorkerDetailSchema,
  }),
  getWorkerDiagnostics: route("GET", "/api/v1/workers/{workerId}/diagnostics", "view", {
    summary: "All that is known of one worker: its session, what it holds, what it can do, its resources and its outbox.",
    response: bodies.WorkerDiagnosticsSchema,
  }),
  drainWorker: route("POST", "/api/v1/workers/{workerId}/drain", "operate", {
    summary: "Give this worker nothing new and let it finish what it holds.",
    response: bodies.CommandRefSchema,
    status: 202,
    faults: [...writeFaults, "E.NOT_FOUND"],
  }),
  undrainWorker: route("POST", "/api/v1/workers/{workerId}/undrain", "operate", {
    summary: "Give this worker work again.",
    response: bodies.CommandRefSchema,
    status: 202,
    faults: [...writeFaults, "E.NOT_FOUND"],
  }),
  kickWorker: route("POST", "/api/v1/workers/{workerId}/kick", "operate", {
    summary:
      "End this worker's session now, wherever its socket is. It keeps what it holds and may come back with a good credential.",
    request: bodies.WorkerKickRequestSchema,
    isBodyOptional: true,
    response: bodies.CommandRefSchema,
    status: 202,
    faults: [...writeFaults, "E.REQUEST.MEDIA", "E.NOT_FOUND"],
  }),
  getScaling: route("GET", "/api/v1/scaling", "view", {
    summary: "How much work waits and how much the workers can take: what an autoscaler needs to know.",
    response: bodies.ScalingSchema,
  }),
  streamExtension: route("GET", "/api/v1/extensions/{type}", "view", {
    summary:
      "Frames of this type that workers send, as server-sent events with the body ExtensionFrame, from the scheduler that holds the worker's socket. " +
      "An event named error has the body Error: E.CURSOR.EXPIRED says that frames may be missing before the next one, any other ends the stream.",
    headers: {
      "Last-Event-ID": t.optional(
        t.string({ pattern: "^[0-9]{1,16}$", description: "Go on after this event; within five minutes without a gap." }),
      ),
    },
    media: "text/event-stream",
    faults: [...readFaults, "E.SHUTTING_DOWN"],
  }),
  tellWorker: route("POST", "/api/v1/extensions/{type}", "edit", {
    summary:
      "Hand a frame of this type to a worker that is online, wherever its socket is. The same key and body give the same frame id.",
    headers: idempotencyKeyHeaderOf(
      "Not kept: it is a part of the frame's id. The same key and body again hand on a frame with the same id, by which the worker tells that it has it; another body is another frame.",
    ),
    request: bodies.ExtensionRequestSchema,
    response: bodies.ExtensionRefSchema,
    status: 202,
    faults: [...writeFaults, "E.REQUEST.MEDIA", "E.NOT_FOUND", "E.SESSION.UNKNOWN"],
  }),
  enrolWorker: route("POST", "/api/workers/register", "worker", {
    summary: "A worker registers, or updates its registration. It is listed, but gets no work until its socket is open.",
    request: enrolment.WorkerEnrolRequestSchema,
    takesUnknownFields: true,
    response: enrolment.WorkerEnrolmentSchema,
    faults: [...writeFaults, "E.REQUEST.MEDIA", "E.SESSION.DENIED"],
  }),
  signWorker: route("POST", "/api/workers/heartbeat", "worker", {
    summary: "Heartbeat of a registered worker, with its packages.",
    request: enrolment.WorkerSignRequestSchema,
    takesUnknownFields: true,
    response: enrolment.WorkerEnrolmentSchema,
    faults: [...writeFaults, "E.REQUEST.MEDIA", "E.NOT_FOUND"],
  }),
  commandWorker: route("POST", "/api/v1/workers/{workerName}/commands", "operate", {
    summary:
      "Tell a worker, by name or instance id, to drain, to install or remove a package, or to hand the remaining tasks of its runs to the worker of another queue.",
    request: enrolment.WorkerCommandSchema,
    response: bodies.CommandRefSchema,
    status: 202,
    faults: [
      ...writeFaults,
      "E.REQUEST.MEDIA",
      "E.NOT_FOUND",
      "E.SESSION.UNKNOWN",
      "E.WORKER.LOST",
      "E.CONFLICT",
      "E.PKG.PERMISSION",
    ],
  }),
  getCommand: route("GET", "/api/v1/commands/{commandId}", "view", {
    summary: "What became of a command.",
    response: enrolment.CommandDetailSchema,
  }),
} as const satisfies Record<string, Route>;
