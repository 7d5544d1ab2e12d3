// Vendor frames (`ext.vendor.*`) from workers to their readers: a ring buffer of the latest ones per tenant and type. Payloads are not
// inspected, and nothing is stored.

import { type Fault, fault } from "@astraflow/protocol";
import type { ServiceEnvironment } from "../environment/service-environment.ts";

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
  /** The house closes; nothing follows. */
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

export interface VendorFrameRelay {
  /**
   * True when somebody took it: a reader of this tenant and type is connected, or left so short a time ago that the frame is kept for
   * its return. False when nobody asked for such frames, or the frame is larger than is kept.
   */
  publish(frame: ReceivedVendorFrame): boolean;
  /** Why one more reader would be refused now; null when it would not. */
  capacityFault(tenant: string, type: string): Fault | null;
  /** `after`: the last number the reader has seen, null for "from now on". */
  subscribe(
    tenant: string,
    type: string,
    after: number | null,
    subscriber: VendorFrameSubscriber,
  ): VendorFrameSubscription | Fault;
  /** Ends every subscription and refuses new ones. */
  close(): void;
}

export interface VendorRelayLimits {
  readonly framesMax: number;
  readonly bytesMax: number;
  readonly keepMs: number;
  readonly frameBytesMax: number;
  readonly ringsPerTenantMax: number;
  readonly ringsMax: number;
  readonly readersPerTenantMax: number;
}

const KiB = 1024;
export const vendorRelayLimits: VendorRelayLimits = {
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
};

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

export function createVendorFrameRelay({
  environment,
  limits: overrides,
}: {
  environment: ServiceEnvironment;
  limits?: Partial<VendorRelayLimits>;
}): VendorFrameRelay {
  const limits = { ...vendorRelayLimits, ...overrides };
  const rings = new Map<string, FrameRing>();
  let isClosed = false;

  const dropOldest = (ring: FrameRing): void => {
    const oldest = ring.frames.shift();
    if (oldest === undefined) return;
    ring.bytes -= oldest.bytes;
    ring.droppedUpTo = oldest.number;
  };
  const trim = (ring: FrameRing): void => {
    const keepAfter = environment.clock.now() - limits.keepMs;
    while (ring.frames.length > limits.framesMax || ring.bytes > limits.bytesMax) dropOldest(ring);
    while (ring.frames[0] !== undefined && ring.frames[0].at <= keepAfter) dropOldest(ring);
  };

  const isIdle = (ring: FrameRing): boolean => ring.readers.size === 0;
  const ringsOf = (tenant: string): FrameRing[] => [...rings.values()].filter((ring) => ring.tenant === tenant);

  const capacityFault = (tenant: string, type: string): Fault | null => {
    if (isClosed) return fault("E.SHUTTING_DOWN", "this scheduler is shutting down; reconnect");
    const own = ringsOf(tenant);
    if (own.reduce((sum, ring) => sum + ring.readers.size, 0) >= limits.readersPerTenantMax)
      return fault("E.OVERLOADED", `this tenant already has ${limits.readersPerTenantMax} extension readers`);
    if (rings.has(ringKey(tenant, type))) return null;
    // A ring that only waits for a reader makes room.
    if (own.length >= limits.ringsPerTenantMax && !own.some(isIdle))
      return fault("E.OVERLOADED", `this tenant reads ${limits.ringsPerTenantMax} types of extensions already`);
    if (rings.size >= limits.ringsMax && ![...rings.values()].some(isIdle))
      return fault("E.OVERLOADED", "this scheduler already serves the maximum number of extension types");
    return null;
  };

  const openRing = (name: string, tenant: string): FrameRing => {
    const known = rings.get(name);
    if (known !== undefined) return known;
    if (ringsOf(tenant).length >= limits.ringsPerTenantMax) evictIdleRing((ring) => ring.tenant === tenant);
    if (rings.size >= limits.ringsMax) evictIdleRing(() => true);
    // A number that no earlier ring of this name has used, as long as fewer than a thousand frames came in a millisecond.
    const start = environment.clock.now() * 1_000;
    const ring: FrameRing = {
      tenant,
      readers: new Set(),
      frames: [],
      bytes: 0,
      newestNumber: start,
      droppedUpTo: start,
      cancelExpiry: null,
    };
    rings.set(name, ring);
    return ring;
  };
  const evictIdleRing = (isAmong: (ring: FrameRing) => boolean): void => {
    for (const [name, ring] of rings) {
      if (!isIdle(ring) || !isAmong(ring)) continue;
      ring.cancelExpiry?.();
      rings.delete(name);
      return;
    }
  };

  const removeReader = (name: string, ring: FrameRing, subscriber: VendorFrameSubscriber): void => {
    if (!ring.readers.delete(subscriber) || ring.readers.size > 0 || isClosed) return;
    ring.cancelExpiry = environment.timers.after(limits.keepMs, () => rings.delete(name));
  };

  return {
    publish(frame) {
      const ring = rings.get(ringKey(frame.tenant, frame.type));
      if (ring === undefined || isClosed) return false;
      const at = environment.clock.now();
      const data = formatFrame(frame, at);
      const bytes = Buffer.byteLength(data);
      if (bytes > limits.frameBytesMax) return false;
      const buffered = { number: ++ring.newestNumber, at, data, bytes };
      ring.frames.push(buffered);
      ring.bytes += bytes;
      trim(ring);
      for (const subscriber of [...ring.readers]) subscriber.onFrame(buffered);
      return true;
    },
    capacityFault,
    subscribe(tenant, type, after, subscriber) {
      const why = capacityFault(tenant, type);
      if (why !== null) return why;
      const name = ringKey(tenant, type);
      const ring = openRing(name, tenant);
      ring.cancelExpiry?.();
      ring.cancelExpiry = null;
      trim(ring);
      const hasGap = after !== null && (after < ring.droppedUpTo || after > ring.newestNumber);
      const from = after === null ? ring.newestNumber : hasGap ? ring.droppedUpTo : after;
      ring.readers.add(subscriber);
      return {
        from,
        hasGap,
        buffered: ring.frames.filter((frame) => frame.number > from),
        unsubscribe: () => removeReader(name, ring, subscriber),
      };
    },
    close() {
      isClosed = true;
      for (const ring of rings.values()) {
        ring.cancelExpiry?.();
        for (const subscriber of [...ring.readers]) subscriber.onClosed();
      }
      rings.clear();
    },
  };
}

/** Tenants have no line end in their name. */
const ringKey = (tenant: string, type: string): string => `${tenant}\n${type}`;

function formatFrame({ id, type, corr, instance, payload }: ReceivedVendorFrame, at: number): string {
  const corrField = typeof corr === "string" ? { corr } : {};
  return JSON.stringify({ id, type, ...corrField, workerId: instance, at: new Date(at).toISOString(), payload });
}
