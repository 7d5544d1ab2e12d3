// The REST routes that exist now, as data: the door serves this table, the OpenAPI document is written from it.
// A route that is not here does not exist; its handler lives in the REST door under the same operation name.

import Type, { type TSchema } from "typebox";
import type { FaultCode } from "./fault-codes.ts";
import { limits } from "./limits.ts";
import { HealthSchema, RunEventListSchema, RunListSchema, RunRefSchema, RunSchema, RunStartRequestSchema } from "./rest.ts";
import {
  CommandRefSchema,
  ExtensionRefSchema,
  ExtensionRequestSchema,
  ScalingSchema,
  WorkerDetailSchema,
  WorkerDiagnosticsSchema,
  WorkerKickRequestSchema,
  WorkerListSchema,
} from "./rest-workers.ts";
import { bag, id, int, optional } from "./words.ts";
import { WorkflowSchema } from "./workflow.ts";

export interface Route {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** With {name} for a parameter. */
  readonly path: string;
  readonly summary: string;
  readonly params?: Readonly<Record<string, TSchema>>;
  readonly query?: Readonly<Record<string, QueryParameter>>;
  readonly headers?: Readonly<Record<string, TSchema>>;
  readonly request?: TSchema;
  readonly isBodyOptional?: true;
  /** Absent: the body is not JSON (`media` says what it is). */
  readonly response?: TSchema;
  readonly media?: string;
  readonly status: number;
  readonly faults: readonly FaultCode[];
  /** Open to callers without a token. */
  readonly isOpen?: true;
}
export interface QueryParameter {
  readonly schema: TSchema;
  readonly default?: string | number | boolean;
  readonly description?: string;
}

const runId = { runId: id() };
const workerId = { workerId: id("Instance id of the worker.") };
const extensionType = {
  type: Type.String({
    pattern: "^ext\\.vendor\\.(?!astraflow\\.)[a-z0-9][a-z0-9._-]{0,100}$",
    description: "Type of the frames; ext.vendor.astraflow.* is not for callers.",
  }),
};
const paging = {
  limit: { schema: int(1, limits.pageItemsMax), default: limits.pageItemsDefault },
  cursor: { schema: Type.String({ maxLength: 1_024 }), description: "nextCursor of the page before." },
} as const satisfies Record<string, QueryParameter>;
const idempotencyKey = {
  "Idempotency-Key": optional(
    Type.String({
      minLength: 1,
      maxLength: limits.idempotencyKeyCharsMax,
      description: "The same key and body again give the same answer and no second effect.",
    }),
  ),
};

/** What any route that asks for a token may answer. */
const guarded = ["E.AUTH.MISSING_TOKEN", "E.AUTH.INVALID_TOKEN", "E.AUTH.FORBIDDEN", "E.INTERNAL"] as const;
const reading = [...guarded, "E.REQUEST.INVALID", "E.OVERLOADED"] as const;
const writing = [...reading, "E.REQUEST.TOO_LARGE", "E.IDEMPOTENCY.MISMATCH", "E.STORE.BUSY", "E.SHUTTING_DOWN"] as const;

