// A resource that a worker keeps under a name: as handlers register it, as they see it, and the limits of all of them.

import type { HeartbeatPayload, JsonObject, ResourceRemovedPayload } from "@astraflow/protocol";
import type { KeptResource, ResourceDraft, StoredFile } from "@astraflow/sdk";
import type { FileTransfer } from "./file-transfer.ts";

export const resourceDefaults = {
  diskBytesMax: 10 * 1024 ** 3,
  memBytesMax: 1024 ** 3,
  /** How long a resource lives that sets no expiry. */
  ttlMs: 3_600_000,
  gcIntervalMs: 60_000,
  /** A result above this leaves its large parts here. */
  inlineBytesMax: 2 * 1024 ** 2,
};

/** The limits, and the name of this worker in refs and artifacts. */
export type ResourceSettings = Readonly<typeof resourceDefaults> & { readonly workerName: string };

/** What is kept, for a heartbeat: the same digest for the same resources, and the latest ones by name. */
export type ResourceReport = Required<NonNullable<HeartbeatPayload["resources"]>>;

export interface ResourcePorts {
  /** Milliseconds since 1970: other machines see when a resource expires. */
  wallClock(): number;
  after(ms: number, call: () => void): () => void;
  reportProblem(problem: { message: string; cause: unknown }): void;
  /** A result names it, so the scheduler will send tasks here for it. Called once. */
  resourceReferenced?(id: string): void;
  /** A referenced resource is gone for everybody who does not lease it. */
  resourceRemoved?(id: string, reason: ResourceRemovedReason): void;
  /** Sends a file to the scheduler, or fetches one; absent: this worker has no way to its files. */
  transferFile?(transfer: FileTransfer): Promise<StoredFile>;
}

export type ResourceRemovedReason = ResourceRemovedPayload["items"][number]["reason"];

export interface ResourceEntry extends Omit<ResourceDraft, "metadata"> {
  metadata: JsonObject;
  readonly sizeBytes: number;
  readonly createdAt: number;
  readonly isOnDisk: boolean;
  /** The file is the registry's own and goes with its entry. */
  readonly isFileOwned: boolean;
  expiresAt: number;
  usedAt: number;
  inUse: number;
  isDropped: boolean;
  /** The scheduler knows of it, or is about to. */
  isReferenced: boolean;
}

export function toKeptResource(entry: ResourceEntry): KeptResource {
  const { id, type, scope, path, value, metadata, sizeBytes, createdAt, expiresAt, inUse, isDropped } = entry;
  const state = isDropped ? "dropped" : inUse > 0 ? "leased" : "idle";
  return { id, type, scope, path, value, metadata, sizeBytes, createdAt, expiresAt, inUse, state };
}
