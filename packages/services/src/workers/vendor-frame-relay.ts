// Vendor frames (`ext.vendor.*`) from workers to their readers: a ring buffer of the latest ones per tenant and type. Nothing is stored.

import { type Fault, fault } from "@astraflow/protocol";
import type { ServiceEnvironment } from "../environment/service-environment.ts";
import { isoTime } from "../presentation/iso-time.ts";

/** One frame as the session door read it; who sent it comes from the session, never from the frame. */
export interface ReceivedVendorFrame {
  readonly tenant: string;
  /** `<tenant>/<instance>` */
  readonly worker: string;
  readonly instance: string;
  readonly type: string;
  readonly id: string;
  readonly corr?: string | null | undefined;
  readonly payload: object;
}

/** One frame as readers get it. */
export interface BufferedVendorFrame {
  /** Rises within a tenant and type, also over restarts as long as the clock does: a reader's cursor. */
  readonly number: number;
  readonly at: number;
  /** JSON text of `{id, type, corr?, workerIdParam, at, payload}`, on one line. */
  readonly data: string;
}

export interface VendorFrameSubscriber {
  onFrame(frame: BufferedVendorFrame): void;
  /** The scheduler closes; no frame follows. */
  onClosed(): void;
}

export interface VendorFrameSubscription {
  /** Number of the last frame before those in `kept` and all that will be heard. */
  readonly from: number;
  /** The cursor points before what is kept, or is none of this ring's: frames may be missing before `kept`. */
  readonly hasGap: boolean;
  readonly buffered: readonly BufferedVendorFrame[];
  unsubscribe(): void;
}

const KiB = 1024;
export const vendorRelayLimits = {
  /** Of one ring. */
  framesMax: 1_000,
  bytesMax: 1024 * KiB,
  /** How old a kept frame may be, and how long a ring waits for its last reader to come back. */
  keepMs: 5 * 60_000,
  /** A quarter of a ring at most, so that one frame never empties it. */
  frameBytesMax: 256 * KiB,
  ringsPerTenantMax: 64,
  ringsMax: 256,
  readersPerTenantMax: 200,
} as const;

export type VendorRelayLimits = Readonly<Record<keyof typeof vendorRelayLimits, number>>;

const vendorTypePattern = /^ext\.vendor\.[a-z0-9][a-z0-9._-]{0,100}$/;
/** Our own words to workers; nobody else may send or read them. */
export const isVendorType = (type: string): boolean => vendorTypePattern.test(type) && !type.startsWith("ext.vendor.astraflow.");

interface FrameRing {
  readonly tenant: string;
  readonly readers: Set<VendorFrameSubscriber>;
  readonly frames: (BufferedVendorFrame & { readonly bytes: number })[];
  bytes: number;
  /** Number of the newest frame, and of the newest one that is no longer kept. */
  newestNumber: number;
  droppedUpTo: number;
  /** Ends the waiting for a reader to come back. */
  cancelExpiry: (() => void) | null;
}

export class VendorFrameRelay {
  readonly #environment: ServiceEnvironment;
  readonly #limits: VendorRelayLimits;
  readonly #rings = new Map<string, FrameRing>();
  #isClosed = false;

  constructor(environment: ServiceEnvironment, limits: Partial<VendorRelayLimits> = {}) {
    this.#environment = environment;
    this.#limits = { ...vendorRelayLimits, ...limits };
  }

