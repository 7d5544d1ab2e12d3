// Bodies of steering: what an operator asks of a run that is under way or over, what was done to whom, why a node waits, what waits where,
// dead letters, and changes of many runs at once.

import Type, { type Static } from "typebox";
import type { Fault } from "./fault.ts";
import { page, RunRefSchema, RunStatusSchema } from "./rest.ts";
import { shape } from "./shape.ts";
import { allowUnknown, bag, id, instant, int, list, map, name, oneOf, optional, text } from "./words.ts";

const asOf = int(0, undefined, "Position of the log at which this is true.");

export const SteerRequestSchema = Type.Object({ reason: optional(text("For the log and the audit.")) });
export type SteerRequest = Static<typeof SteerRequestSchema>;

const rehearse = () => optional(Type.Boolean({ description: "Answer the plan, start nothing." }));
const ofWorkflow = () =>
  optional(Type.Union([oneOf(["same", "latest", "draft"]), int(1)], { description: "Of the workflow; the same by default." }));

export const RetryRequestSchema = Type.Object({ ...SteerRequestSchema.properties, dryRun: rehearse() });
export type RetryRequest = Static<typeof RetryRequestSchema>;

export const ReplayRequestSchema = Type.Object({
  from: optional(id("Run this node and all that follows anew; absent: what did not succeed.")),
  version: ofWorkflow(),
  allowUnknown: optional(allowUnknown()),
  dryRun: rehearse(),
});
export type ReplayRequest = Static<typeof ReplayRequestSchema>;

export const RebindRequestSchema = Type.Object({
  node: optional(id("Only this node; absent: all that is open.")),
  worker: optional(id("Instance id or name of the worker to use; absent: any but where it is.")),
  mode: optional(oneOf(["switch", "drain"], "switch takes running attempts back, drain lets them end.")),
});
export type RebindRequest = Static<typeof RebindRequestSchema>;

const SteeredTaskSchema = Type.Object({
  taskId: id(),
  nodeId: id(),
  from: optional(name("Worker that had it.")),
  to: optional(name("Worker that it goes to.")),
  sent: oneOf(["stop", "none"], "What that worker was told."),
  status: name(),
});
export const SteeredSchema = Type.Object({
  runId: id(),
  tasks: list(SteeredTaskSchema),
  newRun: optional(RunRefSchema),
});
export type Steered = Static<typeof SteeredSchema>;

export const PlacementSchema = Type.Object({
  runId: id(),
  nodeId: id(),
  taskId: optional(id()),
  status: name(),
  summary: text("One sentence: why it is where it is."),
  reasons: list(Type.Object({ code: name(), facts: bag() })),
  workers: list(
    Type.Object({
      workerId: id(),
      workerName: name(),
      code: name("The first rule by which this worker does not take it; fits: none."),
      facts: bag(),
    }),
  ),
  fixes: list(name("What would help, the nearest first.")),
  asOf,
});
export type Placement = Static<typeof PlacementSchema>;

const QueueSchema = Type.Object({
  queue: id(),
  waiting: int(0, undefined, "Tasks that could run now; counted up to a limit."),
  isPartial: Type.Boolean(),
  oldestWaitMs: optional(int(0)),
  needs: Type.Object({
    package: id(),
    version: id(),
    nodeType: id(),
    pool: optional(id()),
    tags: optional(map(name())),
    worker: optional(id("Only this worker may take them.")),
  }),
  workers: Type.Object({
    fitting: int(0, undefined, "Workers that could take them now."),
    blocked: map(int(0)),
  }),
});
export const QueueListSchema = Type.Object({ items: list(QueueSchema), asOf });
export type QueueList = Static<typeof QueueListSchema>;

/** What KEDA's metrics-api scaler reads by `valueLocation: value`. */
export const KedaSchema = Type.Object({
  value: int(0, undefined, "Slots wanted: waiting and running tasks."),
  queued: int(0),
  running: int(0),
  slots: int(0),
  asOf,
});

