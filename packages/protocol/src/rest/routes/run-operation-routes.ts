// The routes that steer runs: skip, retry, replay, rebind, bulk; dead letters; why a node waits; queues.

import * as t from "../../schema/field-types.ts";
import { RunPlanSchema, RunRefSchema } from "../bodies/run-bodies.ts";
import * as bodies from "../bodies/run-operation-bodies.ts";
import { pagingQuery, type Route, route, writeFaults } from "./route.ts";

const operationFaults = [
  ...writeFaults,
  "E.REQUEST.MEDIA",
  "E.NOT_FOUND",
  "E.RUN.ACTIVE",
  "E.RUN.TERMINAL",
  "E.TASK.ENDED",
  "E.TASK.MOVE_REFUSED",
  "E.WORKFLOW.INVALID",
] as const;
const letterFaults = [...operationFaults, "E.CONFLICT"] as const;
const operation = { status: 202, faults: operationFaults, isBodyOptional: true } as const;
const rebind = {
  ...operation,
  summary: "Give what is open of a run, or of one node, to another worker. Answers what was sent to whom.",
  request: bodies.RebindRequestSchema,
  response: bodies.SteeredSchema,
  faults: [...operationFaults, "E.DISPATCH.UNFIT", "E.WORKER.LOST"],
} as const;

export const runOperationRoutes = {
  retryRun: route("POST", "/api/v1/runs/{runId}/retry", "edit", {
    ...operation,
    summary: "Start a new run that reuses what succeeded in this one, which must have ended.",
    request: bodies.RetryRequestSchema,
    response: RunRefSchema,
    also: { 200: RunPlanSchema },
  }),
  replayRun: route("POST", "/api/v1/runs/{runId}/replay", "edit", {
    ...operation,
    summary: "Start a new run from a node on, with the same or another version of its workflow.",
    request: bodies.ReplayRequestSchema,
    response: RunRefSchema,
    also: { 200: RunPlanSchema },
  }),
  rebindRun: route("POST", "/api/v1/runs/{runId}/rebind", "operate", rebind),
  rebindSchedulerRun: route("POST", "/api/v1/scheduler/runs/{runId}/rebind", "operate", rebind),
  skipNode: route("POST", "/api/v1/runs/{runId}/nodes/{nodeId}/skip", "edit", {
    ...operation,
    summary: "Skip a node: its successors continue without its results. A running node is stopped.",
    request: bodies.SteerRequestSchema,
    response: bodies.SteeredSchema,
  }),
  retryNode: route("POST", "/api/v1/runs/{runId}/nodes/{nodeId}/retry", "edit", {
    ...operation,
    summary:
      "Retry a node now: its backoff is cut short, or its attempt is withdrawn. If the run has ended, a new run starts from this node.",
    request: bodies.SteerRequestSchema,
    response: bodies.SteeredSchema,
  }),
  getPlacement: route("GET", "/api/v1/runs/{runId}/nodes/{nodeId}/placement", "view", {
    summary: "Why a node waits: its own reasons, and for each worker the first rule by which it does not take it.",
    response: bodies.PlacementSchema,
  }),
  listDeadLetters: route("GET", "/api/v1/dead-letters", "view", {
    summary: "Tasks that failed for good, newest first.",
    query: {
      ...pagingQuery,
      status: { schema: t.oneOf(["open", "requeued", "dismissed"]), description: "open by default." },
      q: { schema: t.text(), description: "Words of the workflow, node, code or message." },
      runId: { schema: t.id() },
    },
    response: bodies.DeadLetterListSchema,
  }),
  requeueDeadLetter: route("POST", "/api/v1/dead-letters/{taskId}/requeue", "edit", {
    ...operation,
    summary: "Start a new run from the node that failed.",
    request: bodies.SteerRequestSchema,
    response: RunRefSchema,
    faults: letterFaults,
  }),
  dismissDeadLetter: route("POST", "/api/v1/dead-letters/{taskId}/dismiss", "edit", {
    ...operation,
    summary: "Take a dead letter off the list; nothing is run.",
    request: bodies.SteerRequestSchema,
    response: bodies.DeadLetterListSchema.properties.items.items,
    status: 200,
    faults: letterFaults,
  }),
  changeRuns: route("POST", "/api/v1/runs/bulk", "edit", {
    status: 202,
    faults: operationFaults,
    summary:
      "Cancel, retry, replay or dismiss every run that matches. The work continues after the response, and after a restart.",
    request: bodies.BulkRequestSchema,
    response: bodies.BulkSchema,
    also: { 200: bodies.BulkSchema },
  }),
  getBulk: route("GET", "/api/v1/bulk/{bulkId}", "view", {
    summary: "How far a change of many runs has come.",
    response: bodies.BulkSchema,
  }),
  listQueues: route("GET", "/api/v1/queues", "view", {
    summary: "What waits for which kind of worker, for how long, and who could take it.",
    response: bodies.QueueListSchema,
  }),
  getKedaMetric: route("GET", "/api/v1/scaling/keda", "view", {
    summary: "One number for KEDA's metrics-api scaler: slots wanted, of a pool or a package where named.",
    query: { pool: { schema: t.name() }, package: { schema: t.name() } },
    response: bodies.KedaMetricSchema,
  }),
} as const satisfies Record<string, Route>;
