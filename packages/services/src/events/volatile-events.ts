// Events that are in no log: heartbeats of workers, and frames on the wire. Told to whoever listens at that moment, never stored.

import { type EventData, type EventType, LruMap, type ServerEvent } from "@astraflow/protocol";
import { isoTime } from "../presentation/iso-time.ts";

export type HeartbeatData = Omit<EventData<"worker.heartbeat">, "kind">;

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
  /** Null: it receives none. */
  readonly heartbeat: { wants(workerName: string): boolean; receive(heartbeat: PublishedHeartbeat): void } | null;
  readonly frame: { wants(workerName: string, type: string): boolean; receive(frame: WireFrameEvent): void } | null;
}

type HeartbeatSource = Readonly<Record<"tenant" | "worker" | "workerName", string>> & { readonly at: number };

/** Workers of a tenant whose newest beat is at hand for readers that are behind; more than a tenant has. */
const heartbeatsKeptMax = 20_000;

/** Of one tenant, while somebody listens. */
interface TenantListeners {
  readonly listeners: Set<VolatileListener>;
  /** By worker, in the order they came. */
  readonly heartbeats: LruMap<string, PublishedHeartbeat>;
  heartbeatCount: number;
  heartbeatListeners: number;
  frameListeners: number;
}

export class VolatileEvents {
  readonly #byTenant = new Map<string, TenantListeners>();

  hasHeartbeatListeners(tenant: string): boolean {
    return (this.#byTenant.get(tenant)?.heartbeatListeners ?? 0) > 0;
  }

  hasFrameListeners(tenant: string): boolean {
    return (this.#byTenant.get(tenant)?.frameListeners ?? 0) > 0;
  }

  publishHeartbeat(source: HeartbeatSource, build: () => HeartbeatData): void {
    const here = this.#byTenant.get(source.tenant);
    if (here === undefined || here.heartbeatListeners === 0) return;
    const heartbeat = lazyHeartbeat(source, ++here.heartbeatCount, build);
    here.heartbeats.set(source.worker, heartbeat);
    for (const listener of here.listeners)
      if (listener.heartbeat?.wants(source.workerName) === true) listener.heartbeat.receive(heartbeat);
  }

  /** When the last beat of this worker that was told here was stored; before all times where none was. */
  lastHeartbeatAt(tenant: string, worker: string): number {
    return this.#byTenant.get(tenant)?.heartbeats.peek(worker)?.at ?? Number.NEGATIVE_INFINITY;
  }

  /** The newest beat of each worker that has beaten after that count, the oldest of them first. */
  *heartbeatsAfter(tenant: string, count: number): Iterable<PublishedHeartbeat> {
    for (const heartbeat of this.#byTenant.get(tenant)?.heartbeats.values() ?? []) if (heartbeat.count > count) yield heartbeat;
  }

  heartbeatCount(tenant: string): number {
    return this.#byTenant.get(tenant)?.heartbeatCount ?? 0;
  }

  publishFrame(
    { tenant, workerName, type }: { readonly tenant: string; readonly workerName: string; readonly type: string },
    build: () => WireFrameEvent,
  ): void {
    const here = this.#byTenant.get(tenant);
    if (here === undefined || here.frameListeners === 0) return;
    let frame: WireFrameEvent | null = null;
    for (const listener of here.listeners)
      if (listener.frame?.wants(workerName, type) === true) listener.frame.receive((frame ??= build()));
  }

  /** The returned function ends that. */
  subscribe(tenant: string, listener: VolatileListener): () => void {
    const here = this.#byTenant.get(tenant) ?? {
      listeners: new Set(),
      heartbeats: new LruMap({ entriesMax: heartbeatsKeptMax }),
      heartbeatCount: 0,
      heartbeatListeners: 0,
      frameListeners: 0,
    };
    this.#byTenant.set(tenant, here);
    const count = (change: 1 | -1): void => {
      if (listener.heartbeat !== null) here.heartbeatListeners += change;
      if (listener.frame !== null) here.frameListeners += change;
    };
    here.listeners.add(listener);
    count(1);
    return () => {
      if (!here.listeners.delete(listener)) return;
      count(-1);
      // The beats that are at hand are for those who listened to them.
      if (here.heartbeatListeners === 0) here.heartbeats.clear();
      if (here.listeners.size === 0) this.#byTenant.delete(tenant);
    };
  }
}

function lazyHeartbeat(
  { tenant, workerName, at }: HeartbeatSource,
  count: number,
  build: () => HeartbeatData,
): PublishedHeartbeat {
  let text: string | null = null;
  return {
    count,
    workerName,
    at,
    get text() {
      text ??= volatileEventJson("worker.heartbeat", build(), { occurredAt: isoTime(at), scope: { tenant, workerName } });
      return text;
    },
  };
}

/** An event without an id: no reader's cursor moves by it. */
export function volatileEventJson<K extends EventType>(
  type: K,
  data: Omit<EventData<K>, "kind">,
  { occurredAt, scope }: Pick<ServerEvent, "occurredAt" | "scope">,
): string {
  return JSON.stringify({ version: "v1", type, occurredAt, scope, meta: { volatile: true }, data: { kind: type, ...data } });
}
