// Reads the engine's gauge periodically: updates readiness, and logs when the store becomes unavailable, returns, or is not durable.

import type { Log } from "../platform/log.ts";
import { type EngineHost, gaugeIntervalMs } from "./engine-host.ts";
import type { Readiness } from "./readiness.ts";

export interface EngineMonitorOptions {
  readonly host: Pick<EngineHost, "gauge">;
  readonly readiness: Pick<Readiness, "update">;
  readonly log: Log;
  /** The store as the log names it. */
  readonly store: string;
}

/** Returns the function that stops it. */
export function startEngineMonitor({ host, readiness, log, store }: EngineMonitorOptions): () => void {
  readiness.update(host.gauge());
  let wasUnavailable = false;
  let wasUndurable = false;
  const timer = setInterval(() => {
    const gauge = host.gauge();
    readiness.update(gauge);
    if (gauge.isStoreUnavailable !== wasUnavailable) log.warn({ store }, wasUnavailable ? "store.back" : "store.away");
    wasUnavailable = gauge.isStoreUnavailable;
    const { storeDurabilityProblem: message } = gauge;
    if (message !== null && !wasUndurable) log.error({ store, message }, "store.weak");
    if (message === null && wasUndurable) log.warn({ store }, "store.trusted");
    wasUndurable = message !== null;
  }, gaugeIntervalMs);
  return () => clearInterval(timer);
}
