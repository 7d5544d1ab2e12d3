// Frames of vendors (`ext.vendor.*`) on their way from workers to whoever listens: a ring of the latest ones per tenant and type, and its readers.
// Nothing here looks into a payload or is stored. How a reader is connected is the REST door's business, the way to a worker the engine's.

import { type Fault, fault } from "@astraflow/protocol";
import type { Outside } from "./outside.ts";

/** One frame as the session door read it; who sent it comes from the session, never from the frame. */
export interface WorkerFrame {
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
export interface KeptFrame {
  /** Rises within a tenant and type, also over restarts as long as the clock does: a reader's cursor. */
  readonly number: number;
  readonly at: number;
  /** JSON text of `{id, type, corr?, workerId, at, payload}`, on one line. */
  readonly data: string;
}

export interface ExtensionEars {
  frame(frame: KeptFrame): void;
  /** The house closes; nothing follows. */
  closed(): void;
}

export interface Subscription {
  /** Number of the last frame before those in `kept` and all that will be heard. */
  readonly from: number;
  /** The cursor points before what is kept, or is none of this ring's: frames may be missing before `kept`. */
  readonly hasGap: boolean;
  readonly kept: readonly KeptFrame[];
  end(): void;
}

export interface Extensions {
  /**
   * True when somebody took it: a reader of this tenant and type is connected, or left so short a time ago that the frame is kept for
   * its return. False when nobody asked for such frames, or the frame is larger than is kept.
   */
  fromWorker(frame: WorkerFrame): boolean;
  /** Why one more reader would be refused now; null when it would not. */
  objection(tenant: string, type: string): Fault | null;
  /** `after`: the last number the reader has seen, null for "from now on". */
  subscribe(tenant: string, type: string, after: number | null, ears: ExtensionEars): Subscription | Fault;
  /** Ends every subscription and refuses new ones. */
  close(): void;
}

export interface ExtensionLimits {
  readonly framesMax: number;
  readonly bytesMax: number;
  readonly keepMs: number;
  readonly frameBytesMax: number;
  readonly ringsPerTenantMax: number;
  readonly ringsMax: number;
  readonly readersPerTenantMax: number;
}

const KiB = 1024;
export const extensionLimits: ExtensionLimits = {
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

interface Ring {
  readonly tenant: string;
  readonly readers: Set<ExtensionEars>;
  readonly frames: (KeptFrame & { readonly bytes: number })[];
  bytes: number;
  /** Number of the newest frame, and of the newest one that is no longer kept. */
  head: number;
  floor: number;
  /** Ends the waiting for a reader to come back. */
  stay: (() => void) | null;
}

export function createExtensions({
  outside,
  limits: given,
}: {
  outside: Outside;
  limits?: Partial<ExtensionLimits>;
}): Extensions {
  const limits = { ...extensionLimits, ...given };
  const rings = new Map<string, Ring>();
  let isClosed = false;

  const dropOldest = (ring: Ring): void => {
    const oldest = ring.frames.shift();
    if (oldest === undefined) return;
    ring.bytes -= oldest.bytes;
    ring.floor = oldest.number;
  };
  const trim = (ring: Ring): void => {
    const bornAfter = outside.clock.now() - limits.keepMs;
    while (ring.frames.length > limits.framesMax || ring.bytes > limits.bytesMax) dropOldest(ring);
    while (ring.frames[0] !== undefined && ring.frames[0].at <= bornAfter) dropOldest(ring);
  };

  const isIdle = (ring: Ring): boolean => ring.readers.size === 0;
  const ringsOf = (tenant: string): Ring[] => [...rings.values()].filter((ring) => ring.tenant === tenant);

  const objection = (tenant: string, type: string): Fault | null => {
    if (isClosed) return fault("E.SHUTTING_DOWN", "this scheduler is going away; come back to its successor");
    const own = ringsOf(tenant);
    if (own.reduce((sum, ring) => sum + ring.readers.size, 0) >= limits.readersPerTenantMax)
      return fault("E.OVERLOADED", `this tenant has ${limits.readersPerTenantMax} readers of extensions already`);
    if (rings.has(nameOf(tenant, type))) return null;
    // A ring that only waits for a reader makes room.
    if (own.length >= limits.ringsPerTenantMax && !own.some(isIdle))
      return fault("E.OVERLOADED", `this tenant reads ${limits.ringsPerTenantMax} types of extensions already`);
    if (rings.size >= limits.ringsMax && ![...rings.values()].some(isIdle))
      return fault("E.OVERLOADED", "this scheduler serves as many types of extensions as it takes");
    return null;
  };

  const openRing = (name: string, tenant: string): Ring => {
    const known = rings.get(name);
    if (known !== undefined) return known;
    if (ringsOf(tenant).length >= limits.ringsPerTenantMax) forgetIdle((ring) => ring.tenant === tenant);
    if (rings.size >= limits.ringsMax) forgetIdle(() => true);
    // A number that no earlier ring of this name has used, as long as fewer than a thousand frames came in a millisecond.
    const start = outside.clock.now() * 1_000;
    const ring: Ring = { tenant, readers: new Set(), frames: [], bytes: 0, head: start, floor: start, stay: null };
    rings.set(name, ring);
    return ring;
  };
  const forgetIdle = (isAmong: (ring: Ring) => boolean): void => {
    for (const [name, ring] of rings) {
      if (!isIdle(ring) || !isAmong(ring)) continue;
      ring.stay?.();
      rings.delete(name);
      return;
    }
  };

  const leave = (name: string, ring: Ring, ears: ExtensionEars): void => {
    if (!ring.readers.delete(ears) || ring.readers.size > 0 || isClosed) return;
    ring.stay = outside.timers.after(limits.keepMs, () => rings.delete(name));
  };

  return {
    fromWorker(frame) {
      const ring = rings.get(nameOf(frame.tenant, frame.type));
      if (ring === undefined || isClosed) return false;
      const at = outside.clock.now();
      const data = dataOf(frame, at);
      const bytes = Buffer.byteLength(data);
      if (bytes > limits.frameBytesMax) return false;
      const kept = { number: ++ring.head, at, data, bytes };
      ring.frames.push(kept);
      ring.bytes += bytes;
      trim(ring);
      for (const ears of [...ring.readers]) ears.frame(kept);
      return true;
    },
    objection,
    subscribe(tenant, type, after, ears) {
      const why = objection(tenant, type);
      if (why !== null) return why;
      const name = nameOf(tenant, type);
      const ring = openRing(name, tenant);
      ring.stay?.();
      ring.stay = null;
      trim(ring);
      const hasGap = after !== null && (after < ring.floor || after > ring.head);
      const from = after === null ? ring.head : hasGap ? ring.floor : after;
      ring.readers.add(ears);
      return {
        from,
        hasGap,
        kept: ring.frames.filter((frame) => frame.number > from),
        end: () => leave(name, ring, ears),
      };
    },
    close() {
      isClosed = true;
      for (const ring of rings.values()) {
        ring.stay?.();
        for (const ears of [...ring.readers]) ears.closed();
      }
      rings.clear();
    },
  };
}

/** Tenants have no line end in their name. */
const nameOf = (tenant: string, type: string): string => `${tenant}\n${type}`;

function dataOf({ id, type, corr, instance, payload }: WorkerFrame, at: number): string {
  const named = typeof corr === "string" ? { corr } : {};
  return JSON.stringify({ id, type, ...named, workerId: instance, at: new Date(at).toISOString(), payload });
}
