// What is told and stands in no log: every heartbeat of a worker, and frames on the wire. Said once to whoever listens at that moment, never
// kept for who comes later. How much of it one reader gets is ../rest/volatile-feed.ts; where beats come from is heartbeat-watch.ts and the session door.

import type { EventData, EventType, ServerEvent } from "@astraflow/protocol";

/** A frame as it is told; how many were left out before it differs by reader. */
export type WireFrameEvent = Omit<EventData<"wire.frame">, "kind" | "skipped">;

/** The newest heartbeat of one worker. */
export interface PublishedHeartbeat {
  /** Counts up with every beat of the tenant, so that a reader knows from which one on it has heard nothing. */
  readonly count: number;
  readonly workerName: string;
  /** When it was stored. */
  readonly at: number;
  /** The whole event as text: built when the first reader wants it, once for all of them. */
  readonly text: string;
}

/** What one reader wants, asked before anything is built, and its ears. */
export interface VolatileListener {
  /** Null: it hears none. */
  readonly heartbeat: { wants(workerName: string): boolean; hear(heartbeat: PublishedHeartbeat): void } | null;
  readonly frame: { wants(workerName: string, type: string): boolean; hear(frame: WireFrameEvent): void } | null;
}

export interface VolatileEvents {
  hasHeartbeatListeners(tenant: string): boolean;
  hasFrameListeners(tenant: string): boolean;
  publishHeartbeat(source: HeartbeatSource, build: () => Omit<EventData<"worker.heartbeat">, "kind">): void;
  /** When the last beat of this worker that was told here was stored; before all times where none was. */
  lastHeartbeatAt(tenant: string, worker: string): number;
  /** The newest beat of each worker that has beaten after that count, the oldest of them first. */
  heartbeatsAfter(tenant: string, count: number): Iterable<PublishedHeartbeat>;
  heartbeatCount(tenant: string): number;
  publishFrame(
    of: { readonly tenant: string; readonly workerName: string; readonly type: string },
    build: () => WireFrameEvent,
  ): void;
  /** The returned function ends that. */
  subscribe(tenant: string, listener: VolatileListener): () => void;
}

export interface HeartbeatSource {
  readonly tenant: string;
  readonly worker: string;
  readonly workerName: string;
  readonly at: number;
}

/** Workers of a tenant whose newest beat is at hand for readers that are behind; more than a tenant has. */
const heartbeatsKeptMax = 20_000;

/** Of one tenant, while somebody listens. */
interface TenantListeners {
  readonly listeners: Set<VolatileListener>;
  /** By worker, in the order they came. */
  readonly heartbeats: Map<string, PublishedHeartbeat>;
  heartbeatCount: number;
  heartbeatListeners: number;
  frameListeners: number;
}

export function createVolatileEvents(): VolatileEvents {
  const byTenant = new Map<string, TenantListeners>();
  const addListener = (tenant: string, listener: VolatileListener): TenantListeners => {
    const tenantListeners = byTenant.get(tenant) ?? {
      listeners: new Set(),
      heartbeats: new Map(),
      heartbeatCount: 0,
      heartbeatListeners: 0,
      frameListeners: 0,
    };
    byTenant.set(tenant, tenantListeners);
    tenantListeners.listeners.add(listener);
    if (listener.heartbeat !== null) tenantListeners.heartbeatListeners += 1;
    if (listener.frame !== null) tenantListeners.frameListeners += 1;
    return tenantListeners;
  };
  return {
    hasHeartbeatListeners: (tenant) => (byTenant.get(tenant)?.heartbeatListeners ?? 0) > 0,
    hasFrameListeners: (tenant) => (byTenant.get(tenant)?.frameListeners ?? 0) > 0,
    publishHeartbeat(source, build) {
      const tenantListeners = byTenant.get(source.tenant);
      if (tenantListeners === undefined || tenantListeners.heartbeatListeners === 0) return;
      const heartbeat = new LazyHeartbeat(source, ++tenantListeners.heartbeatCount, build);
      // Entered anew, so that the order is that of the newest ones.
      tenantListeners.heartbeats.delete(source.worker);
      tenantListeners.heartbeats.set(source.worker, heartbeat);
      if (tenantListeners.heartbeats.size > heartbeatsKeptMax)
        tenantListeners.heartbeats.delete(tenantListeners.heartbeats.keys().next().value as string);
      for (const listener of tenantListeners.listeners)
        if (listener.heartbeat?.wants(source.workerName) === true) listener.heartbeat.hear(heartbeat);
    },
    lastHeartbeatAt: (tenant, worker) => byTenant.get(tenant)?.heartbeats.get(worker)?.at ?? Number.NEGATIVE_INFINITY,
    *heartbeatsAfter(tenant, count) {
      for (const heartbeat of byTenant.get(tenant)?.heartbeats.values() ?? []) if (heartbeat.count > count) yield heartbeat;
    },
    heartbeatCount: (tenant) => byTenant.get(tenant)?.heartbeatCount ?? 0,
    publishFrame({ tenant, workerName, type }, build) {
      const tenantListeners = byTenant.get(tenant);
      if (tenantListeners === undefined || tenantListeners.frameListeners === 0) return;
      let frame: WireFrameEvent | null = null;
      for (const listener of tenantListeners.listeners)
        if (listener.frame?.wants(workerName, type) === true) listener.frame.hear((frame ??= build()));
    },
    subscribe(tenant, listener) {
      const tenantListeners = addListener(tenant, listener);
      return () => {
        if (!tenantListeners.listeners.delete(listener)) return;
        if (listener.heartbeat !== null) tenantListeners.heartbeatListeners -= 1;
        if (listener.frame !== null) tenantListeners.frameListeners -= 1;
        // The beats that are at hand are for those who listened to them.
        if (tenantListeners.heartbeatListeners === 0) tenantListeners.heartbeats.clear();
        if (tenantListeners.listeners.size === 0) byTenant.delete(tenant);
      };
    },
  };
}

class LazyHeartbeat implements PublishedHeartbeat {
  readonly count: number;
  readonly workerName: string;
  readonly at: number;
  readonly #tenant: string;
  readonly #build: () => Omit<EventData<"worker.heartbeat">, "kind">;
  #text: string | null = null;

  constructor(source: HeartbeatSource, count: number, build: () => Omit<EventData<"worker.heartbeat">, "kind">) {
    this.count = count;
    this.workerName = source.workerName;
    this.at = source.at;
    this.#tenant = source.tenant;
    this.#build = build;
  }

  get text(): string {
    this.#text ??= volatileEventJson("worker.heartbeat", this.#build(), {
      occurredAt: new Date(this.at).toISOString(),
      scope: { tenant: this.#tenant, workerName: this.workerName },
    });
    return this.#text;
  }
}

/** An event without an id: no reader's cursor moves by it. */
export function volatileEventJson<K extends EventType>(
  type: K,
  data: Omit<EventData<K>, "kind">,
  { occurredAt, scope }: Pick<ServerEvent, "occurredAt" | "scope">,
): string {
  return JSON.stringify({
    version: "v1",
    type,
    occurredAt,
    scope,
    meta: { volatile: true },
    data: { kind: type, ...data },
  });
}
