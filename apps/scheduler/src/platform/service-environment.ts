// The environment of the doors in production: real clocks and timers, unguessable ids, the log.

import { randomBytes } from "node:crypto";
import { setImmediate as nextRound } from "node:timers/promises";
import type { ServiceEnvironment } from "@astraflow/services";
import type { Log } from "./log.ts";

export function createServiceEnvironment(log: Log, isDebug = false): ServiceEnvironment {
  return { ...createTimers(), isDebug, log: ({ level, event, ...fields }) => log[level](fields, event) };
}

/** All of it but the log, which a thread has to send elsewhere. */
export function createTimers(): Omit<ServiceEnvironment, "isDebug" | "log"> {
  return {
    clock: { now: () => Date.now(), monotonic: () => performance.now() },
    timers: {
      every(ms, run) {
        const timer = setInterval(run, ms);
        return () => clearInterval(timer);
      },
      after(ms, run) {
        const timer = setTimeout(run, ms);
        return () => clearTimeout(timer);
      },
    },
    // 144 bits, because the id of a session gives access to it.
    ids: { next: () => randomBytes(18).toString("base64url") },
    yieldLoop: () => nextRound(),
  };
}
