// Bodies of the parts of a run: its nodes page by page, one node's value, what nodes printed, bindings and artifacts.

import Type, { type Static } from "typebox";
import { page, RunArtifactSchema, RunNodeStatusSchema } from "./rest.ts";
import { id, instant, int, json, list, name, optional, text } from "./words.ts";
import { WorkflowSchema } from "./workflow.ts";

const asOf = int(0, undefined, "Position of the log at which this is true.");

const at = optional(int(0, undefined, "The position that was asked for: what is shown is as it was then."));

export const RunNodeListSchema = Type.Object({ ...page(RunNodeStatusSchema).properties, at });

const ByteRangeSchema = Type.Object({
  from: int(0, undefined, "First byte."),
  to: int(0, undefined, "Behind the last byte: where to go on."),
  total: int(0),
});
export type ByteRange = Static<typeof ByteRangeSchema>;

export const RunNodeSchema = Type.Object({
  node: RunNodeStatusSchema,
  parameters: optional(json("As it was, or will be, dispatched.")),
  value: optional(json("At the path that was asked for, whole.")),
  text: optional(
    Type.String({ description: "In place of value, where a stretch was asked for or all would be too large: of its JSON text." }),
  ),
  range: optional(ByteRangeSchema),
  at,
  asOf,
});

const LedgerFiguresSchema = Type.Object({
  accepted: int(0, undefined, "Tasks that were given to a worker for the first time."),
  finished: int(0, undefined, "Tasks that came to an end after they were given to a worker."),
  open: Type.Integer({
    description: "accepted less finished; of a stretch that begins in the middle of things it may be below zero.",
  }),
  attempts: int(0, undefined, "Dispatches."),
  repeated: int(0, undefined, "Dispatches that were not the first of their task."),
  refusedLate: int(0, undefined, "Outcomes that came after another was accepted, or under an older fence; at most 20 a task."),
  lost: int(0, undefined, "Tasks given to a worker whose run has ended without their end."),
  twice: int(0, undefined, "Outcomes of a task that were accepted beside its first."),
});
const ledger = {
  figures: LedgerFiguresSchema,
  from: int(0, undefined, "Position of the first fact that was looked at."),
  to: int(0, undefined, "Position of the last fact that was looked at; from less one where there was none."),
  asOf,
};
export const RunLedgerSchema = Type.Object({ runId: id(), ...ledger });
export type RunLedger = Static<typeof RunLedgerSchema>;
export const LedgerSchema = Type.Object({
  ...ledger,
  next: Type.Union([int(0), Type.Null()], { description: "Go on with this as after; null at the end of the log." }),
});
export type Ledger = Static<typeof LedgerSchema>;

const RunBindingSchema = Type.Object({
  package: id(),
  workerId: id("Instance id."),
  workerName: name(),
  queue: name("The worker's own channel."),
  at: instant(),
});
export const RunBindingListSchema = Type.Object({ items: list(RunBindingSchema), asOf });

export const RunArtifactListSchema = page(RunArtifactSchema);

/** The workflow as the run executes it. */
export const RunDefinitionSchema = Type.Intersect([WorkflowSchema, Type.Object({ asOf: optional(asOf) })]);
export type RunDefinition = Static<typeof RunDefinitionSchema>;

const LogLineSchema = Type.Object({
  nodeId: id(),
  taskId: id(),
  fence: optional(int(0, undefined, "Of the attempt that printed it; the node shows the one of its last attempt.")),
  line: int(0, undefined, "Number within the attempt."),
  at: instant(),
  channel: name(),
  text: text(),
  mimeType: optional(name("Of bytes, which are base64 text here.")),
});
export type LogLine = Static<typeof LogLineSchema>;
export const RunLogSchema = Type.Object({
  items: list(LogLineSchema),
  nextCursor: Type.Union([Type.String(), Type.Null()], { description: "null at the end of what was printed so far." }),
  hits: optional(int(0, undefined, "Lines that hold the words of q, counted up to a limit.")),
  isHitsPartial: optional(Type.Boolean()),
  asOf,
});
export type RunLog = Static<typeof RunLogSchema>;

/** By the names they have in the OpenAPI document. */
export const runPartSchemas = {
  RunDefinition: RunDefinitionSchema,
  RunNode: RunNodeSchema,
  RunNodeList: RunNodeListSchema,
  ByteRange: ByteRangeSchema,
  LedgerFigures: LedgerFiguresSchema,
  RunLedger: RunLedgerSchema,
  Ledger: LedgerSchema,
  RunBinding: RunBindingSchema,
  RunBindingList: RunBindingListSchema,
  RunArtifactList: RunArtifactListSchema,
  LogLine: LogLineSchema,
  RunLog: RunLogSchema,
} as const;
