// Payloads of the work frames: execution and packages. The base schema of each is what existing workers know; ours adds the fence, or the
// id of the command.

import type { Static } from "typebox";
import { limits } from "../json/limits.ts";
import * as t from "../schema/field-types.ts";
import { heldTaskList } from "./control-payloads.ts";

const resourceRefFields = {
  type: t.name(),
  scope: t.optional(t.name()),
  expires_at: t.optional(t.instant()),
  metadata: t.optional(t.openObject()),
};
const resourceRefList = <T extends { worker_name: ReturnType<typeof t.id> } | { worker_id: ReturnType<typeof t.id> }>(
  worker: T,
) => t.list(t.object({ resource_id: t.id(), ...worker, ...resourceRefFields }), 1_000);
const affinity = t.object({
  key: t.id(),
  mode: t.optional(t.oneOf(["sticky", "preferred"])),
  expires_at: t.optional(t.instant()),
});

const dispatchFields = {
  run_id: t.id(),
  task_id: t.id(),
  node_id: t.id(),
  node_type: t.id(),
  package_name: t.id(),
  package_version: t.id(),
  parameters: t.openObject(),
  constraints: t.object({ timeout_ms: t.optional(t.integer(1)) }),
  concurrency_key: t.optional(t.id()),
  priority: t.optional(t.integer(Number.MIN_SAFE_INTEGER)),
  host_node_id: t.optional(t.id()),
  middleware_chain: t.optional(t.list(t.id(), 1_000)),
  chain_index: t.optional(t.integer(0)),
  affinity: t.optional(affinity),
};
export const DispatchFirstGenSchema = t.object({
  ...dispatchFields,
  resource_refs: t.optional(resourceRefList({ worker_name: t.id() })),
});
export const DispatchV1Schema = t.object({
  ...dispatchFields,
  resource_refs: t.optional(resourceRefList({ worker_id: t.id() })),
});
export const DispatchSchema = t.object({
  ...DispatchFirstGenSchema.properties,
  fence: t.optional(t.integer(0, "Under which the attempt was granted; echo it in every message about the task.")),
  attempt: t.optional(t.integer(1)),
});
export type DispatchPayload = Static<typeof DispatchSchema>;

const chunkSchema = t.object({
  channel: t.id("stdout, stderr, log, llm, metric, custom, or any other name, which is stored and shown as it is."),
  index: t.optional(t.integer(0)),
  mime_type: t.optional(t.name()),
  text: t.optional(t.string()),
  data_base64: t.optional(t.string()),
  metadata: t.optional(t.openObject()),
});
export type OutputChunk = Static<typeof chunkSchema>;

export const FeedbackFirstGenSchema = t.object({
  run_id: t.id(),
  task_id: t.id(),
  stage: t.optional(t.string({ minLength: 1, maxLength: limits.nameCharsMax })),
  progress: t.optional(t.number({ minimum: 0, maximum: 1 })),
  message: t.optional(t.text()),
  chunks: t.optional(t.list(chunkSchema, limits.chunksMax)),
  metrics: t.optional(t.map(t.number())),
  metadata: t.optional(t.openObject()),
});
export const FeedbackSchema = t.object({ ...FeedbackFirstGenSchema.properties, fence: t.optional(t.integer(0)) });
export type FeedbackPayload = Static<typeof FeedbackSchema>;

const artifactFields = {
  type: t.name(),
  size_bytes: t.optional(t.integer(0)),
  inline: t.optional(t.boolean()),
  expires_at: t.optional(t.instant()),
  metadata: t.optional(t.openObject()),
};
const artifactSchema = t.object({ resource_id: t.id(), worker_name: t.id(), ...artifactFields });
export type ResultArtifact = Static<typeof artifactSchema>;

const resultFields = {
  run_id: t.id(),
  task_id: t.id(),
  status: t.oneOf(["SUCCEEDED", "FAILED", "SKIPPED", "CANCELLED"]),
  result: t.openObject(),
  duration_ms: t.optional(t.integer(0)),
  metadata: t.optional(t.openObject()),
  error: t.optionalObject({ code: t.id(), message: t.nonEmptyText(), remediation: t.optional(t.text()) }),
};
export const ResultFirstGenSchema = t.object({ ...resultFields, artifacts: t.optional(t.list(artifactSchema, 1_000)) });
export const ResultV1Schema = t.object({
  ...resultFields,
  artifacts: t.optional(t.list(t.object({ resource_id: t.id(), worker_id: t.id(), ...artifactFields }), 1_000)),
});
export const ResultSchema = t.object({ ...ResultFirstGenSchema.properties, fence: t.optional(t.integer(0)) });
export type ResultPayload = Static<typeof ResultSchema>;

export const ExecErrorFirstGenSchema = t.object({
  code: t.id(),
  message: t.nonEmptyText(),
  remediation: t.optional(t.text()),
  context: t.optionalObject({ where: t.optional(t.name()), details: t.optional(t.openObject()) }),
});
export const ExecErrorSchema = t.object({
  ...ExecErrorFirstGenSchema.properties,
  run_id: t.optional(t.id()),
  task_id: t.optional(t.id()),
  fence: t.optional(t.integer(0)),
});
export type ExecErrorPayload = Static<typeof ExecErrorSchema>;