  /** True if a reader of this tenant and type is connected, or left a short time ago. False too if the frame is larger than is kept. */
  publish(frame: ReceivedVendorFrame): boolean {
    const ring = this.#rings.get(ringKey(frame.tenant, frame.type));
    if (ring === undefined || this.#isClosed) return false;
    const at = this.#environment.clock.now();
    const data = formatFrame(frame, at);
    const bytes = Buffer.byteLength(data);
    if (bytes > this.#limits.frameBytesMax) return false;
    const buffered = { number: ++ring.newestNumber, at, data, bytes };
    ring.frames.push(buffered);
    ring.bytes += bytes;
    this.#trim(ring);
    for (const subscriber of [...ring.readers]) subscriber.onFrame(buffered);
    return true;
  }

  /** Why one more reader would be refused now; null when it would not. */
  capacityFault(tenant: string, type: string): Fault | null {
    const { readersPerTenantMax, ringsPerTenantMax, ringsMax } = this.#limits;
    if (this.#isClosed) return fault("E.SHUTTING_DOWN", "this scheduler is shutting down; reconnect");
    const own = this.#ringsOf(tenant);
    if (own.reduce((sum, ring) => sum + ring.readers.size, 0) >= readersPerTenantMax)
      return fault("E.OVERLOADED", `this tenant already has ${readersPerTenantMax} extension readers`);
    if (this.#rings.has(ringKey(tenant, type))) return null;
    // A ring that only waits for a reader makes room.
    if (own.length >= ringsPerTenantMax && !own.some(isIdle))
      return fault("E.OVERLOADED", `this tenant reads ${ringsPerTenantMax} types of extensions already`);
    if (this.#rings.size >= ringsMax && ![...this.#rings.values()].some(isIdle))
      return fault("E.OVERLOADED", "this scheduler already serves the maximum number of extension types");
    return null;
  }

  /** `after`: the last number the reader has seen, null for "from now on". */
  subscribe(
    tenant: string,
    type: string,
    after: number | null,
    subscriber: VendorFrameSubscriber,
  ): VendorFrameSubscription | Fault {
    const why = this.capacityFault(tenant, type);
    if (why !== null) return why;
    const name = ringKey(tenant, type);
    const ring = this.#rings.get(name) ?? this.#openRing(name, tenant);
    ring.cancelExpiry?.();
    ring.cancelExpiry = null;
    this.#trim(ring);
    const hasGap = after !== null && (after < ring.droppedUpTo || after > ring.newestNumber);
    const from = after === null ? ring.newestNumber : hasGap ? ring.droppedUpTo : after;
    ring.readers.add(subscriber);
    const unsubscribe = (): void => {
      if (!ring.readers.delete(subscriber) || ring.readers.size > 0 || this.#isClosed) return;
      ring.cancelExpiry = this.#environment.timers.after(this.#limits.keepMs, () => this.#rings.delete(name));
    };
    return { from, hasGap, buffered: ring.frames.filter((frame) => frame.number > from), unsubscribe };
  }

  /** Ends every subscription and refuses new ones. */
  close(): void {
    this.#isClosed = true;
    for (const ring of this.#rings.values()) {
      ring.cancelExpiry?.();
      for (const subscriber of [...ring.readers]) subscriber.onClosed();
    }
    this.#rings.clear();
  }

  #ringsOf(tenant: string): FrameRing[] {
    return [...this.#rings.values()].filter((ring) => ring.tenant === tenant);
  }

  #openRing(name: string, tenant: string): FrameRing {
    if (this.#ringsOf(tenant).length >= this.#limits.ringsPerTenantMax) this.#evictIdleRing((ring) => ring.tenant === tenant);
    if (this.#rings.size >= this.#limits.ringsMax) this.#evictIdleRing(() => true);
    // A number that no earlier ring of this name has used, as long as fewer than a thousand frames came in a millisecond.
    const start = this.#environment.clock.now() * 1_000;
    const numbers = { newestNumber: start, droppedUpTo: start };
    const ring: FrameRing = { tenant, readers: new Set(), frames: [], bytes: 0, ...numbers, cancelExpiry: null };
    this.#rings.set(name, ring);
    return ring;
  }

  #evictIdleRing(isAmong: (ring: FrameRing) => boolean): void {
    const idle = [...this.#rings].find(([, ring]) => isIdle(ring) && isAmong(ring));
    if (idle === undefined) return;
    idle[1].cancelExpiry?.();
    this.#rings.delete(idle[0]);
  }

  #trim(ring: FrameRing): void {
    const { framesMax, bytesMax, keepMs } = this.#limits;
    const keepAfter = this.#environment.clock.now() - keepMs;
    while (ring.frames.length > framesMax || ring.bytes > bytesMax) dropOldest(ring);
    while (ring.frames[0] !== undefined && ring.frames[0].at <= keepAfter) dropOldest(ring);
  }
}

function dropOldest(ring: FrameRing): void {
  const oldest = ring.frames.shift();
  if (oldest === undefined) return;
  ring.bytes -= oldest.bytes;
  ring.droppedUpTo = oldest.number;
}

const isIdle = (ring: FrameRing): boolean => ring.readers.size === 0;

/** Tenants have no line end in their name. */
const ringKey = (tenant: string, type: string): string => `${tenant}\n${type}`;

function formatFrame({ id, type, corr, instance, payload }: ReceivedVendorFrame, at: number): string {
  const corrField = typeof corr === "string" ? { corr } : {};
  return JSON.stringify({ id, type, ...corrField, workerId: instance, at: isoTime(at), payload });
}
