// The routes about runs: to start, read and steer them (skip, retry, replay, rebind, bulk), dead letters, why a node waits, queues.

import { limits } from "../../json/limits.ts";
import * as t from "../../schema/field-types.ts";
import * as bodies from "../bodies/run-bodies.ts";
import * as operations from "../bodies/run-operation-bodies.ts";
import * as parts from "../bodies/run-part-bodies.ts";
import {
  logCursorQuery,
  pagingQuery,
  positionPagingQuery,
  type Route,
  readFaults,
  route,
  searchQuery,
  taskPagingQuery,
  timeQuery,
  valuePathQuery,
  writeFaults,
} from "./route.ts";

const runStatusPattern = bodies.runStatuses.join("|");
const atQuery = {
  schema: t.integer(0),
  description: "As it was after this position of the tenant's log; of nodes that had not ended then without results.",
};
const snapshotFaults = ["E.NOT_FOUND", "E.CURSOR.EXPIRED", "E.REQUEST.TOO_LARGE"] as const;
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
  request: operations.RebindRequestSchema,
  response: operations.SteeredSchema,
  faults: [...operationFaults, "E.DISPATCH.UNFIT", "E.WORKER.LOST"],
} as const;

export const runRoutes = {
  startRun: route("POST", "/api/v1/runs", "edit", {
    summary: "Start a run of a workflow. After the response the run survives the loss of any process.",
    request: bodies.RunStartRequestSchema,
    response: bodies.StartedRunSchema,
    status: 202,
    also: { 200: bodies.RunPlanSchema },
    faults: [...writeFaults, "E.REQUEST.MEDIA", "E.NOT_FOUND", "E.WORKFLOW.INVALID"],
  }),
  listRuns: route("GET", "/api/v1/runs", "view", {
    summary: "Runs, newest first, without their nodes.",
    query: {
      ...pagingQuery,
      status: {
        schema: t.string({ maxLength: limits.idCharsMax, pattern: `^(${runStatusPattern})(,(${runStatusPattern}))*$` }),
        rule: `must be one or more of ${bodies.runStatuses.join(", ")}, with commas between them`,
        description: `${bodies.runStatuses.join(", ")}; several with commas between them.`,
      },
      clientId: { schema: t.id() },
      workflowId: { schema: t.id() },
      worker: {
        schema: t.id(),
        description: "Name or instance id: runs of which it has a task, or was the last to have one. Pages may come short.",
      },
      since: timeQuery("Created at or after."),
      until: timeQuery("Created before."),
      q: searchQuery("Words, or their beginnings, of its name, labels, client, id or error."),
    },
    response: bodies.RunListSchema,
  }),
  getRun: route("GET", "/api/v1/runs/{runId}", "view", {
    summary: "A run with the state of each node, including dispatches that wait for their acknowledgement; now, or as it was.",
    query: { at: atQuery },
    response: bodies.RunSchema,
    faults: [...readFaults, ...snapshotFaults],
  }),
  getRunDefinition: route("GET", "/api/v1/runs/{runId}/definition", "view", {
    summary: "The workflow as this run executes it, with the state of each node filled in.",
    response: parts.RunDefinitionSchema,
    also: { 304: null },
  }),
  cancelRun: route("POST", "/api/v1/runs/{runId}/cancel", "edit", {
    summary: "Cancel a run. One that is being cancelled is answered as it is; one that has ended is refused.",
    response: bodies.RunRefSchema,
    status: 202,
    faults: [...writeFaults, "E.NOT_FOUND", "E.RUN.TERMINAL"],
  }),
  listRunEvents: route("GET", "/api/v1/runs/{runId}/events", "view", {
    summary: "The facts of a run, oldest first; ask again with nextCursor to follow it.",
    query: positionPagingQuery,
    response: bodies.RunEventListSchema,
    faults: [...readFaults, "E.NOT_FOUND", "E.CURSOR.EXPIRED"],
  }),
  listRunNodes: route("GET", "/api/v1/runs/{runId}/nodes", "view", {
    summary:
      "Nodes of a run that were reached, those inside containers and chains too, page by page. A page with filters may be short, or empty, although more follows.",
    query: {
      ...taskPagingQuery,
      at: atQuery,
      status: { schema: bodies.NodeStatusSchema },
      hostNodeId: { schema: t.id(), description: "Only middlewares of this host." },
      chainIndex: { schema: t.integer(0), description: "Only middlewares at this place of their chain, 0 for the outermost." },
      middleware: { schema: t.id(), description: "Only hosts that have this middleware in their chain." },
    },
    response: parts.RunNodeListSchema,
    faults: [...readFaults, ...snapshotFaults],
  }),
  getRunNode: route("GET", "/api/v1/runs/{runId}/nodes/{nodeId}", "view", {
    summary: "One node of a run with its parameters; with a path, the value there, whole or a stretch of it.",
    query: {
      path: valuePathQuery,
      offset: {
        schema: t.integer(0),
        default: 0,
        description: "First byte, of the value's JSON text in UTF-8. A character belongs to the stretch in which it begins.",
      },
      length: { schema: t.between(0, 1024 * 1024), description: "Bytes." },
      at: atQuery,
    },
    response: parts.RunNodeSchema,
    faults: [...readFaults, ...snapshotFaults],
  }),
  getRunLogs: route("GET", "/api/v1/runs/{runId}/logs", "view", {
    summary: "What the nodes printed, as lines; plain text for those who accept text/plain.",
    query: {
      node: { schema: t.id(), description: "Node id, or task id where a node runs more than once." },
      channel: { schema: t.name() },
      from: { schema: t.integer(0), default: 0, description: "First line within each attempt." },
      q: searchQuery("Only lines that contain this text."),
      limit: { schema: t.between(1, 1_000), default: 200 },
      cursor: logCursorQuery,
    },
    response: parts.RunLogSchema,
  }),
  listRunBindings: route("GET", "/api/v1/runs/{runId}/bindings", "view", {
    summary: "Which worker last did work of which package for this run.",
    response: parts.RunBindingListSchema,
  }),
  listRunArtifacts: route("GET", "/api/v1/runs/{runId}/artifacts", "view", {
    summary:
      "What the nodes of a run left with their workers and are still available, page by page; what one node left is on one page.",
    query: {
      ...taskPagingQuery,
      all: { schema: t.boolean(), default: false, description: "Also what has expired or was removed." },
    },
    response: parts.RunArtifactListSchema,
  }),
  getRunLedger: route("GET", "/api/v1/runs/{runId}/ledger", "view", {
    summary: "What was given to workers in a run, what came of it and what was refused, counted from the log.",
    response: parts.RunLedgerSchema,
    faults: [...readFaults, ...snapshotFaults],
  }),
  getLedger: route("GET", "/api/v1/ledger", "view", {
    summary:
      "The same over a stretch of the tenant's log. Figures of stretches that follow each other may be added, but for lost and twice, which see what lies in one stretch.",
    query: {
      after: { schema: t.integer(0), default: 0, description: "Position behind which to begin." },
      limit: { schema: t.between(1, 10_000), default: 10_000, description: "Facts to look at." },
    },
    response: parts.LedgerSchema,
    faults: [...readFaults, "E.CURSOR.EXPIRED"],
  }),
  retryRun: route("POST", "/api/v1/runs/{runId}/retry", "edit", {
    ...operation,
    summary: "Start a new run that reuses what succeeded in this one, which must have ended.",
    request: operations.RetryRequestSchema,
    response: bodies.RunRefSchema,
    also: { 200: bodies.RunPlanSchema },
  }),
  replayRun: route("POST", "/api/v1/runs/{runId}/replay", "edit", {
    ...operation,
    summary: "Start a new run from a node on, with the same or another version of its workflow.",
    request: operations.ReplayRequestSchema,
    response: bodies.RunRefSchema,
    also: { 200: bodies.RunPlanSchema },
  }),
  rebindRun: route("POST", "/api/v1/runs/{runId}/rebind", "operate", rebind),
  rebindSchedulerRun: route("POST", "/api/v1/scheduler/runs/{runId}/rebind", "operate", rebind),
  skipNode: route("POST", "/api/v1/runs/{runId}/nodes/{nodeId}/skip", "edit", {
    ...operation,
    summary: "Skip a node: its successors continue without its results. A running node is stopped.",
    request: operations.SteerRequestSchema,
    response: operations.SteeredSchema,
  }),
  retryNode: route("POST", "/api/v1/runs/{runId}/nodes/{nodeId}/retry", "edit", {
    ...operation,
    summary:
      "Retry a node now: its backoff is cut short, or its attempt is withdrawn. If the run has ended, a new run starts from this node.",
    request: operations.SteerRequestSchema,
    response: operations.SteeredSchema,
  }),
  getPlacement: route("GET", "/api/v1/runs/{runId}/nodes/{nodeId}/placement", "view", {
    summary: "Why a node waits: its own reasons, and for each worker the first rule by which it does not take it.",
    response: operations.PlacementSchema,
  }),
  listDeadLetters: route("GET", "/api/v1/dead-letters", "view", {
    summary: "Tasks that failed for good, newest first.",
    query: {
      ...pagingQuery,
      status: { schema: t.oneOf(["open", "requeued", "dismissed"]), description: "open by default." },
      q: searchQuery("Words of the workflow, node, code or message."),
      runId: { schema: t.id() },
    },
    response: operations.DeadLetterListSchema,
  }),
  requeueDeadLetter: route("POST", "/api/v1/dead-letters/{taskId}/requeue", "edit", {
    ...operation,
    summary: "Start a new run from the node that failed.",
    request: operations.SteerRequestSchema,
    response: bodies.RunRefSchema,
    faults: letterFaults,
  }),
  dismissDeadLetter: route("POST", "/api/v1/dead-letters/{taskId}/dismiss", "edit", {
    ...operation,
    summary: "Take a dead letter off the list; nothing is run.",
    request: operations.SteerRequestSchema,
    response: operations.DeadLetterListSchema.properties.items.items,
    status: 200,
    faults: letterFaults,
  }),
  changeRuns: route("POST", "/api/v1/runs/bulk", "edit", {
    status: 202,
    faults: operationFaults,
    summary:
      "Cancel, retry, replay or dismiss every run that matches. The work continues after the response, and after a restart.",
    request: operations.BulkRequestSchema,
    response: operations.BulkSchema,
    also: { 200: operations.BulkSchema },
  }),
  getBulk: route("GET", "/api/v1/bulk/{bulkId}", "view", {
    summary: "How far a change of many runs has come.",
    response: operations.BulkSchema,
  }),
  listQueues: route("GET", "/api/v1/queues", "view", {
    summary: "What waits for which kind of worker, for how long, and who could take it.",
    response: operations.QueueListSchema,
  }),
  getKedaMetric: route("GET", "/api/v1/scaling/keda", "view", {
    summary: "One number for KEDA's metrics-api scaler: slots wanted, of a pool or a package where named.",
    query: { pool: { schema: t.name() }, package: { schema: t.name() } },
    response: operations.KedaMetricSchema,
  }),
} as const satisfies Record<string, Route>;
