// Payloads of the execution frames: dispatch, feedback, result, error, next, cancel, inventory and the two batches.
// The base schema of each is what existing workers know; ours adds the fence, and v1 has worker_id instead of worker_name.

import Type, { type Static } from "typebox";
import { limits } from "../json/limits.ts";
import {
  idString,
  instantString,
  integer,
  listOf,
  mapOf,
  nameString,
  nonEmptyText,
  oneOf,
  openObject,
  optional,
  textString,
} from "../schema/field-types.ts";
import { heldTaskList } from "./control-payloads.ts";

const resourceRefFields = {
  type: nameString(),
  scope: optional(nameString()),
  expires_at: optional(instantString()),
  metadata: optional(openObject()),
};
const resourceRefList = <T extends { worker_name: ReturnType<typeof idString> } | { worker_id: ReturnType<typeof idString> }>(
  worker: T,
) => listOf(Type.Object({ resource_id: idString(), ...worker, ...resourceRefFields }), 1_000);
const affinity = Type.Object({
  key: idString(),
  mode: optional(oneOf(["sticky", "preferred"])),
  expires_at: optional(instantString()),
});

const dispatchFields = {
  run_id: idString(),
  task_id: idString(),
  node_id: idString(),
  node_type: idString(),
  package_name: idString(),
  package_version: idString(),
  parameters: openObject(),
  constraints: Type.Object({ timeout_ms: optional(integer(1)) }),
  concurrency_key: optional(idString()),
  priority: optional(integer(Number.MIN_SAFE_INTEGER)),
  host_node_id: optional(idString()),
  middleware_chain: optional(listOf(idString(), 1_000)),
  chain_index: optional(integer(0)),
  affinity: optional(affinity),
};
export const DispatchFirstGenSchema = Type.Object({
  ...dispatchFields,
  resource_refs: optional(resourceRefList({ worker_name: idString() })),
});
export const DispatchV1Schema = Type.Object({
  ...dispatchFields,
  resource_refs: optional(resourceRefList({ worker_id: idString() })),
});
export const DispatchSchema = Type.Object({
  ...DispatchFirstGenSchema.properties,
  fence: optional(integer(0, undefined, "Under which the attempt was granted; echo it in every message about the task.")),
  attempt: optional(integer(1)),
});
export type DispatchPayload = Static<typeof DispatchSchema>;

const chunkSchema = Type.Object({
  channel: oneOf(["stdout", "stderr", "log", "llm", "metric", "custom"]),
  index: optional(integer(0)),
  mime_type: optional(nameString()),
  text: optional(Type.String()),
  data_base64: optional(Type.String()),
  metadata: optional(openObject()),
});
export type OutputChunk = Static<typeof chunkSchema>;

export const FeedbackFirstGenSchema = Type.Object({
  run_id: idString(),
  task_id: idString(),
  stage: optional(Type.String({ minLength: 1, maxLength: limits.nameCharsMax })),
  progress: optional(Type.Number({ minimum: 0, maximum: 1 })),
  message: optional(textString()),
  chunks: optional(listOf(chunkSchema, limits.chunksMax)),
  metrics: optional(mapOf(Type.Number())),
  metadata: optional(openObject()),
});
export const FeedbackSchema = Type.Object({ ...FeedbackFirstGenSchema.properties, fence: optional(integer(0)) });
export type FeedbackPayload = Static<typeof FeedbackSchema>;

const artifactFields = {
  type: nameString(),
  size_bytes: optional(integer(0)),
  inline: optional(Type.Boolean()),
  expires_at: optional(instantString()),
  metadata: optional(openObject()),
};
const artifactSchema = Type.Object({ resource_id: idString(), worker_name: idString(), ...artifactFields });
export type ResultArtifact = Static<typeof artifactSchema>;

const resultFields = {
  run_id: idString(),
  task_id: idString(),
  status: oneOf(["SUCCEEDED", "FAILED", "SKIPPED", "CANCELLED"]),
  result: openObject(),
  duration_ms: optional(integer(0)),
  metadata: optional(openObject()),
  error: optional(Type.Object({ code: idString(), message: nonEmptyText(), remediation: optional(textString()) })),
};
export const ResultFirstGenSchema = Type.Object({ ...resultFields, artifacts: optional(listOf(artifactSchema, 1_000)) });
export const ResultV1Schema = Type.Object({
  ...resultFields,
  artifacts: optional(listOf(Type.Object({ resource_id: idString(), worker_id: idString(), ...artifactFields }), 1_000)),
});
export const ResultSchema = Type.Object({ ...ResultFirstGenSchema.properties, fence: optional(integer(0)) });
export type ResultPayload = Static<typeof ResultSchema>;

