// What a worker keeps under a name, as handlers register, lease and release it.

import type { JsonObject } from "./json.ts";

export interface ResourceDraft {
  readonly id: string;
  readonly type: string;
  /** What belongs together and may be let go together: a session, a run. */
  readonly scope?: string;
  readonly path?: string;
  /** Anything of this process: a browser, a model. Handed back to whoever leases it. */
  readonly value?: unknown;
  readonly metadata?: JsonObject;
  readonly sizeBytes?: number;
  /** Milliseconds since 1970; absent: after the usual time. */
  readonly expiresAt?: number;
  /** Called once when it goes: expired, evicted, dropped or replaced. */
  readonly onDrop?: (reason: string) => void;
}

export interface KeptResource {
  readonly id: string;
  readonly type: string;
  readonly scope: string | undefined;
  readonly path: string | undefined;
  readonly value: unknown;
  readonly metadata: JsonObject;
  readonly sizeBytes: number;
  readonly createdAt: number;
  readonly expiresAt: number;
  readonly inUse: number;
  /** dropped: gone for everybody but those who still hold it. */
  readonly state: "idle" | "leased" | "dropped";
}

/** A file as the scheduler keeps it: whoever may read in the tenant finds it at `downloadUrl`. */
export interface StoredFile {
  readonly resourceId: string;
  readonly downloadUrl: string;
  readonly filename: string;
  readonly sizeBytes: number;
  readonly sha256: string;
  readonly mimeType?: string;
}

/** A reference to a kept resource, for the `artifacts` of a result. */
export interface HandlerArtifact {
  readonly resource_id: string;
  readonly worker_name: string;
  readonly type: string;
  readonly size_bytes?: number;
  readonly inline?: boolean;
  readonly expires_at?: string;
  readonly metadata?: JsonObject;
}

export interface UploadOptions {
  readonly filename?: string;
  readonly mimeType?: string;
  /** A file whose bytes are sent in place of those that are kept. */
  readonly contentFrom?: string;
}

type FileDetails = Omit<ResourceDraft, "id" | "type" | "path" | "value"> & { readonly type?: string };

/** What this worker keeps under a name, for this task and for others to come. */
export interface HandlerResources {
  register(draft: ResourceDraft): KeptResource;
  /** A file from the task's own directory moves in, since that is removed; any other stays where it is, and stays when its entry goes. */
  registerFile(id: string, file: string, more?: FileDetails): KeptResource;
  /** A value that is too large to travel, as a file of JSON. */
  registerJson(id: string, text: string, more?: Pick<ResourceDraft, "scope" | "metadata">): KeptResource;
  get(id: string): KeptResource | undefined;
  readJson(id: string): unknown;
  /** Stores a kept file with the scheduler, where people and other workers find it; its artifact says so in `metadata.stored`. */
  upload(id: string, options?: UploadOptions): Promise<StoredFile>;
  /** Fetches a file that a worker has stored, and keeps it under a name of its own. What is here already is not fetched again. */
  download(resourceId: string, more?: Omit<FileDetails, "type"> & { readonly id?: string }): Promise<KeptResource>;
  /** Nothing that is leased is evicted or expires. */
  lease(id: string): KeptResource;
  release(id: string): void;
  /** Lives on until then; without an instant for the usual time from now. */
  touch(id: string, expiresAt?: number): boolean;
  /** `lost`: what it stood for no longer exists. */
  drop(id: string, reason?: string): boolean;
  /** Lets all of a scope go. Gives how many there were. */
  releaseScope(scope: string): number;
  list(which?: { readonly scope?: string; readonly type?: string }): KeptResource[];
  artifact(id: string, options?: { readonly inline?: boolean }): HandlerArtifact;
}