export const routes = {
  startRun: {
    method: "POST",
    path: "/api/v1/runs",
    summary: "Start a run of a workflow. Once answered, the run survives the death of any part.",
    headers: idempotencyKey,
    request: RunStartRequestSchema,
    response: RunRefSchema,
    status: 202,
    faults: [...writing, "E.REQUEST.MEDIA", "E.WORKFLOW.INVALID", "E.WORKFLOW.UNSUPPORTED"],
  },
  listRuns: {
    method: "GET",
    path: "/api/v1/runs",
    summary: "Runs, newest first, without their nodes.",
    query: { ...paging, status: { schema: RunSchema.properties.status }, clientId: { schema: id() } },
    response: RunListSchema,
    status: 200,
    faults: reading,
  },
  getRun: {
    method: "GET",
    path: "/api/v1/runs/{runId}",
    summary: "A run with the state of each node, including dispatches that wait for their acknowledgement.",
    params: runId,
    response: RunSchema,
    status: 200,
    faults: [...reading, "E.NOT_FOUND"],
  },
  getRunDefinition: {
    method: "GET",
    path: "/api/v1/runs/{runId}/definition",
    summary: "The workflow as this run executes it, with the state of each node filled in.",
    params: runId,
    response: WorkflowSchema,
    status: 200,
    faults: [...reading, "E.NOT_FOUND"],
  },
  cancelRun: {
    method: "POST",
    path: "/api/v1/runs/{runId}/cancel",
    summary: "Cancel a run. A run that has ended is answered as it is.",
    params: runId,
    headers: idempotencyKey,
    response: RunRefSchema,
    status: 202,
    faults: [...writing, "E.NOT_FOUND", "E.RUN.TERMINAL"],
  },
  listRunEvents: {
    method: "GET",
    path: "/api/v1/runs/{runId}/events",
    summary: "The facts of a run, oldest first; ask again with nextCursor to follow it.",
    params: runId,
    query: paging,
    response: RunEventListSchema,
    status: 200,
    faults: [...reading, "E.NOT_FOUND", "E.CURSOR.EXPIRED"],
  },
  listWorkers: {
    method: "GET",
    path: "/api/v1/workers",
    summary: "Workers known to the scheduler.",
    query: paging,
    response: WorkerListSchema,
    status: 200,
    faults: reading,
  },
  getWorker: {
    method: "GET",
    path: "/api/v1/workers/{workerId}",
    summary: "One worker.",
    params: workerId,
    response: WorkerDetailSchema,
    status: 200,
    faults: [...reading, "E.NOT_FOUND"],
  },
  getWorkerDiagnostics: {
    method: "GET",
    path: "/api/v1/workers/{workerId}/diagnostics",
    summary: "All that is known of one worker: its session, what it holds, what it can do, its resources and its outbox.",
    params: workerId,
    response: WorkerDiagnosticsSchema,
    status: 200,
    faults: [...reading, "E.NOT_FOUND"],
  },
  drainWorker: {
    method: "POST",
    path: "/api/v1/workers/{workerId}/drain",
    summary: "Give this worker nothing new and let it finish what it holds.",
    params: workerId,
    headers: idempotencyKey,
    response: CommandRefSchema,
    status: 202,
    faults: [...writing, "E.NOT_FOUND"],
  },
  undrainWorker: {
    method: "POST",
    path: "/api/v1/workers/{workerId}/undrain",
    summary: "Give this worker work again.",
    params: workerId,
    headers: idempotencyKey,
    response: CommandRefSchema,
    status: 202,
    faults: [...writing, "E.NOT_FOUND"],
  },
  kickWorker: {
    method: "POST",
    path: "/api/v1/workers/{workerId}/kick",
    summary:
      "End this worker's session now, wherever its socket is. It keeps what it holds and may come back with a good credential.",
    params: workerId,
    headers: idempotencyKey,
    request: WorkerKickRequestSchema,
    isBodyOptional: true,
    response: CommandRefSchema,
    status: 202,
    faults: [...writing, "E.REQUEST.MEDIA", "E.NOT_FOUND"],
  },
  getScaling: {
    method: "GET",
    path: "/api/v1/scaling",
    summary: "How much work waits and how much the workers can take: what an autoscaler needs to know.",
    response: ScalingSchema,
    status: 200,
    faults: reading,
  },
  streamExtension: {
    method: "GET",
    path: "/api/v1/extensions/{type}",
    summary:
      "Frames of this type that workers send, as server-sent events with the body ExtensionFrame, from the scheduler that holds the worker's socket. " +
      "An event named error has the body Error: E.CURSOR.EXPIRED says that frames may be missing before the next one, any other ends the stream.",
    params: extensionType,
    headers: {
      "Last-Event-ID": optional(
        Type.String({ pattern: "^[0-9]{1,16}$", description: "Go on after this event; within five minutes without a gap." }),
      ),
    },
    media: "text/event-stream",
    status: 200,
    faults: [...reading, "E.SHUTTING_DOWN"],
  },
  tellWorker: {
    method: "POST",
    path: "/api/v1/extensions/{type}",
    summary:
      "Hand a frame of this type to a worker that is online, wherever its socket is. The same key and body give the same frame id.",
    params: extensionType,
    headers: idempotencyKey,
    request: ExtensionRequestSchema,
    response: ExtensionRefSchema,
    status: 202,
    faults: [...writing, "E.REQUEST.MEDIA", "E.NOT_FOUND", "E.SESSION.UNKNOWN"],
  },
  getOpenapi: {
    method: "GET",
    path: "/api/v1/openapi.json",
    summary: "This document.",
    response: bag(),
    status: 200,
    faults: ["E.INTERNAL"],
    isOpen: true,
  },
  getHealth: {
    method: "GET",
    path: "/healthz",
    summary: "The process is alive.",
    response: HealthSchema,
    status: 200,
    faults: ["E.INTERNAL"],
    isOpen: true,
  },
  getReadiness: {
    method: "GET",
    path: "/readyz",
    summary: "The process can take work: the store answers and nothing is shutting down.",
    response: HealthSchema,
    status: 200,
    faults: ["E.INTERNAL", "E.STORE.BUSY", "E.SHUTTING_DOWN"],
    isOpen: true,
  },
  getMetrics: {
    method: "GET",
    path: "/metrics",
    summary: "Metrics in the Prometheus text form.",
    media: "text/plain; version=0.0.4",
    status: 200,
    faults: [...guarded],
  },
} as const satisfies Record<string, Route>;

export type RouteName = keyof typeof routes;
