// REST bodies about operating runs: retry, skip, replay, rebind, why a node waits, queues, dead letters, and changes to many runs at once.

import type { Static } from "typebox";
import * as t from "../../schema/field-types.ts";
import { asOfPosition, pageOf } from "./body-parts.ts";
import { RunRefSchema, RunStatusSchema } from "./run-bodies.ts";

export const SteerRequestSchema = t.object({ reason: t.optional(t.text("For the log and the audit.")) });
export type SteerRequest = Static<typeof SteerRequestSchema>;

const dryRunFlag = () => t.optional(t.boolean({ description: "Return the plan without starting anything." }));
const workflowVersionChoice = () =>
  t.optional(
    t.union([t.oneOf(["same", "latest", "draft"]), t.integer(1)], { description: "Of the workflow; the same by default." }),
  );

export const RetryRequestSchema = t.object({ ...SteerRequestSchema.properties, dryRun: dryRunFlag() });
export type RetryRequest = Static<typeof RetryRequestSchema>;

export const ReplayRequestSchema = t.object({
  from: t.optional(t.id("Run this node and its successors again; absent: whatever did not succeed.")),
  version: workflowVersionChoice(),
  allowUnknown: t.optional(t.allowUnknownFlag()),
  dryRun: dryRunFlag(),
});
export type ReplayRequest = Static<typeof ReplayRequestSchema>;

export const RebindRequestSchema = t.object({
  node: t.optional(t.id("Only this node; absent: all that is open.")),
  worker: t.optional(t.id("Instance id or name of the worker to use; absent: any but where it is.")),
  mode: t.optional(t.oneOf(["switch", "drain"], "switch takes running attempts back, drain lets them end.")),
});
export type RebindRequest = Static<typeof RebindRequestSchema>;

const SteeredTaskSchema = t.object({
  taskId: t.id(),
  nodeId: t.id(),
  from: t.optional(t.name("Worker that had it.")),
  to: t.optional(t.name("Worker that it goes to.")),
  sent: t.oneOf(["stop", "none"], "What was sent to that worker."),
  status: t.name(),
});
export const SteeredSchema = t.object({ runId: t.id(), tasks: t.list(SteeredTaskSchema), newRun: t.optional(RunRefSchema) });
export type Steered = Static<typeof SteeredSchema>;

export const PlacementSchema = t.object({
  runId: t.id(),
  nodeId: t.id(),
  taskId: t.optional(t.id()),
  status: t.name(),
  summary: t.text("One sentence: why the node is in this state."),
  reasons: t.list(t.object({ code: t.name(), facts: t.openObject() })),
  workers: t.objectList({
    workerId: t.id(),
    workerName: t.name(),
    code: t.name("First rule that rules this worker out; `fits` if none does."),
    facts: t.openObject(),
  }),
  fixes: t.list(t.name("What would help, most likely first.")),
  asOf: asOfPosition(),
});
export type Placement = Static<typeof PlacementSchema>;

export const QueueSchema = t.object({
  queue: t.id(),
  waiting: t.integer(0, "Tasks that could run now; counted up to a limit."),
  isPartial: t.boolean(),
  oldestWaitMs: t.optional(t.integer(0)),
  needs: t.object({
    package: t.id(),
    version: t.id(),
    nodeType: t.id(),
    pool: t.optional(t.id()),
    tags: t.optional(t.map(t.name())),
    worker: t.optional(t.id("Only this worker may take them.")),
  }),
  workers: t.object({ fitting: t.integer(0, "Workers that could take them now."), blocked: t.map(t.integer(0)) }),
});
export const QueueListSchema = t.object({ items: t.list(QueueSchema), asOf: asOfPosition() });
export type QueueList = Static<typeof QueueListSchema>;

/** What KEDA's metrics-api scaler reads by `valueLocation: value`. */
export const KedaMetricSchema = t.object({
  value: t.integer(0, "Slots wanted: waiting and running tasks."),
  queued: t.integer(0),
  running: t.integer(0),
  slots: t.integer(0),
  asOf: asOfPosition(),
});

export const DeadLetterSchema = t.object({
  taskId: t.id(),
  runId: t.id(),
  nodeId: t.id(),
  label: t.name(),
  code: t.id(),
  message: t.text(),
  attempts: t.integer(0),
  failures: t.integer(0),
  at: t.instant(),
  workerName: t.optional(t.name()),
  status: t.oneOf(["open", "requeued", "dismissed"]),
  newRun: t.optional(t.id("The run that repeats it.")),
});
export type DeadLetter = Static<typeof DeadLetterSchema>;
export const DeadLetterListSchema = pageOf(DeadLetterSchema);

const bulkActions = ["cancel", "retry", "replay", "dismiss"] as const;
const BulkFilterSchema = t.object(
  {
    status: t.optional(t.list(RunStatusSchema, 5)),
    workflowId: t.optional(t.id()),
    clientId: t.optional(t.id()),
    since: t.optional(t.instant()),
    until: t.optional(t.instant()),
    q: t.optional(t.text()),
    runIds: t.optional(t.list(t.id(), 1_000)),
  },
  // An empty one would change every run.
  t.published({ minProperties: 1 }),
);
export type BulkFilter = Static<typeof BulkFilterSchema>;
export const BulkRequestSchema = t.object(
  {
    action: t.oneOf(
      bulkActions,
      "retry starts each run again, reusing what succeeded; replay can also use another version or start from a node; dismiss closes the dead letters of the runs.",
    ),
    filter: BulkFilterSchema,
    from: t.optional(t.id("For replay: the node, in each run, that runs again with its successors.")),
    version: workflowVersionChoice(),
    reason: t.optional(t.text()),
    dryRun: t.optional(t.boolean({ description: "Count, change nothing." })),
  },
  t.published({
    oneOf: [
      { properties: { action: { const: "replay" } } },
      { properties: { action: { enum: bulkActions.filter((action) => action !== "replay") }, from: false, version: false } },
    ],
  }),
);
export type BulkRequest = Static<typeof BulkRequestSchema>;
export const BulkSchema = t.object({
  bulkId: t.id(),
  action: t.oneOf(bulkActions),
  status: t.oneOf(["running", "done", "planned"]),
  matched: t.integer(0, "Runs looked at so far that match."),
  changed: t.integer(0),
  unchanged: t.integer(0, "Runs that needed no change; in a dry run, judged by their states."),
  refused: t.integer(0),
  refusals: t.list(t.object({ runId: t.id(), code: t.id(), message: t.text() })),
  started: t.optional(t.list(t.object({ runId: t.id(), newRun: t.id() }), 200)),
  isPartial: t.optional(t.boolean({ description: "Of a dry run: more match than were counted." })),
  createdAt: t.instant(),
  updatedAt: t.instant(),
  asOf: t.optional(asOfPosition()),
});
export type Bulk = Static<typeof BulkSchema>;