export const ExecErrorFirstGenSchema = Type.Object({
  code: idString(),
  message: nonEmptyText(),
  remediation: optional(textString()),
  context: optional(Type.Object({ where: optional(nameString()), details: optional(openObject()) })),
});
export const ExecErrorSchema = Type.Object({
  ...ExecErrorFirstGenSchema.properties,
  run_id: optional(idString()),
  task_id: optional(idString()),
  fence: optional(integer(0)),
});
export type ExecErrorPayload = Static<typeof ExecErrorSchema>;

export const NextRequestFirstGenSchema = Type.Object({
  requestId: idString(),
  runId: idString(),
  nodeId: idString(),
  middlewareId: idString(),
  chainIndex: optional(integer(0)),
  hostCtx: optional(openObject()),
  middlewareCtx: optional(openObject()),
  payload: optional(openObject()),
  timeoutMs: optional(integer(1)),
});
/** A node may run more than once in a run, so our frames say which attempt asks. */
export const NextRequestSchema = Type.Object({
  ...NextRequestFirstGenSchema.properties,
  task_id: optional(idString()),
  fence: optional(integer(0)),
});
export type NextRequestPayload = Static<typeof NextRequestSchema>;

export const NextResponseSchema = Type.Object({
  requestId: idString(),
  runId: idString(),
  nodeId: idString(),
  middlewareId: idString(),
  result: optional(openObject()),
  error: optional(openObject()),
  trace: optional(openObject()),
});
export type NextResponsePayload = Static<typeof NextResponseSchema>;

/** Only for workers that announce the feature `cancel`. */
export const CancelSchema = Type.Object({
  run_id: idString(),
  task_id: idString(),
  fence: optional(integer(0)),
  reason: optional(textString()),
  grace_ms: optional(integer(0)),
});
export type CancelPayload = Static<typeof CancelSchema>;

/** What a worker runs; sent right after accept if it was not part of register. */
export const InventorySchema = Type.Object({ boot_id: optional(idString()), running: heldTaskList });
export type InventoryPayload = Static<typeof InventorySchema>;

/** A resource that a worker no longer has. */
export const ResourceRemovedSchema = Type.Object({
  items: Type.Array(Type.Object({ resource_id: idString(), reason: oneOf(["evicted", "expired", "released", "lost"]) }), {
    minItems: 1,
    maxItems: limits.batchItemsMax,
  }),
});
export type ResourceRemovedPayload = Static<typeof ResourceRemovedSchema>;

const batchSize = { minItems: 1, maxItems: limits.batchItemsMax };
export const DispatchBatchSchema = Type.Object({ items: Type.Array(DispatchSchema, batchSize) });
export type DispatchBatchPayload = Static<typeof DispatchBatchSchema>;
export const ResultBatchSchema = Type.Object({ items: Type.Array(ResultSchema, batchSize) });
export type ResultBatchPayload = Static<typeof ResultBatchSchema>;

type WithResourceRefs<R> = { resource_refs?: R[] };
type WithArtifacts<A> = { artifacts?: A[] };

/** worker_id of v1 is our worker_name, in refs and artifacts. */
const workerIdToName = <T extends { worker_id: string }>({ worker_id, ...rest }: T) => ({ ...rest, worker_name: worker_id });
const workerNameToId = <T extends { worker_name: string }>({ worker_name, ...rest }: T) => ({ ...rest, worker_id: worker_name });

export function normaliseDispatchV1<R extends { worker_id: string }, T extends WithResourceRefs<R>>(dispatch: T) {
  const { resource_refs, ...rest } = dispatch;
  return resource_refs ? { ...rest, resource_refs: resource_refs.map(workerIdToName) } : rest;
}
export function formatDispatchV1<R extends { worker_name: string }, T extends WithResourceRefs<R>>(dispatch: T) {
  const { resource_refs, ...rest } = dispatch;
  return resource_refs ? { ...rest, resource_refs: resource_refs.map(workerNameToId) } : rest;
}
export function normaliseResultV1<A extends { worker_id: string }, T extends WithArtifacts<A>>(result: T) {
  const { artifacts, ...rest } = result;
  return artifacts ? { ...rest, artifacts: artifacts.map(workerIdToName) } : rest;
}
export function formatResultV1<A extends { worker_name: string }, T extends WithArtifacts<A>>(result: T) {
  const { artifacts, ...rest } = result;
  return artifacts ? { ...rest, artifacts: artifacts.map(workerNameToId) } : rest;
}
