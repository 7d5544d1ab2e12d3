// Payloads of the execution frames: dispatch, feedback, result, error, next, cancel, inventory and the two batches.
// The base schema of each is what the workers in the field know; ours adds the fence, v1 says worker_id for worker_name.

import Type, { type Static } from "typebox";
import { heldList } from "./control.ts";
import { limits } from "./limits.ts";
import { bag, id, instant, int, list, map, name, oneOf, optional, prose, text } from "./words.ts";

const refRest = { type: name(), scope: optional(name()), expires_at: optional(instant()), metadata: optional(bag()) };
const refList = <T extends { worker_name: ReturnType<typeof id> } | { worker_id: ReturnType<typeof id> }>(worker: T) =>
  list(Type.Object({ resource_id: id(), ...worker, ...refRest }), 1_000);
const affinity = Type.Object({ key: id(), mode: optional(oneOf(["sticky", "preferred"])), expires_at: optional(instant()) });

const dispatchRest = {
  run_id: id(),
  task_id: id(),
  node_id: id(),
  node_type: id(),
  package_name: id(),
  package_version: id(),
  parameters: bag(),
  constraints: Type.Object({ timeout_ms: optional(int(1)) }),
  concurrency_key: optional(id()),
  priority: optional(int(Number.MIN_SAFE_INTEGER)),
  host_node_id: optional(id()),
  middleware_chain: optional(list(id(), 1_000)),
  chain_index: optional(int(0)),
  affinity: optional(affinity),
};
export const DispatchFirstSchema = Type.Object({ ...dispatchRest, resource_refs: optional(refList({ worker_name: id() })) });
export const DispatchV1Schema = Type.Object({ ...dispatchRest, resource_refs: optional(refList({ worker_id: id() })) });
export const DispatchSchema = Type.Object({
  ...DispatchFirstSchema.properties,
  fence: optional(int(0, undefined, "Under which the attempt was granted; echo it in every word about the task.")),
  attempt: optional(int(1)),
});
export type Dispatch = Static<typeof DispatchSchema>;

const chunk = Type.Object({
  channel: oneOf(["stdout", "stderr", "log", "llm", "metric", "custom"]),
  index: optional(int(0)),
  mime_type: optional(name()),
  text: optional(Type.String()),
  data_base64: optional(Type.String()),
  metadata: optional(bag()),
});
export type Chunk = Static<typeof chunk>;

export const FeedbackFirstSchema = Type.Object({
  run_id: id(),
  task_id: id(),
  stage: optional(Type.String({ minLength: 1, maxLength: limits.nameCharsMax })),
  progress: optional(Type.Number({ minimum: 0, maximum: 1 })),
  message: optional(text()),
  chunks: optional(list(chunk, limits.chunksMax)),
  metrics: optional(map(Type.Number())),
  metadata: optional(bag()),
});
export const FeedbackSchema = Type.Object({ ...FeedbackFirstSchema.properties, fence: optional(int(0)) });
export type Feedback = Static<typeof FeedbackSchema>;

const artifactRest = {
  type: name(),
  size_bytes: optional(int(0)),
  inline: optional(Type.Boolean()),
  expires_at: optional(instant()),
  metadata: optional(bag()),
};
const artifact = Type.Object({ resource_id: id(), worker_name: id(), ...artifactRest });
export type Artifact = Static<typeof artifact>;

const resultRest = {
  run_id: id(),
  task_id: id(),
  status: oneOf(["SUCCEEDED", "FAILED", "SKIPPED", "CANCELLED"]),
  result: bag(),
  duration_ms: optional(int(0)),
  metadata: optional(bag()),
  error: optional(Type.Object({ code: id(), message: prose(), remediation: optional(text()) })),
};
export const ResultFirstSchema = Type.Object({ ...resultRest, artifacts: optional(list(artifact, 1_000)) });
export const ResultV1Schema = Type.Object({
  ...resultRest,
  artifacts: optional(list(Type.Object({ resource_id: id(), worker_id: id(), ...artifactRest }), 1_000)),
});
export const ResultSchema = Type.Object({ ...ResultFirstSchema.properties, fence: optional(int(0)) });
export type Result = Static<typeof ResultSchema>;