const LetterSchema = Type.Object({
  taskId: id(),
  runId: id(),
  nodeId: id(),
  label: name(),
  code: id(),
  message: text(),
  attempts: int(0),
  failures: int(0),
  at: instant(),
  workerName: optional(name()),
  status: oneOf(["open", "requeued", "dismissed"]),
  newRun: optional(id("The run that took it up again.")),
});
export type DeadLetter = Static<typeof LetterSchema>;
export const LetterListSchema = page(LetterSchema);

const bulkActions = ["cancel", "retry", "replay", "dismiss"] as const;
const BulkFilterSchema = Type.Object({
  status: optional(list(RunStatusSchema, 5)),
  workflowId: optional(id()),
  clientId: optional(id()),
  since: optional(instant()),
  until: optional(instant()),
  q: optional(text()),
  runIds: optional(list(id(), 1_000)),
});
export type BulkFilter = Static<typeof BulkFilterSchema>;
export const BulkRequestSchema = Type.Object({
  action: oneOf(
    bulkActions,
    "retry starts each run anew with what succeeded, replay also with another version or from a node on; dismiss closes the dead letters of the runs.",
  ),
  filter: BulkFilterSchema,
  from: optional(id("Of a replay: the node, in each of the runs, that runs anew with all that follows.")),
  version: ofWorkflow(),
  reason: optional(text()),
  dryRun: optional(Type.Boolean({ description: "Count, change nothing." })),
});
export type BulkRequest = Static<typeof BulkRequestSchema>;
export const BulkSchema = Type.Object({
  bulkId: id(),
  action: oneOf(bulkActions),
  status: oneOf(["running", "done", "planned"]),
  matched: int(0, undefined, "Runs looked at so far that match."),
  changed: int(0),
  unchanged: int(0, undefined, "Runs that needed nothing; of a dry run, as far as their states tell."),
  refused: int(0),
  refusals: list(Type.Object({ runId: id(), code: id(), message: text() })),
  started: optional(list(Type.Object({ runId: id(), newRun: id() }), 200)),
  isPartial: optional(Type.Boolean({ description: "Of a dry run: more match than were counted." })),
  createdAt: instant(),
  updatedAt: instant(),
  asOf: optional(asOf),
});
export type Bulk = Static<typeof BulkSchema>;

/** By the names they have in the OpenAPI document. */
export const steeringSchemas = {
  SteerRequest: SteerRequestSchema,
  RetryRequest: RetryRequestSchema,
  ReplayRequest: ReplayRequestSchema,
  RebindRequest: RebindRequestSchema,
  Steered: SteeredSchema,
  Placement: PlacementSchema,
  Queue: QueueSchema,
  QueueList: QueueListSchema,
  KedaMetric: KedaSchema,
  DeadLetter: LetterSchema,
  DeadLetterList: LetterListSchema,
  BulkRequest: BulkRequestSchema,
  Bulk: BulkSchema,
} as const;

const reading = { code: "E.REQUEST.INVALID", what: "body", unknown: "drop" } as const;
const steerShape = shape(SteerRequestSchema, reading);
const retryShape = shape(RetryRequestSchema, reading);
const replayShape = shape(ReplayRequestSchema, reading);
const rebindShape = shape(RebindRequestSchema, reading);
const bulkShape = shape(BulkRequestSchema, reading);

export const readSteerRequest = (value: unknown): SteerRequest | Fault => steerShape.read(value);
export const readRetryRequest = (value: unknown): RetryRequest | Fault => retryShape.read(value);
export const readReplayRequest = (value: unknown): ReplayRequest | Fault => replayShape.read(value);
export const readRebindRequest = (value: unknown): RebindRequest | Fault => rebindShape.read(value);
export const readBulkRequest = (value: unknown): BulkRequest | Fault => bulkShape.read(value);
