// The routes about runs.

import Type from "typebox";
import { idString, instantString, integer, nameString, textString } from "../../schema/field-types.ts";
import {
  NodeStatusSchema,
  RunEventListSchema,
  RunListSchema,
  RunPlanSchema,
  RunRefSchema,
  RunSchema,
  RunStartRequestSchema,
} from "../bodies/run-bodies.ts";
import {
  LedgerSchema,
  RunArtifactListSchema,
  RunBindingListSchema,
  RunDefinitionSchema,
  RunLedgerSchema,
  RunLogSchema,
  RunNodeListSchema,
  RunNodeSchema,
} from "../bodies/run-part-bodies.ts";
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

/** A run, or a part of it, as it was. */
const atQuery = {
  schema: integer(0),
  description: "As it was after this position of the tenant's log; of nodes that had not ended then without results.",
};
const snapshotFaults = ["E.NOT_FOUND", "E.CURSOR.EXPIRED", "E.REQUEST.TOO_LARGE"] as const;

export const runRoutes = {
  startRun: route("POST", "/api/v1/runs", {
    summary: "Start a run of a workflow. After the response the run survives the loss of any process.",
    headers: idempotencyKeyHeader,
    request: RunStartRequestSchema,
    response: RunRefSchema,
    status: 202,
    also: { 200: RunPlanSchema },
    faults: [...writeFaults, "E.REQUEST.MEDIA", "E.NOT_FOUND", "E.WORKFLOW.INVALID"],
    grant: "edit",
  }),
  listRuns: route("GET", "/api/v1/runs", {
    summary: "Runs, newest first, without their nodes.",
    query: {
      ...pagingQuery,
      status: {
        schema: idString(),
        description: "queued, running, succeeded, failed, cancelled; several with commas between them.",
      },
      clientId: { schema: idString() },
      workflowId: { schema: idString() },
      worker: {
        schema: idString(),
        description: "Name or instance id: runs of which it has a task, or was the last to have one. Pages may come short.",
      },
      since: { schema: instantString(), description: "Created at or after." },
      until: { schema: instantString(), description: "Created before." },
      q: { schema: textString(), description: "Words, or their beginnings, of its name, labels, client, id or error." },
    },
    response: RunListSchema,
    faults: readFaults,
    grant: "view",
  }),
  getRun: route("GET", "/api/v1/runs/{runId}", {
    summary: "A run with the state of each node, including dispatches that wait for their acknowledgement; now, or as it was.",
    params: runIdParam,
    query: { at: atQuery },
    response: RunSchema,
    faults: [...readFaults, ...snapshotFaults],
    grant: "view",
  }),
  getRunDefinition: route("GET", "/api/v1/runs/{runId}/definition", {
    summary: "The workflow as this run executes it, with the state of each node filled in.",
    params: runIdParam,
    response: RunDefinitionSchema,
    also: { 304: null },
    faults: [...readFaults, "E.NOT_FOUND"],
    grant: "view",
  }),
  cancelRun: route("POST", "/api/v1/runs/{runId}/cancel", {
    summary: "Cancel a run. A run that has ended is answered as it is.",
    params: runIdParam,
    headers: idempotencyKeyHeader,
    response: RunRefSchema,
    status: 202,
    faults: [...writeFaults, "E.NOT_FOUND", "E.RUN.TERMINAL"],
    grant: "edit",
  }),
  listRunEvents: route("GET", "/api/v1/runs/{runId}/events", {
    summary: "The facts of a run, oldest first; ask again with nextCursor to follow it.",
    params: runIdParam,
    query: pagingQuery,
    response: RunEventListSchema,
    faults: [...readFaults, "E.NOT_FOUND", "E.CURSOR.EXPIRED"],
    grant: "view",
  }),
  listRunNodes: route("GET", "/api/v1/runs/{runId}/nodes", {
    summary:
      "Nodes of a run that were reached, those inside containers and chains too, page by page. A page with filters may be short, or empty, although more follows.",
    params: runIdParam,
    query: {
      ...pagingQuery,
      at: atQuery,
      status: { schema: NodeStatusSchema },
      hostNodeId: { schema: idString(), description: "Only middlewares of this host." },
      chainIndex: { schema: integer(0), description: "Only middlewares at this place of their chain, 0 for the outermost." },
      middleware: { schema: idString(), description: "Only hosts that have this middleware in their chain." },
    },
    response: RunNodeListSchema,
    faults: [...readFaults, ...snapshotFaults],
    grant: "view",
  }),
  getRunNode: route("GET", "/api/v1/runs/{runId}/nodes/{nodeId}", {
    summary: "One node of a run with its parameters; with a path, the value there, whole or a stretch of it.",
    params: nodeIdParam,
    query: {
      path: { schema: textString(), description: "Under results or parameters, dotted or a JSON pointer." },
      offset: {
        schema: integer(0),
        default: 0,
        description: "First byte, of the value's JSON text in UTF-8. A character belongs to the stretch in which it begins.",
      },
      length: { schema: integer(0, 1024 * 1024), description: "Bytes." },
      at: atQuery,
    },
    response: RunNodeSchema,
    faults: [...readFaults, ...snapshotFaults],
    grant: "view",
  }),
  getRunLogs: route("GET", "/api/v1/runs/{runId}/logs", {
    summary: "What the nodes printed, as lines; plain text for those who accept text/plain.",
    params: runIdParam,
    query: {
      node: { schema: idString(), description: "Node id, or task id where a node runs more than once." },
      channel: { schema: nameString() },
      from: { schema: integer(0), default: 0, description: "First line within each attempt." },
      q: { schema: textString(), description: "Only lines that contain this text." },
      limit: { schema: integer(1, 1_000), default: 200 },
      cursor: pagingQuery.cursor,
    },
    response: RunLogSchema,
    faults: [...readFaults, "E.NOT_FOUND"],
    grant: "view",
  }),
  listRunBindings: route("GET", "/api/v1/runs/{runId}/bindings", {
    summary: "Which worker last did work of which package for this run.",
    params: runIdParam,
    response: RunBindingListSchema,
    faults: [...readFaults, "E.NOT_FOUND"],
    grant: "view",
  }),
  listRunArtifacts: route("GET", "/api/v1/runs/{runId}/artifacts", {
    summary:
      "What the nodes of a run left with their workers and are still available, page by page; what one node left is on one page.",
    params: runIdParam,
    query: {
      ...pagingQuery,
      all: { schema: Type.Boolean(), default: false, description: "Also what has expired or was removed." },
    },
    response: RunArtifactListSchema,
    faults: [...readFaults, "E.NOT_FOUND"],
    grant: "view",
  }),
  getRunLedger: route("GET", "/api/v1/runs/{runId}/ledger", {
    summary: "What was given to workers in a run, what came of it and what was refused, counted from the log.",
    params: runIdParam,
    response: RunLedgerSchema,
    faults: [...readFaults, ...snapshotFaults],
    grant: "view",
  }),
  getLedger: route("GET", "/api/v1/ledger", {
    summary:
      "The same over a stretch of the tenant's log. Figures of stretches that follow each other may be added, but for lost and twice, which see what lies in one stretch.",
    query: {
      after: { schema: integer(0), default: 0, description: "Position behind which to begin." },
      limit: { schema: integer(1, 10_000), default: 10_000, description: "Facts to look at." },
    },
    response: LedgerSchema,
    faults: [...readFaults, "E.CURSOR.EXPIRED"],
    grant: "view",
  }),
} as const satisfies Record<string, Route>;
