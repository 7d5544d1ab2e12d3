// The routes that steer runs: skip, retry, replay, rebind, bulk; dead letters; why a node waits; queues.

import { idString, nameString, oneOf, textString } from "../../schema/field-types.ts";
import { RunPlanSchema, RunRefSchema } from "../bodies/run-bodies.ts";
import {
  BulkRequestSchema,
  BulkSchema,
  DeadLetterListSchema,
  KedaMetricSchema,
  PlacementSchema,
  QueueListSchema,
  RebindRequestSchema,
  ReplayRequestSchema,
  RetryRequestSchema,
  SteeredSchema,
  SteerRequestSchema,
} from "../bodies/run-operation-bodies.ts";
import {
  idempotencyKeyHeader,
  nodeIdParam,
  pagingQuery,
  type Route,
  readFaults,
  route,
  runIdParam,
  writeFaults,
} from "./route.ts";

const taskIdParam = { taskId: idString() };

const optionalBody = { isBodyOptional: true } as const;
const operationDefaults = {
  headers: idempotencyKeyHeader,
  status: 202,
  faults: [
    ...writeFaults,
    "E.REQUEST.MEDIA",
    "E.NOT_FOUND",
    "E.RUN.ACTIVE",
    "E.RUN.TERMINAL",
    "E.TASK.ENDED",
    "E.TASK.MOVE_REFUSED",
    "E.WORKFLOW.INVALID",
  ],
  grant: "edit",
} as const;

const rebindRoute = {
  ...operationDefaults,
  ...optionalBody,
  method: "POST",
  summary: "Give what is open of a run, or of one node, to another worker. Answers what was sent to whom.",
  params: runIdParam,
  request: RebindRequestSchema,
  response: SteeredSchema,
  faults: [...operationDefaults.faults, "E.DISPATCH.UNFIT", "E.WORKER.LOST"],
  grant: "operate",
} as const;

export const runOperationRoutes = {
  retryRun: {
    ...operationDefaults,
    ...optionalBody,
    method: "POST",
    path: "/api/v1/runs/{runId}/retry",
    summary: "Start a new run that reuses what succeeded in this one, which must have ended.",
    params: runIdParam,
    request: RetryRequestSchema,
    response: RunRefSchema,
    also: { 200: RunPlanSchema },
  },
  replayRun: {
    ...operationDefaults,
    ...optionalBody,
    method: "POST",
    path: "/api/v1/runs/{runId}/replay",
    summary: "Start a new run from a node on, with the same or another version of its workflow.",
    params: runIdParam,
    request: ReplayRequestSchema,
    response: RunRefSchema,
    also: { 200: RunPlanSchema },
  },
  rebindRun: { ...rebindRoute, path: "/api/v1/runs/{runId}/rebind" },
  rebindSchedulerRun: { ...rebindRoute, path: "/api/v1/scheduler/runs/{runId}/rebind" },
  skipNode: {
    ...operationDefaults,
    ...optionalBody,
    method: "POST",
    path: "/api/v1/runs/{runId}/nodes/{nodeId}/skip",
    summary: "Skip a node: its successors continue without its results. A running node is stopped.",
    params: nodeIdParam,
    request: SteerRequestSchema,
    response: SteeredSchema,
  },
  retryNode: {
    ...operationDefaults,
    ...optionalBody,
    method: "POST",
    path: "/api/v1/runs/{runId}/nodes/{nodeId}/retry",
    summary:
      "Retry a node now: its backoff is cut short, or its attempt is withdrawn. If the run has ended, a new run starts from this node.",
    params: nodeIdParam,
    request: SteerRequestSchema,
    response: SteeredSchema,
  },
  getPlacement: route("GET", "/api/v1/runs/{runId}/nodes/{nodeId}/placement", {
    summary: "Why a node waits: its own reasons, and for each worker the first rule by which it does not take it.",
    params: nodeIdParam,
    response: PlacementSchema,
    faults: [...readFaults, "E.NOT_FOUND"],
    grant: "view",
  }),
  listDeadLetters: route("GET", "/api/v1/dead-letters", {
    summary: "Tasks that failed for good, newest first.",
    query: {
      ...pagingQuery,
      status: { schema: oneOf(["open", "requeued", "dismissed"]), description: "open by default." },
      q: { schema: textString(), description: "Words of the workflow, node, code or message." },
      runId: { schema: idString() },
    },
    response: DeadLetterListSchema,
    faults: readFaults,
    grant: "view",
  }),
  requeueDeadLetter: {
    ...operationDefaults,
    ...optionalBody,
    method: "POST",
    path: "/api/v1/dead-letters/{taskId}/requeue",
    summary: "Start a new run from the node that failed.",
    params: taskIdParam,
    request: SteerRequestSchema,
    response: RunRefSchema,
    faults: [...operationDefaults.faults, "E.CONFLICT"],
  },
  dismissDeadLetter: {
    ...operationDefaults,
    ...optionalBody,
    method: "POST",
    path: "/api/v1/dead-letters/{taskId}/dismiss",
    summary: "Take a dead letter off the list; nothing is run.",
    params: taskIdParam,
    request: SteerRequestSchema,
    response: DeadLetterListSchema.properties.items.items,
    status: 200,
    faults: [...operationDefaults.faults, "E.CONFLICT"],
  },
  changeRuns: {
    ...operationDefaults,
    method: "POST",
    path: "/api/v1/runs/bulk",
    summary:
      "Cancel, retry, replay or dismiss every run that matches. The work continues after the response, and after a restart.",
    request: BulkRequestSchema,
    response: BulkSchema,
    also: { 200: BulkSchema },
  },
  getBulk: route("GET", "/api/v1/bulk/{bulkId}", {
    summary: "How far a change of many runs has come.",
    params: { bulkId: idString() },
    response: BulkSchema,
    faults: [...readFaults, "E.NOT_FOUND"],
    grant: "view",
  }),
  listQueues: route("GET", "/api/v1/queues", {
    summary: "What waits for which kind of worker, for how long, and who could take it.",
    response: QueueListSchema,
    faults: readFaults,
    grant: "view",
  }),
  getKedaMetric: route("GET", "/api/v1/scaling/keda", {
    summary: "One number for KEDA's metrics-api scaler: slots wanted, of a pool or a package where named.",
    query: { pool: { schema: nameString() }, package: { schema: nameString() } },
    response: KedaMetricSchema,
    faults: readFaults,
    grant: "view",
  }),
} as const satisfies Record<string, Route>;
