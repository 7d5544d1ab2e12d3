// What a worker keeps under a name for later tasks: leased, limited in size and time, the longest idle removed first.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import path from "node:path";
import { type Fault, fault, type JsonObject, limits, type ResultArtifact } from "@astraflow/protocol";
import type { KeptResource, ResourceDraft, StoredFile } from "@astraflow/sdk";
import { type FileTransfer, noFileTransferFault } from "./file-transfer.ts";
import {
  type ResourceEntry,
  type ResourcePorts,
  type ResourceRemovedReason,
  type ResourceReport,
  type ResourceSettings,
  toKeptResource,
} from "./resource.ts";
import type { ResourceFiles } from "./resource-files.ts";

const isName = (value: unknown, charsMax: number): boolean =>
  typeof value === "string" && value !== "" && value.length <= charsMax && !/\p{Cc}/u.test(value);

type FileDetails = Omit<ResourceDraft, "id" | "type" | "path" | "value"> & { readonly type?: string };

interface UploadOptions {
  readonly filename?: string;
  readonly mimeType?: string;
  /** A file whose bytes are sent in place of those that are kept. */
  readonly contentFrom?: string;
}

export class ResourceRegistry {
  readonly settings: ResourceSettings;
  readonly #ports: ResourcePorts;
  readonly #files: ResourceFiles;
  readonly #entries = new Map<string, ResourceEntry>();
  /** Dropped while leased: their names are free, their files are not yet. */
  readonly #droppedInUse = new Set<ResourceEntry>();
  /** Null once something was added or removed. */
  #report: ResourceReport | null = null;
  #lastGcAt: number;
  #isGcScheduled = false;

