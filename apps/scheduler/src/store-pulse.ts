// Feels the engine's pulse: readiness learns how it is, the log when its store goes away, comes back, or stops being trusted.

import { type EngineHost, gaugeMs } from "./engine-host.ts";
import type { Log } from "./log.ts";
import type { Readiness } from "./readiness.ts";

export interface PulseOptions {
  readonly host: Pick<EngineHost, "gauge">;
  readonly readiness: Pick<Readiness, "note">;
  readonly log: Log;
  /** The store's name in the log. */
  readonly store: string;
}

/** The returned function ends it. */
export function feelPulse({ host, readiness, log, store }: PulseOptions): () => void {
  readiness.note(host.gauge());
  let wasAway = false;
  let wasWeak = false;
  const timer = setInterval(() => {
    const gauge = host.gauge();
    readiness.note(gauge);
    if (gauge.isStoreAway !== wasAway) log.warn({ store }, wasAway ? "store.back" : "store.away");
    wasAway = gauge.isStoreAway;
    const { storeWeakness: message } = gauge;
    if (message !== null && !wasWeak) log.error({ store, message }, "store.weak");
    if (message === null && wasWeak) log.warn({ store }, "store.trusted");
    wasWeak = message !== null;
  }, gaugeMs);
  return () => clearInterval(timer);
}