export const ExecErrorFirstSchema = Type.Object({
  code: id(),
  message: prose(),
  remediation: optional(text()),
  context: optional(Type.Object({ where: optional(name()), details: optional(bag()) })),
});
export const ExecErrorSchema = Type.Object({
  ...ExecErrorFirstSchema.properties,
  run_id: optional(id()),
  task_id: optional(id()),
  fence: optional(int(0)),
});
export type ExecError = Static<typeof ExecErrorSchema>;

export const NextRequestFirstSchema = Type.Object({
  requestId: id(),
  runId: id(),
  nodeId: id(),
  middlewareId: id(),
  chainIndex: optional(int(0)),
  hostCtx: optional(bag()),
  middlewareCtx: optional(bag()),
  payload: optional(bag()),
  timeoutMs: optional(int(1)),
});
/** A node may run more than once in a run, so ours say which attempt asks. */
export const NextRequestSchema = Type.Object({
  ...NextRequestFirstSchema.properties,
  task_id: optional(id()),
  fence: optional(int(0)),
});
export type NextRequest = Static<typeof NextRequestSchema>;

export const NextResponseSchema = Type.Object({
  requestId: id(),
  runId: id(),
  nodeId: id(),
  middlewareId: id(),
  result: optional(bag()),
  error: optional(bag()),
  trace: optional(bag()),
});
export type NextResponse = Static<typeof NextResponseSchema>;

/** Only for workers that announce the feature `cancel`. */
export const CancelSchema = Type.Object({
  run_id: id(),
  task_id: id(),
  fence: optional(int(0)),
  reason: optional(text()),
  grace_ms: optional(int(0)),
});
export type Cancel = Static<typeof CancelSchema>;

/** What a worker runs, said right after accept when it was not part of register. */
export const InventorySchema = Type.Object({ boot_id: optional(id()), running: heldList });
export type Inventory = Static<typeof InventorySchema>;

/** What a worker kept under a name and keeps no longer. */
export const ResourceRemovedSchema = Type.Object({
  items: Type.Array(Type.Object({ resource_id: id(), reason: oneOf(["evicted", "expired", "released", "lost"]) }), {
    minItems: 1,
    maxItems: limits.batchItemsMax,
  }),
});
export type ResourceRemoved = Static<typeof ResourceRemovedSchema>;

const batch = { minItems: 1, maxItems: limits.batchItemsMax };
export const DispatchBatchSchema = Type.Object({ items: Type.Array(DispatchSchema, batch) });
export type DispatchBatch = Static<typeof DispatchBatchSchema>;
export const ResultBatchSchema = Type.Object({ items: Type.Array(ResultSchema, batch) });
export type ResultBatch = Static<typeof ResultBatchSchema>;

type WithRefs<R> = { resource_refs?: R[] };
type WithArtifacts<A> = { artifacts?: A[] };

/** v1's worker_id is our worker_name, in refs and artifacts alike. */
const nameOf = <T extends { worker_id: string }>({ worker_id, ...rest }: T) => ({ ...rest, worker_name: worker_id });
const idOf = <T extends { worker_name: string }>({ worker_name, ...rest }: T) => ({ ...rest, worker_id: worker_name });

export function normaliseDispatchV1<R extends { worker_id: string }, T extends WithRefs<R>>(dispatch: T) {
  const { resource_refs, ...rest } = dispatch;
  return resource_refs ? { ...rest, resource_refs: resource_refs.map(nameOf) } : rest;
}
export function spellDispatchV1<R extends { worker_name: string }, T extends WithRefs<R>>(dispatch: T) {
  const { resource_refs, ...rest } = dispatch;
  return resource_refs ? { ...rest, resource_refs: resource_refs.map(idOf) } : rest;
}
export function normaliseResultV1<A extends { worker_id: string }, T extends WithArtifacts<A>>(result: T) {
  const { artifacts, ...rest } = result;
  return artifacts ? { ...rest, artifacts: artifacts.map(nameOf) } : rest;
}
export function spellResultV1<A extends { worker_name: string }, T extends WithArtifacts<A>>(result: T) {
  const { artifacts, ...rest } = result;
  return artifacts ? { ...rest, artifacts: artifacts.map(idOf) } : rest;
}