  constructor(ports: ResourcePorts, folder: ResourceFiles, settings: ResourceSettings) {
    this.#ports = ports;
    this.#files = folder;
    this.settings = settings;
    this.#lastGcAt = ports.wallClock();
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Files that an earlier process has kept here: they are as good as before. */
  restoreFiles(): void {
    for (const file of this.#files.loadStoredFiles())
      this.#addEntry(file, { isOnDisk: true, isFileOwned: true, createdAt: file.createdAt });
    if (this.size > 0) this.collectExpired();
    // Which of them results have named is not stored; reporting too many does no harm. What expired just now is missing in the next
    // register, so it needs no report.
    for (const entry of this.#entries.values()) entry.isReferenced = true;
  }

  register(draft: ResourceDraft): KeptResource {
    return toKeptResource(this.#addEntry(draft, { isOnDisk: draft.path !== undefined, isFileOwned: false }));
  }

  /** A file from an attempt's own directory moves in, since that is removed; any other stays where it is, and stays when its entry goes. */
  registerFile(id: string, file: string, more: FileDetails = {}): KeptResource {
    const { type = "file", ...rest } = more;
    const kept = this.#files.storeFile(
      { id, type, createdAt: this.#ports.wallClock(), expiresAt: this.#expiryOrDefault(rest.expiresAt), ...rest },
      file,
    );
    return toKeptResource(this.#addEntry({ ...rest, ...kept.file }, { isOnDisk: true, isFileOwned: kept.isFileOwned }));
  }

  /** A value that is too large to travel, as a file of JSON. */
  registerJson(id: string, text: string, more: Pick<ResourceDraft, "scope" | "metadata"> = {}): KeptResource {
    const sizeBytes = Buffer.byteLength(text);
    this.#makeRoom({ disk: sizeBytes, mem: 0 });
    const details = {
      id,
      type: "json",
      createdAt: this.#ports.wallClock(),
      expiresAt: this.#expiryOrDefault(undefined),
      ...more,
    };
    return toKeptResource(this.#addEntry(this.#files.storeText(details, text), { isOnDisk: true, isFileOwned: true }));
  }

  /** Stores a kept file with the scheduler, where people and other workers find it; its artifact says so in `metadata.stored`. */
  async upload(id: string, options: UploadOptions = {}): Promise<StoredFile> {
    const { path: file } = this.lease(id);
    try {
      if (file === undefined) throw fault("E.PARAMS.INVALID", `resource ${id} is no file; only files can be stored`);
      const { filename = path.basename(file), mimeType, contentFrom = file } = options;
      const { workerName } = this.settings;
      const stored = await this.#transferFile({
        ...{ type: "upload", path: contentFrom, workerName, filename },
        ...(mimeType !== undefined && { mimeType }),
      });
      const entry = this.#entries.get(id);
      if (entry?.path === file) this.#addMetadata(entry, { stored: { ...stored } });
      return stored;
    } finally {
      this.release(id);
    }
  }

  /** Fetches a file that a worker has stored, and keeps it under a name of its own. What is here already is not fetched again. */
  async download(resourceId: string, more: Omit<FileDetails, "type"> & { readonly id?: string } = {}): Promise<KeptResource> {
    const { id = `file ${resourceId}`, ...details } = more;
    const here = this.#findLive(id);
    if (here?.path !== undefined && (here.metadata["stored"] as Partial<StoredFile> | undefined)?.resourceId === resourceId)
      return toKeptResource(here);
    const file = this.#files.createTransferPath();
    const stored = await this.#transferFile({
      ...{ type: "download", path: file, resourceId },
      bytesMax: this.settings.diskBytesMax,
    });
    this.#makeRoom({ disk: stored.sizeBytes, mem: 0 });
    return this.registerFile(id, file, { ...details, metadata: { ...details.metadata, stored: { ...stored } } });
  }

  get(id: string): KeptResource | undefined {
    const entry = this.#findLive(id);
    return entry === undefined ? undefined : toKeptResource(entry);
  }

  readJson(id: string): unknown {
    const entry = this.#findLive(id);
    if (entry?.path === undefined) throw this.#missingFault(id);
    return JSON.parse(readFileSync(entry.path, "utf8"));
  }

  /** Nothing that is leased is evicted or expires. */
  lease(id: string): KeptResource {
    const entry = this.#findLive(id);
    if (entry === undefined) throw this.#missingFault(id);
    entry.inUse++;
    entry.usedAt = this.#ports.wallClock();
    return toKeptResource(entry);
  }

  release(id: string): void {
    const leaving = [...this.#droppedInUse].filter((one) => one.id === id);
    const entry = [this.#entries.get(id), ...leaving].find((one) => one !== undefined && one.inUse > 0);
    if (entry === undefined) return;
    entry.inUse--;
    entry.usedAt = this.#ports.wallClock();
    if (entry.inUse === 0 && this.#droppedInUse.delete(entry)) this.#cleanUp(entry, "dropped");
  }

  /** Lives on until then; without an instant for the usual time from now. */
  touch(id: string, expiresAt?: number): boolean {
    const entry = this.#findLive(id);
    if (entry === undefined) return false;
    entry.expiresAt = this.#expiryOrDefault(expiresAt);
    entry.usedAt = this.#ports.wallClock();
    if (entry.isFileOwned && entry.path !== undefined) this.#files.writeMetadata({ ...entry, path: entry.path });
    return true;
  }

  /** `lost`: what it stood for no longer exists. */
  drop(id: string, reason = "dropped"): boolean {
    const entry = this.#entries.get(id);
    if (entry !== undefined) this.#removeEntry(entry, reason === "lost" ? "lost" : "released", { dropReason: reason });
    return entry !== undefined;
  }

  /** Lets all of a scope go. Gives how many there were. */
  releaseScope(scope: string): number {
    const all = [...this.#entries.values()].filter((entry) => entry.scope === scope);
    for (const entry of all) this.#removeEntry(entry, "released", { dropReason: `scope ${scope} was released` });
    return all.length;
  }

  list(which: { readonly scope?: string; readonly type?: string } = {}): KeptResource[] {
    const { scope, type } = which;
    return [...this.#entries.values()]
      .filter((entry) => (scope === undefined || entry.scope === scope) && (type === undefined || entry.type === type))
      .map(toKeptResource);
  }

  collectExpired(): number {
    const now = this.#ports.wallClock();
    this.#lastGcAt = now;
    const expired = [...this.#entries.values()].filter((entry) => entry.inUse === 0 && entry.expiresAt <= now);
    for (const entry of expired) this.#removeEntry(entry, "expired");
    this.#scheduleGc();
    return expired.length;
  }

  /** Those that results have named and that are still here. */
  referencedIds(): string[] {
    return [...this.#entries.values()].flatMap((entry) => (entry.isReferenced ? [entry.id] : []));
  }

  markReferenced(id: string): void {
    const entry = this.#entries.get(id);
    if (entry === undefined || entry.isReferenced) return;
    entry.isReferenced = true;
    this.#ports.resourceReferenced?.(id);
  }

  /** A result has named it: where it was removed before that, the report came too early to mean anything. */
  reportIfLost(id: string): void {
    if (!this.#entries.has(id)) this.#ports.resourceRemoved?.(id, "lost");
  }

  artifact(id: string, { inline = false }: { readonly inline?: boolean } = {}): ResultArtifact {
    const entry = this.#findLive(id);
    if (entry === undefined) throw this.#missingFault(id);
    if (!inline) this.markReferenced(id);
    return {
      resource_id: id,
      worker_name: this.settings.workerName,
      type: entry.type,
      size_bytes: entry.sizeBytes,
      inline,
      expires_at: new Date(entry.expiresAt).toISOString(),
      ...(Object.keys(entry.metadata).length > 0 && { metadata: entry.metadata }),
    };
  }

  /** For the heartbeat. Lifetimes and leases are left out: they change with every task. */
  report(): ResourceReport {
    if (this.#report !== null) return this.#report;
    const items = [...this.#entries.values()].map(({ id, type, sizeBytes }) => ({
      resource_id: id,
      type,
      size_bytes: sizeBytes,
    }));
    const hash = createHash("sha256");
    for (const line of items.map((item) => JSON.stringify(Object.values(item))).sort()) hash.update(`${line}\n`);
    this.#report = {
      hash: hash.digest("hex").slice(0, 32),
      count: items.length,
      items: items.slice(-limits.heartbeatResourcesMax),
    };
    return this.#report;
  }

  /** For the heartbeat; empty where nothing is kept. */
  metrics(): Record<string, number> {
    if (this.#entries.size === 0 && this.#droppedInUse.size === 0) return {};
    const all = [...this.#entries.values()];
    const { disk, mem } = this.#usedBytes();
    return {
      "resource.disk_bytes_in_use": disk,
      "resource.mem_bytes_in_use": mem,
      "resource.sessions_active": all.filter((entry) => entry.inUse > 0).length,
      "resource.eviction_candidates": all.filter((entry) => entry.inUse === 0).length,
      "resource.last_gc_seconds": Math.max(0, Math.round((this.#ports.wallClock() - this.#lastGcAt) / 1_000)),
    };
  }

  #addEntry(
    draft: ResourceDraft,
    about: Pick<ResourceEntry, "isOnDisk" | "isFileOwned"> & { createdAt?: number },
  ): ResourceEntry {
    const { id, type } = draft;
    // Both are named in results, and the id in every register.
    if (!isName(id, limits.idCharsMax) || !isName(type, limits.nameCharsMax)) {
      const needed = `an id of 1 to ${limits.idCharsMax} characters and a type of at most ${limits.nameCharsMax}`;
      throw fault("E.FRAME.INVALID", `a resource needs ${needed}, without control characters`);
    }
    const now = this.#ports.wallClock();
    const sizeBytes = Math.max(0, Math.round(draft.sizeBytes ?? 0));
    const before = this.#entries.get(id);
    if (before !== undefined) this.#removeEntry(before, "replaced", { newPath: draft.path });
    this.#makeRoom(about.isOnDisk ? { disk: sizeBytes, mem: 0 } : { disk: 0, mem: sizeBytes });
    const entry: ResourceEntry = {
      ...draft,
      metadata: draft.metadata ?? {},
      sizeBytes,
      createdAt: about.createdAt ?? now,
      isOnDisk: about.isOnDisk,
      isFileOwned: about.isFileOwned,
      expiresAt: this.#expiryOrDefault(draft.expiresAt),
      usedAt: now,
      inUse: 0,
      isDropped: false,
      // Under a name that others know already it is what they will find.
      isReferenced: before?.isReferenced === true,
    };
    this.#entries.set(id, entry);
    this.#report = null;
    this.#scheduleGc();
    return entry;
  }

  async #transferFile(transfer: FileTransfer): Promise<StoredFile> {
    if (this.#ports.transferFile !== undefined) return this.#ports.transferFile(transfer);
    throw noFileTransferFault();
  }

  #addMetadata(entry: ResourceEntry, added: JsonObject): void {
    entry.metadata = { ...entry.metadata, ...added };
    if (entry.isFileOwned && entry.path !== undefined) this.#files.writeMetadata({ ...entry, path: entry.path });
  }

  #expiryOrDefault(expiresAt: number | undefined): number {
    return expiresAt !== undefined && Number.isFinite(expiresAt) ? expiresAt : this.#ports.wallClock() + this.settings.ttlMs;
  }

  #findLive(id: string): ResourceEntry | undefined {
    const entry = this.#entries.get(id);
    if (entry === undefined || entry.inUse > 0 || entry.expiresAt > this.#ports.wallClock()) return entry;
    this.#removeEntry(entry, "expired");
    return undefined;
  }

  #missingFault(id: string): Fault {
    return fault(
      "E.RESOURCE.MISSING",
      `worker ${this.settings.workerName} does not keep resource ${id}: it never did, or the resource expired or was removed`,
    );
  }

  #usedBytes(): { disk: number; mem: number } {
    const used = { disk: 0, mem: 0 };
    for (const entry of [...this.#entries.values(), ...this.#droppedInUse])
      used[entry.isOnDisk ? "disk" : "mem"] += entry.sizeBytes;
    return used;
  }

  #makeRoom(need: { readonly disk: number; readonly mem: number }): void {
    const { diskBytesMax, memBytesMax } = this.settings;
    this.#evict("disk", need.disk, diskBytesMax);
    this.#evict("mem", need.mem, memBytesMax);
  }

  #evict(where: "disk" | "mem", needBytes: number, bytesMax: number): void {
    if (needBytes === 0) return;
    let over = this.#usedBytes()[where] + needBytes - bytesMax;
    if (over <= 0) return;
    const idle = [...this.#entries.values()]
      .filter((entry) => entry.inUse === 0 && entry.isOnDisk === (where === "disk"))
      .sort((a, b) => a.usedAt - b.usedAt);
    for (const entry of idle) {
      if (over <= 0) return;
      over -= entry.sizeBytes;
      this.#removeEntry(entry, "evicted");
    }
    if (over > 0)
      throw fault(
        "E.RESOURCE.FULL",
        `worker ${this.settings.workerName} cannot keep ${needBytes} more bytes ${where === "disk" ? "on disk" : "in memory"} (limit ${bytesMax}): everything it keeps is in use`,
      );
  }

  #removeEntry(
    entry: ResourceEntry,
    reason: ResourceRemovedReason | "replaced",
    { dropReason = reason, newPath }: { readonly dropReason?: string; readonly newPath?: string | undefined } = {},
  ): void {
    this.#entries.delete(entry.id);
    this.#report = null;
    entry.isDropped = true;
    if (entry.isReferenced && reason !== "replaced") this.#ports.resourceRemoved?.(entry.id, reason);
    if (entry.inUse > 0) this.#droppedInUse.add(entry);
    else if (entry.path === undefined || entry.path !== newPath) this.#cleanUp(entry, dropReason);
  }

  #cleanUp(entry: ResourceEntry, reason: string): void {
    try {
      if (entry.isFileOwned && entry.path !== undefined) this.#files.removeFile(entry.path);
      entry.onDrop?.(reason);
    } catch (cause) {
      this.#ports.reportProblem({ message: `resource ${entry.id} could not be cleaned up`, cause });
    }
  }

  /** Asked for only while there is something to look at: a worker that keeps nothing needs no timer. */
  #scheduleGc(): void {
    if (this.#isGcScheduled || this.#entries.size === 0) return;
    this.#isGcScheduled = true;
    this.#ports.after(this.settings.gcIntervalMs, () => {
      this.#isGcScheduled = false;
      this.collectExpired();
    });
  }
}
