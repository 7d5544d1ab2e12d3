// Bodies of the parts of a run: its nodes page by page, one node's value, what nodes printed, bindings and artifacts.

import Type, { type Static } from "typebox";
import { WorkflowSchema } from "../../definitions/workflow.ts";
import { anyJson, idString, instantString, integer, listOf, nameString, optional, textString } from "../../schema/field-types.ts";
import { asOfPosition, pageOf } from "./body-parts.ts";
import { RunArtifactSchema, RunNodeStatusSchema } from "./run-bodies.ts";

const atPosition = optional(integer(0, undefined, "The requested position; the content is as of then."));

export const RunNodeListSchema = Type.Object({ ...pageOf(RunNodeStatusSchema).properties, at: atPosition });

export const ByteRangeSchema = Type.Object({
  from: integer(0, undefined, "First byte."),
  to: integer(0, undefined, "After the last byte: continue here."),
  total: integer(0),
});
export type ByteRange = Static<typeof ByteRangeSchema>;

export const RunNodeSchema = Type.Object({
  node: RunNodeStatusSchema,
  parameters: optional(anyJson("As it was, or will be, dispatched.")),
  value: optional(anyJson("At the path that was asked for, whole.")),
  text: optional(
    Type.String({ description: "In place of value, where a stretch was asked for or all would be too large: of its JSON text." }),
  ),
  range: optional(ByteRangeSchema),
  at: atPosition,
  asOf: asOfPosition(),
});

export const LedgerFiguresSchema = Type.Object({
  accepted: integer(0, undefined, "Tasks that were given to a worker for the first time."),
  finished: integer(0, undefined, "Tasks that ended after they were given to a worker."),
  open: Type.Integer({
    description: "accepted minus finished; can be negative for a range that starts mid-run.",
  }),
  attempts: integer(0, undefined, "Dispatches."),
  repeated: integer(0, undefined, "Dispatches that were not the first of their task."),
  refusedLate: integer(
    0,
    undefined,
    "Outcomes that came after another was accepted, or under an older fence; at most 20 a task.",
  ),
  lost: integer(0, undefined, "Tasks given to a worker that had not ended when their run ended."),
  twice: integer(0, undefined, "Outcomes accepted after a task already had one."),
});
const ledgerFields = {
  figures: LedgerFiguresSchema,
  from: integer(0, undefined, "Position of the first fact that was looked at."),
  to: integer(0, undefined, "Position of the last fact that was looked at; from less one where there was none."),
  asOf: asOfPosition(),
};
export const RunLedgerSchema = Type.Object({ runId: idString(), ...ledgerFields });
export type RunLedger = Static<typeof RunLedgerSchema>;
export const LedgerSchema = Type.Object({
  ...ledgerFields,
  next: Type.Union([integer(0), Type.Null()], { description: "Go on with this as after; null at the end of the log." }),
});
export type Ledger = Static<typeof LedgerSchema>;

export const RunBindingSchema = Type.Object({
  package: idString(),
  workerId: idString("Instance id."),
  workerName: nameString(),
  queue: nameString("The worker's own channel."),
  at: instantString(),
});
export const RunBindingListSchema = Type.Object({ items: listOf(RunBindingSchema), asOf: asOfPosition() });

export const RunArtifactListSchema = pageOf(RunArtifactSchema);

/** The workflow as the run executes it. */
export const RunDefinitionSchema = Type.Intersect([WorkflowSchema, Type.Object({ asOf: optional(asOfPosition()) })]);
export type RunDefinition = Static<typeof RunDefinitionSchema>;

export const LogLineSchema = Type.Object({
  nodeId: idString(),
  taskId: idString(),
  fence: optional(integer(0, undefined, "Of the attempt that printed it; the node shows the one of its last attempt.")),
  line: integer(0, undefined, "Number within the attempt."),
  at: instantString(),
  channel: nameString(),
  text: textString(),
  mimeType: optional(nameString("Of bytes, which are base64 text here.")),
});
export type LogLine = Static<typeof LogLineSchema>;
export const RunLogSchema = Type.Object({
  items: listOf(LogLineSchema),
  nextCursor: Type.Union([Type.String(), Type.Null()], { description: "null at the end of what was printed so far." }),
  hits: optional(integer(0, undefined, "Lines that contain q, counted up to a limit.")),
  isHitsPartial: optional(Type.Boolean()),
  asOf: asOfPosition(),
});
export type RunLog = Static<typeof RunLogSchema>;
