// REST bodies about operating runs: retry, skip, replay, rebind, why a node waits, queues, dead letters, and changes to many runs at once.

import Type, { type Static } from "typebox";
import {
  allowUnknownFlag,
  idString,
  instantString,
  integer,
  listOf,
  mapOf,
  nameString,
  oneOf,
  openObject,
  optional,
  textString,
} from "../../schema/field-types.ts";
import { asOfPosition, createBodyReader, pageOf } from "./body-parts.ts";
import { RunRefSchema, RunStatusSchema } from "./run-bodies.ts";

export const SteerRequestSchema = Type.Object({ reason: optional(textString("For the log and the audit.")) });
export type SteerRequest = Static<typeof SteerRequestSchema>;

const dryRunFlag = () => optional(Type.Boolean({ description: "Return the plan without starting anything." }));
const workflowVersionChoice = () =>
  optional(
    Type.Union([oneOf(["same", "latest", "draft"]), integer(1)], { description: "Of the workflow; the same by default." }),
  );

export const RetryRequestSchema = Type.Object({ ...SteerRequestSchema.properties, dryRun: dryRunFlag() });
export type RetryRequest = Static<typeof RetryRequestSchema>;

export const ReplayRequestSchema = Type.Object({
  from: optional(idString("Run this node and its successors again; absent: whatever did not succeed.")),
  version: workflowVersionChoice(),
  allowUnknown: optional(allowUnknownFlag()),
  dryRun: dryRunFlag(),
});
export type ReplayRequest = Static<typeof ReplayRequestSchema>;

export const RebindRequestSchema = Type.Object({
  node: optional(idString("Only this node; absent: all that is open.")),
  worker: optional(idString("Instance id or name of the worker to use; absent: any but where it is.")),
  mode: optional(oneOf(["switch", "drain"], "switch takes running attempts back, drain lets them end.")),
});
export type RebindRequest = Static<typeof RebindRequestSchema>;

const SteeredTaskSchema = Type.Object({
  taskId: idString(),
  nodeId: idString(),
  from: optional(nameString("Worker that had it.")),
  to: optional(nameString("Worker that it goes to.")),
  sent: oneOf(["stop", "none"], "What was sent to that worker."),
  status: nameString(),
});
export const SteeredSchema = Type.Object({
  runId: idString(),
  tasks: listOf(SteeredTaskSchema),
  newRun: optional(RunRefSchema),
});
export type Steered = Static<typeof SteeredSchema>;

export const PlacementSchema = Type.Object({
  runId: idString(),
  nodeId: idString(),
  taskId: optional(idString()),
  status: nameString(),
  summary: textString("One sentence: why the node is in this state."),
  reasons: listOf(Type.Object({ code: nameString(), facts: openObject() })),
  workers: listOf(
    Type.Object({
      workerId: idString(),
      workerName: nameString(),
      code: nameString("First rule that rules this worker out; `fits` if none does."),
      facts: openObject(),
    }),
  ),
  fixes: listOf(nameString("What would help, most likely first.")),
  asOf: asOfPosition(),
});
export type Placement = Static<typeof PlacementSchema>;

export const QueueSchema = Type.Object({
  queue: idString(),
  waiting: integer(0, undefined, "Tasks that could run now; counted up to a limit."),
  isPartial: Type.Boolean(),
  oldestWaitMs: optional(integer(0)),
  needs: Type.Object({
    package: idString(),
    version: idString(),
    nodeType: idString(),
    pool: optional(idString()),
    tags: optional(mapOf(nameString())),
    worker: optional(idString("Only this worker may take them.")),
  }),
  workers: Type.Object({
    fitting: integer(0, undefined, "Workers that could take them now."),
    blocked: mapOf(integer(0)),
  }),
});
export const QueueListSchema = Type.Object({ items: listOf(QueueSchema), asOf: asOfPosition() });
export type QueueList = Static<typeof QueueListSchema>;

/** What KEDA's metrics-api scaler reads by `valueLocation: value`. */
export const KedaMetricSchema = Type.Object({
  value: integer(0, undefined, "Slots wanted: waiting and running tasks."),
  queued: integer(0),
  running: integer(0),
  slots: integer(0),
  asOf: asOfPosition(),
});

export const DeadLetterSchema = Type.Object({
  taskId: idString(),
  runId: idString(),
  nodeId: idString(),
  label: nameString(),
  code: idString(),
  message: textString(),
  attempts: integer(0),
  failures: integer(0),
  at: instantString(),
  workerName: optional(nameString()),
  status: oneOf(["open", "requeued", "dismissed"]),
  newRun: optional(idString("The run that repeats it.")),
});
export type DeadLetter = Static<typeof DeadLetterSchema>;
export const DeadLetterListSchema = pageOf(DeadLetterSchema);

const bulkActions = ["cancel", "retry", "replay", "dismiss"] as const;
const BulkFilterSchema = Type.Object({
  status: optional(listOf(RunStatusSchema, 5)),
  workflowId: optional(idString()),
  clientId: optional(idString()),
  since: optional(instantString()),
  until: optional(instantString()),
  q: optional(textString()),
  runIds: optional(listOf(idString(), 1_000)),
});
export type BulkFilter = Static<typeof BulkFilterSchema>;
export const BulkRequestSchema = Type.Object({
  action: oneOf(
    bulkActions,
    "retry starts each run again, reusing what succeeded; replay can also use another version or start from a node; dismiss closes the dead letters of the runs.",
  ),
  filter: BulkFilterSchema,
  from: optional(idString("For replay: the node, in each run, that runs again with its successors.")),
  version: workflowVersionChoice(),
  reason: optional(textString()),
  dryRun: optional(Type.Boolean({ description: "Count, change nothing." })),
});
export type BulkRequest = Static<typeof BulkRequestSchema>;
export const BulkSchema = Type.Object({
  bulkId: idString(),
  action: oneOf(bulkActions),
  status: oneOf(["running", "done", "planned"]),
  matched: integer(0, undefined, "Runs looked at so far that match."),
  changed: integer(0),
  unchanged: integer(0, undefined, "Runs that needed no change; in a dry run, judged by their states."),
  refused: integer(0),
  refusals: listOf(Type.Object({ runId: idString(), code: idString(), message: textString() })),
  started: optional(listOf(Type.Object({ runId: idString(), newRun: idString() }), 200)),
  isPartial: optional(Type.Boolean({ description: "Of a dry run: more match than were counted." })),
  createdAt: instantString(),
  updatedAt: instantString(),
  asOf: optional(asOfPosition()),
});
export type Bulk = Static<typeof BulkSchema>;

export const readSteerRequest = createBodyReader(SteerRequestSchema);
export const readRetryRequest = createBodyReader(RetryRequestSchema);
export const readReplayRequest = createBodyReader(ReplayRequestSchema);
export const readRebindRequest = createBodyReader(RebindRequestSchema);
export const readBulkRequest = createBodyReader(BulkRequestSchema);
