// What a worker keeps under a name for tasks to come: files, sessions, models. Counted, leased, limited in size and time; what is idle
// gives way, oldest first. It lives where the handlers run. Its files on disk are resource-folder.ts; what the scheduler makes of a name
// is not decided here.

import { type Fault, fault, limits, type ResultArtifact } from "@astraflow/protocol";
import {
  type Entry,
  type RemovedReason,
  type Resource,
  type ResourceDraft,
  type ResourcePorts,
  type ResourceSettings,
  viewOf,
} from "./resource.ts";
import type { ResourceFolder } from "./resource-folder.ts";

export class ResourceRegistry {
  readonly settings: ResourceSettings;
  readonly #ports: ResourcePorts;
  readonly #folder: ResourceFolder;
  readonly #entries = new Map<string, Entry>();
  /** Dropped while leased: their names are free, their files are not yet. */
  readonly #leaving = new Set<Entry>();
  #gcAt: number;
  #isArmed = false;

  constructor(ports: ResourcePorts, folder: ResourceFolder, settings: ResourceSettings) {
    this.#ports = ports;
    this.#folder = folder;
    this.settings = settings;
    this.#gcAt = ports.wall();
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Files that an earlier process has kept here: they are as good as before. */
  recall(): void {
    for (const file of this.#folder.recall()) this.#enter(file, { isOnDisk: true, isOwn: true, createdAt: file.createdAt });
    if (this.size > 0) this.gc();
    // Which of them were named in results nobody has written down: to say too much does no harm. What went just now is not named by the
    // next register, so it need not be told.
    for (const entry of this.#entries.values()) entry.isAnnounced = true;
  }

  register(draft: ResourceDraft): Resource {
    return viewOf(this.#enter(draft, { isOnDisk: draft.path !== undefined, isOwn: false }));
  }

  /** A file from an attempt's own directory moves in, since that is removed; any other stays where it is, and stays when its entry goes. */
  registerFile(
    id: string,
    file: string,
    more: Omit<ResourceDraft, "id" | "type" | "path" | "value"> & { type?: string } = {},
  ): Resource {
    const { type = "file", ...rest } = more;
    const kept = this.#folder.take(
      { id, type, createdAt: this.#ports.wall(), expiresAt: this.#endOf(rest.expiresAt), ...rest },
      file,
    );
    return viewOf(this.#enter({ ...rest, ...kept.file }, { isOnDisk: true, isOwn: kept.isOwn }));
  }

  /** A value that is too large to travel, as a file of JSON. */
  registerJson(id: string, text: string, more: Pick<ResourceDraft, "scope" | "metadata"> = {}): Resource {
    const sizeBytes = Buffer.byteLength(text);
    this.#makeRoom({ disk: sizeBytes, mem: 0 });
    const words = { id, type: "json", createdAt: this.#ports.wall(), expiresAt: this.#endOf(undefined), ...more };
    return viewOf(this.#enter(this.#folder.write(words, text), { isOnDisk: true, isOwn: true }));
  }

  get(id: string): Resource | undefined {
    const entry = this.#live(id);
    return entry === undefined ? undefined : viewOf(entry);
  }

  /** What a `json` resource holds. */
  readJson(id: string): unknown {
    const entry = this.#live(id);
    if (entry?.path === undefined) throw this.#missing(id);
    return JSON.parse(this.#folder.read(entry.path));
  }

  /** Nothing that is leased is evicted or expires. */
  lease(id: string): Resource {
    const entry = this.#live(id);
    if (entry === undefined) throw this.#missing(id);
    entry.inUse++;
    entry.usedAt = this.#ports.wall();
    return viewOf(entry);
  }

  /** Gives one lease back. */
  release(id: string): void {
    const leaving = [...this.#leaving].filter((one) => one.id === id);
    const entry = [this.#entries.get(id), ...leaving].find((one) => one !== undefined && one.inUse > 0);
    if (entry === undefined) return;
    entry.inUse--;
    entry.usedAt = this.#ports.wall();
    if (entry.inUse === 0 && this.#leaving.delete(entry)) this.#bury(entry, "dropped");
  }

  /** Lives on until then; without an instant for the usual time from now. */
  touch(id: string, expiresAt?: number): boolean {
    const entry = this.#live(id);
    if (entry === undefined) return false;
    entry.expiresAt = this.#endOf(expiresAt);
    entry.usedAt = this.#ports.wall();
    if (entry.isOwn && entry.path !== undefined) this.#folder.note({ ...entry, path: entry.path });
    return true;
  }

  drop(id: string, reason = "dropped"): boolean {
    const entry = this.#entries.get(id);
    if (entry !== undefined) this.#remove(entry, "released", { words: reason });
    return entry !== undefined;
  }

  /** Lets all of a scope go. Gives how many there were. */
  releaseScope(scope: string): number {
    const all = [...this.#entries.values()].filter((entry) => entry.scope === scope);
    for (const entry of all) this.#remove(entry, "released", { words: `scope ${scope} was released` });
    return all.length;
  }

  list(which: { readonly scope?: string; readonly type?: string } = {}): Resource[] {
    const { scope, type } = which;
    return [...this.#entries.values()]
      .filter((entry) => (scope === undefined || entry.scope === scope) && (type === undefined || entry.type === type))
      .map(viewOf);
  }

  /** Drops what has expired and is idle. Gives how many went. */
  gc(): number {
    const now = this.#ports.wall();
    this.#gcAt = now;
    const expired = [...this.#entries.values()].filter((entry) => entry.inUse === 0 && entry.expiresAt <= now);
    for (const entry of expired) this.#remove(entry, "expired");
    this.#arm();
    return expired.length;
  }

  /** Those that results have named and that are still here. */
  announced(): string[] {
    return [...this.#entries.values()].flatMap((entry) => (entry.isAnnounced ? [entry.id] : []));
  }

  /** A result names it. */
  announce(id: string): void {
    const entry = this.#entries.get(id);
    if (entry === undefined || entry.isAnnounced) return;
    entry.isAnnounced = true;
    this.#ports.announced?.(id);
  }

  /** A result has named it: where it went before that, the word of it came too early to mean anything. */
  tellIfLost(id: string): void {
    if (!this.#entries.has(id)) this.#ports.removed?.(id, "lost");
  }

  /** How a result names it. */
  artifact(id: string, { inline = false }: { readonly inline?: boolean } = {}): ResultArtifact {
    const entry = this.#live(id);
    if (entry === undefined) throw this.#missing(id);
    if (!inline) this.announce(id);
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

  /** For the heartbeat; empty where nothing is kept. */
  numbers(): Record<string, number> {
    if (this.#entries.size === 0 && this.#leaving.size === 0) return {};
    const all = [...this.#entries.values()];
    const { disk, mem } = this.#used();
    return {
      "resource.disk_bytes_in_use": disk,
      "resource.mem_bytes_in_use": mem,
      "resource.sessions_active": all.filter((entry) => entry.inUse > 0).length,
      "resource.eviction_candidates": all.filter((entry) => entry.inUse === 0).length,
      "resource.last_gc_seconds": Math.max(0, Math.round((this.#ports.wall() - this.#gcAt) / 1_000)),
    };
  }

  #enter(draft: ResourceDraft, about: Pick<Entry, "isOnDisk" | "isOwn"> & { createdAt?: number }): Entry {
    const { id, type } = draft;
    if (typeof id !== "string" || id === "" || id.length > limits.idCharsMax || typeof type !== "string" || type === "")
      throw fault("E.FRAME.INVALID", `a resource needs an id of 1 to ${limits.idCharsMax} characters and a type`);
    const now = this.#ports.wall();
    const sizeBytes = Math.max(0, Math.round(draft.sizeBytes ?? 0));
    const before = this.#entries.get(id);
    if (before !== undefined) this.#remove(before, "replaced", { newPath: draft.path });
    this.#makeRoom(about.isOnDisk ? { disk: sizeBytes, mem: 0 } : { disk: 0, mem: sizeBytes });
    const entry: Entry = {
      ...draft,
      metadata: draft.metadata ?? {},
      sizeBytes,
      createdAt: about.createdAt ?? now,
      isOnDisk: about.isOnDisk,
      isOwn: about.isOwn,
      expiresAt: this.#endOf(draft.expiresAt),
      usedAt: now,
      inUse: 0,
      isDropped: false,
      // Under a name that others know already it is what they will find.
      isAnnounced: before?.isAnnounced === true,
    };
    this.#entries.set(id, entry);
    this.#arm();
    return entry;
  }

  #endOf(expiresAt: number | undefined): number {
    return expiresAt !== undefined && Number.isFinite(expiresAt) ? expiresAt : this.#ports.wall() + this.settings.ttlMs;
  }

  #live(id: string): Entry | undefined {
    const entry = this.#entries.get(id);
    if (entry === undefined || entry.inUse > 0 || entry.expiresAt > this.#ports.wall()) return entry;
    this.#remove(entry, "expired");
    return undefined;
  }

  #missing(id: string): Fault {
    return fault(
      "E.RESOURCE.MISSING",
      `resource ${id} is not at worker ${this.settings.workerName}: it never was, or it has gone`,
    );
  }

  #used(): { disk: number; mem: number } {
    const used = { disk: 0, mem: 0 };
    for (const entry of [...this.#entries.values(), ...this.#leaving]) used[entry.isOnDisk ? "disk" : "mem"] += entry.sizeBytes;
    return used;
  }

  /** What is idle gives way, that which was used longest ago first. */
  #makeRoom(need: { readonly disk: number; readonly mem: number }): void {
    const { diskBytesMax, memBytesMax } = this.settings;
    this.#evict("disk", need.disk, diskBytesMax);
    this.#evict("mem", need.mem, memBytesMax);
  }

  #evict(where: "disk" | "mem", needBytes: number, bytesMax: number): void {
    if (needBytes === 0) return;
    let over = this.#used()[where] + needBytes - bytesMax;
    if (over <= 0) return;
    const idle = [...this.#entries.values()]
      .filter((entry) => entry.inUse === 0 && entry.isOnDisk === (where === "disk"))
      .sort((a, b) => a.usedAt - b.usedAt);
    for (const entry of idle) {
      if (over <= 0) return;
      over -= entry.sizeBytes;
      this.#remove(entry, "evicted");
    }
    if (over > 0)
      throw fault(
        "E.RESOURCE.FULL",
        `${needBytes} bytes more than the ${bytesMax} that worker ${this.settings.workerName} may keep ${where === "disk" ? "on disk" : "in memory"}; what is left is in use`,
      );
  }

  #remove(
    entry: Entry,
    reason: RemovedReason | "replaced",
    { words = reason, newPath }: { readonly words?: string; readonly newPath?: string | undefined } = {},
  ): void {
    this.#entries.delete(entry.id);
    entry.isDropped = true;
    if (entry.isAnnounced && reason !== "replaced") this.#ports.removed?.(entry.id, reason);
    if (entry.inUse > 0) this.#leaving.add(entry);
    else if (entry.path === undefined || entry.path !== newPath) this.#bury(entry, words);
  }

  #bury(entry: Entry, reason: string): void {
    try {
      if (entry.isOwn && entry.path !== undefined) this.#folder.remove(entry.path);
      entry.onDrop?.(reason);
    } catch (cause) {
      this.#ports.report({ message: `resource ${entry.id} could not be cleaned up`, cause });
    }
  }

  /** Asked for only while there is something to look at: a worker that keeps nothing needs no timer. */
  #arm(): void {
    if (this.#isArmed || this.#entries.size === 0) return;
    this.#isArmed = true;
    this.#ports.after(this.settings.gcMs, () => {
      this.#isArmed = false;
      this.gc();
    });
  }
}
