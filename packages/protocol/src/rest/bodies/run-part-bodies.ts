// Bodies of the parts of a run: its nodes page by page, one node's value, what nodes printed, bindings and artifacts.

import type { Static } from "typebox";
import { WorkflowSchema } from "../../definitions/workflow.ts";
import * as t from "../../schema/field-types.ts";
import { asOfPosition, pageOf } from "./body-parts.ts";
import { RunArtifactSchema, RunNodeStatusSchema } from "./run-bodies.ts";

const atPosition = t.optional(t.integer(0, "The requested position; the content is as of then."));

export const RunNodeListSchema = t.object({ ...pageOf(RunNodeStatusSchema).properties, at: atPosition });

export const ByteRangeSchema = t.object({
  from: t.integer(0, "First byte."),
  to: t.integer(0, "After the last byte: continue here."),
  total: t.integer(0),
});
export type ByteRange = Static<typeof ByteRangeSchema>;

export const RunNodeSchema = t.object({
  node: RunNodeStatusSchema,
  parameters: t.optional(t.anyJson("As it was, or will be, dispatched.")),
  value: t.optional(t.anyJson("At the path that was asked for, whole.")),
  text: t.optional(
    t.string({ description: "In place of value, where a stretch was asked for or all would be too large: of its JSON text." }),
  ),
  range: t.optional(ByteRangeSchema),
  at: atPosition,
  asOf: asOfPosition(),
});

export const LedgerFiguresSchema = t.object({
  accepted: t.integer(0, "Tasks that were given to a worker for the first time."),
  finished: t.integer(0, "Tasks that ended after they were given to a worker."),
  open: t.anyInteger({ description: "accepted minus finished; can be negative for a range that starts mid-run." }),
  attempts: t.integer(0, "Dispatches."),
  repeated: t.integer(0, "Dispatches of tasks that a worker had acknowledged before: they may have run twice."),
  refusedLate: t.integer(0, "Outcomes that came after another was accepted, or under an older fence; at most 20 a task."),
  lost: t.integer(0, "Tasks given to a worker that had not ended when their run ended."),
  twice: t.integer(0, "Outcomes accepted after a task already had one."),
});
export type LedgerFigures = Static<typeof LedgerFiguresSchema>;
const ledgerFields = {
  figures: LedgerFiguresSchema,
  from: t.integer(0, "Position of the first fact that was looked at."),
  to: t.integer(0, "Position of the last fact that was looked at; from less one where there was none."),
  asOf: asOfPosition(),
};
export const RunLedgerSchema = t.object({ runId: t.id(), ...ledgerFields });
export type RunLedger = Static<typeof RunLedgerSchema>;
export const LedgerSchema = t.object({
  ...ledgerFields,
  next: t.nullable(t.integer(0), "Go on with this as after; null at the end of the log."),
});
export type Ledger = Static<typeof LedgerSchema>;

export const RunBindingSchema = t.object({
  package: t.id(),
  workerId: t.id("Instance id."),
  workerName: t.name(),
  queue: t.name("The worker's own channel."),
  at: t.instant(),
});
export const RunBindingListSchema = t.object({ items: t.list(RunBindingSchema), asOf: asOfPosition() });

export const RunArtifactListSchema = pageOf(RunArtifactSchema);

/** The workflow as the run executes it. */
export const RunDefinitionSchema = t.intersect([WorkflowSchema, t.object({ asOf: t.optional(asOfPosition()) })]);
export type RunDefinition = Static<typeof RunDefinitionSchema>;

export const LogLineSchema = t.object({
  nodeId: t.id(),
  taskId: t.id(),
  fence: t.optional(t.integer(0, "Of the attempt that printed it; the node shows the one of its last attempt.")),
  line: t.integer(0, "Number within the attempt."),
  at: t.instant(),
  channel: t.name(),
  text: t.text(),
  mimeType: t.optional(t.name("Of bytes, which are base64 text here.")),
});
export type LogLine = Static<typeof LogLineSchema>;
export const RunLogSchema = t.object({
  items: t.list(LogLineSchema),
  nextCursor: t.nullable(t.string(), "null at the end of what was printed so far."),
  hits: t.optional(t.integer(0, "Lines that contain q, counted up to a limit.")),
  isHitsPartial: t.optional(t.boolean()),
  asOf: asOfPosition(),
});
export type RunLog = Static<typeof RunLogSchema>;
