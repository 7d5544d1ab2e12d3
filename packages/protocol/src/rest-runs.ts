// Bodies of the parts of a run: its nodes page by page, one node's value, what nodes printed, bindings and artifacts.

import Type, { type Static } from "typebox";
import { page, RunArtifactSchema, RunNodeStatusSchema } from "./rest.ts";
import { id, instant, int, json, list, name, optional, text } from "./words.ts";
import { WorkflowSchema } from "./workflow.ts";

const asOf = int(0, undefined, "Position of the log at which this is true.");

export const RunNodeListSchema = page(RunNodeStatusSchema);

export const RunNodeSchema = Type.Object({
  node: RunNodeStatusSchema,
  parameters: optional(json("As it was, or will be, dispatched.")),
  value: optional(json("At the path that was asked for.")),
  asOf,
});

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
  attempt: optional(int(0, undefined, "Fence of the attempt.")),
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
  RunBinding: RunBindingSchema,
  RunBindingList: RunBindingListSchema,
  RunArtifactList: RunArtifactListSchema,
  LogLine: LogLineSchema,
  RunLog: RunLogSchema,
} as const;
