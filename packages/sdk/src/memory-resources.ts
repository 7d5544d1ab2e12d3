// Resources in memory, for tests of handlers: what a worker would keep, without its files, limits and leases of others.

import { readFileSync, statSync } from "node:fs";
import { basename } from "node:path";
import type { JsonObject } from "./json.ts";
import type { HandlerArtifact, HandlerResources, KeptResource, ResourceDraft, StoredFile, UploadOptions } from "./resources.ts";

const lifetimeMs = 3_600_000;

interface Entry extends ResourceDraft {
  readonly createdAt: number;
  readonly sizeBytes: number;
  readonly metadata: JsonObject;
  readonly expiresAt: number;
  inUse: number;
}

export class MemoryResources implements HandlerResources {
  readonly workerName: string;
  /** Files that were uploaded, by the id that the scheduler would have given. */
  readonly uploads = new Map<string, StoredFile & { readonly content: Buffer }>();
  readonly #entries = new Map<string, Entry>();

  constructor(workerName = "test-worker") {
    this.workerName = workerName;
  }

  register(draft: ResourceDraft): KeptResource {
    const now = Date.now();
    this.drop(draft.id, "replaced");
    const { metadata = {}, sizeBytes = sizeOf(draft.path), expiresAt = now + lifetimeMs } = draft;
    this.#entries.set(draft.id, { ...draft, metadata, sizeBytes, expiresAt, createdAt: now, inUse: 0 });
    return this.#view(draft.id);
  }

  registerFile(id: string, file: string, more: Parameters<HandlerResources["registerFile"]>[2] = {}): KeptResource {
    return this.register({ type: "file", ...more, id, path: file });
  }

  registerJson(id: string, text: string, more: Pick<ResourceDraft, "scope" | "metadata"> = {}): KeptResource {
    const value: unknown = JSON.parse(text);
    return this.register({ ...more, id, type: "json", value, sizeBytes: Buffer.byteLength(text) });
  }

  get(id: string): KeptResource | undefined {
    return this.#entries.has(id) ? this.#view(id) : undefined;
  }

  readJson(id: string): unknown {
    const { path, value } = this.#find(id);
    return path === undefined ? value : JSON.parse(readFileSync(path, "utf8"));
  }

  async upload(id: string, { filename, mimeType, contentFrom }: UploadOptions = {}): Promise<StoredFile> {
    const { path } = this.#find(id);
    if (path === undefined) throw new Error(`resource ${id} is no file; only files can be stored`);
    const content = readFileSync(contentFrom ?? path);
    const resourceId = `test-file-${this.uploads.size + 1}`;
    const stored: StoredFile = {
      resourceId,
      downloadUrl: `/api/v1/resources/${resourceId}/download`,
      filename: filename ?? basename(path),
      sizeBytes: content.length,
      sha256: "",
      ...(mimeType !== undefined && { mimeType }),
    };
    this.uploads.set(resourceId, { ...stored, content });
    return stored;
  }

  async download(resourceId: string, more: { readonly id?: string; readonly scope?: string } = {}): Promise<KeptResource> {
    const stored = this.uploads.get(resourceId);
    if (stored === undefined) throw new Error(`file ${resourceId} is not among the uploads of this test`);
    const { id = `file ${resourceId}`, ...details } = more;
    return this.register({ ...details, id, type: "file", value: stored.content, sizeBytes: stored.sizeBytes });
  }

  lease(id: string): KeptResource {
    this.#find(id).inUse++;
    return this.#view(id);
  }

  release(id: string): void {
    const entry = this.#entries.get(id);
    if (entry !== undefined && entry.inUse > 0) entry.inUse--;
  }

  touch(id: string, expiresAt = Date.now() + lifetimeMs): boolean {
    const entry = this.#entries.get(id);
    if (entry !== undefined) this.#entries.set(id, { ...entry, expiresAt });
    return entry !== undefined;
  }

  drop(id: string, reason = "dropped"): boolean {
    const entry = this.#entries.get(id);
    this.#entries.delete(id);
    entry?.onDrop?.(reason);
    return entry !== undefined;
  }

  releaseScope(scope: string): number {
    const ids = [...this.#entries.values()].flatMap((entry) => (entry.scope === scope ? [entry.id] : []));
    for (const id of ids) this.drop(id, `scope ${scope} was released`);
    return ids.length;
  }

  list({ scope, type }: { readonly scope?: string; readonly type?: string } = {}): KeptResource[] {
    return [...this.#entries.values()]
      .filter((entry) => (scope === undefined || entry.scope === scope) && (type === undefined || entry.type === type))
      .map((entry) => this.#view(entry.id));
  }

  artifact(id: string, { inline = false }: { readonly inline?: boolean } = {}): HandlerArtifact {
    const { type, sizeBytes, expiresAt, metadata } = this.#find(id);
    return {
      resource_id: id,
      worker_name: this.workerName,
      type,
      size_bytes: sizeBytes,
      inline,
      expires_at: new Date(expiresAt).toISOString(),
      metadata,
    };
  }

  #find(id: string): Entry {
    const entry = this.#entries.get(id);
    if (entry === undefined)
      throw new Error(`resource ${id} is not there; the handler of an earlier task would have registered it`);
    return entry;
  }

  #view(id: string): KeptResource {
    const { type, scope, path, value, metadata, sizeBytes, createdAt, expiresAt, inUse } = this.#find(id);
    return {
      id,
      type,
      scope,
      path,
      value,
      metadata,
      sizeBytes,
      createdAt,
      expiresAt,
      inUse,
      state: inUse > 0 ? "leased" : "idle",
    };
  }
}

const sizeOf = (path: string | undefined): number => (path === undefined ? 0 : statSync(path).size);