export const NextRequestFirstGenSchema = t.object({
  requestId: t.id(),
  runId: t.id(),
  nodeId: t.id(),
  middlewareId: t.id(),
  chainIndex: t.optional(t.integer(0)),
  hostCtx: t.optional(t.openObject()),
  middlewareCtx: t.optional(t.openObject()),
  payload: t.optional(t.openObject()),
  timeoutMs: t.optional(t.integer(1)),
});
/** A node may run more than once in a run, so our frames say which attempt asks. */
export const NextRequestSchema = t.object({
  ...NextRequestFirstGenSchema.properties,
  task_id: t.optional(t.id()),
  fence: t.optional(t.integer(0)),
});
export type NextRequestPayload = Static<typeof NextRequestSchema>;

export const NextResponseSchema = t.object({
  requestId: t.id(),
  runId: t.id(),
  nodeId: t.id(),
  middlewareId: t.id(),
  result: t.optional(t.openObject()),
  error: t.optional(t.openObject()),
  trace: t.optional(t.openObject()),
});
export type NextResponsePayload = Static<typeof NextResponseSchema>;

/** Only for workers that announce the feature `cancel`. */
export const CancelSchema = t.object({
  run_id: t.id(),
  task_id: t.id(),
  fence: t.optional(t.integer(0)),
  reason: t.optional(t.text()),
  grace_ms: t.optional(t.integer(0)),
});
export type CancelPayload = Static<typeof CancelSchema>;

/** What a worker runs; sent right after accept if it was not part of register. */
export const InventorySchema = t.object({ boot_id: t.optional(t.id()), running: heldTaskList });
export type InventoryPayload = Static<typeof InventorySchema>;

export const ResourceRemovedSchema = t.object({
  items: t.array(t.object({ resource_id: t.id(), reason: t.oneOf(["evicted", "expired", "released", "lost"]) }), {
    minItems: 1,
    maxItems: limits.batchItemsMax,
  }),
});
export type ResourceRemovedPayload = Static<typeof ResourceRemovedSchema>;

const batchSize = { minItems: 1, maxItems: limits.batchItemsMax };
export const DispatchBatchSchema = t.object({ items: t.array(DispatchSchema, batchSize) });
export type DispatchBatchPayload = Static<typeof DispatchBatchSchema>;
export const ResultBatchSchema = t.object({ items: t.array(ResultSchema, batchSize) });
export type ResultBatchPayload = Static<typeof ResultBatchSchema>;

/** worker_id of v1 is our worker_name, in refs and artifacts. */
const renameWorker =
  (list: "resource_refs" | "artifacts", from: string, to: string) =>
  ({ [list]: items, ...rest }: Readonly<Record<string, unknown>>): object =>
    Array.isArray(items) ? { ...rest, [list]: items.map(({ [from]: worker, ...item }) => ({ ...item, [to]: worker })) } : rest;

export const normaliseDispatchV1 = renameWorker("resource_refs", "worker_id", "worker_name");
export const formatDispatchV1 = renameWorker("resource_refs", "worker_name", "worker_id");
export const normaliseResultV1 = renameWorker("artifacts", "worker_id", "worker_name");
export const formatResultV1 = renameWorker("artifacts", "worker_name", "worker_id");

export const PkgInstallFirstGenSchema = t.object({
  name: t.id(),
  version: t.id(),
  url: t.optional(t.string({ format: "uri", maxLength: 4_096 })),
  sha256: t.optional(t.string({ maxLength: 128 })),
});
/** A digest does not prove who made the archive, so ours may have a signature, and the id of the command. */
export const PkgInstallSchema = t.object({
  ...PkgInstallFirstGenSchema.properties,
  signature: t.optionalObject({
    key_id: t.id(),
    ed25519: t.string({ pattern: "^[A-Za-z0-9+/_=-]+$", maxLength: 256 }),
    signed_at: t.optional(t.name()),
    signed_by: t.optional(t.name()),
    tenant: t.optional(t.name("The tenant it was signed for; absent: the worker's.")),
  }),
  allow_older: t.optional(t.boolean({ description: "An operator wants this version although the worker had a newer one." })),
  command_id: t.optional(t.id()),
});
export type PkgInstallPayload = Static<typeof PkgInstallSchema>;

export const PkgUninstallFirstGenSchema = t.object({ name: t.id(), version: t.optional(t.id("Absent: every version.")) });
export const PkgUninstallSchema = t.object({ ...PkgUninstallFirstGenSchema.properties, command_id: t.optional(t.id()) });
export type PkgUninstallPayload = Static<typeof PkgUninstallSchema>;

export const PkgEventFirstGenSchema = t.object({
  name: t.id(),
  version: t.id(),
  status: t.oneOf(["installed", "failed"]),
  log_url: t.optional(t.string({ maxLength: 4_096 })),
  details: t.optional(t.openObject()),
});
export const PkgEventSchema = t.object({
  ...PkgEventFirstGenSchema.properties,
  status: t.oneOf(["installed", "failed", "removed", "installing", "removing"]),
  stage: t.optional(t.name("While installing or removing.")),
  progress: t.optional(t.number({ minimum: 0, maximum: 1 })),
  command_id: t.optional(t.id()),
});
export type PackageEventPayload = Static<typeof PkgEventSchema>;

export const PkgCatalogSchema = t.object({
  packages: t.list(
    t.object({
      name: t.id(),
      version: t.id(),
      status: t.oneOf(["installed", "missing", "failed"]),
      manifest: t.openObject(),
      source: t.optional(t.name()),
      metadata: t.optional(t.openObject()),
    }),
    limits.packagesMax,
  ),
});
export type PkgCatalogPayload = Static<typeof PkgCatalogSchema>;
