// The state machines of a worker's lease and of its session's liveness. One lease per boot covers every attempt the boot holds.

import { type Fault, fault } from "@astraflow/protocol";
import type { InPhase, Millis, Tenant, WorkerId, WorkerPhase, WorkerRow } from "../../storage/rows.ts";
import { requireLegalMove } from "./invariant-broken.ts";
import { type RowAfter, type Steps, takeStep } from "./moves.ts";

export type WorkerTransition =
  | {
      readonly type: "join";
      readonly name: string;
      readonly boot: string;
      readonly replica: string;
      readonly replicaEpoch: number;
      readonly about: string;
      readonly condition: string;
      readonly leaseMs: number;
    }
  | { readonly type: "beat"; readonly leaseMs: number; readonly condition: string }
  /** Something about its condition is to be remembered. */
  | { readonly type: "note"; readonly condition: string }
  | { readonly type: "describe"; readonly about: string }
  /** Registered again over REST. */
  | { readonly type: "enrol"; readonly name: string }
  | { readonly type: "drain"; readonly on: boolean }
  | { readonly type: "leave" }
  /** The lease was not renewed in time; `hasLeft`: nobody expected it to be. */
  | { readonly type: "expire"; readonly again: Millis | null; readonly hasLeft: boolean }
  /** The scheduler itself was away: no lease could have been renewed. */
  | { readonly type: "forgive"; readonly until: Millis };

/** online: session up; away: session gone, lease running; lost: lease over, its attempts are taken back; left: the same after a proper end. */
export const workerMoves = {
  online: {
    join: ["online"],
    beat: ["online"],
    describe: ["online"],
    drain: ["online"],
    leave: ["away"],
    expire: ["lost"],
    forgive: ["online"],
    note: ["online"],
  },
  away: { join: ["online"], describe: ["away"], drain: ["away"], expire: ["lost", "left"], forgive: ["away"], note: ["away"] },
  lost: { join: ["online"], describe: ["lost"], enrol: ["enrolled"], drain: ["lost"], expire: ["lost", "left"], note: ["lost"] },
  left: { join: ["online"], describe: ["left"], enrol: ["enrolled"], drain: ["left"], expire: ["lost", "left"], note: ["left"] },
  enrolled: { join: ["online"], enrol: ["enrolled"], drain: ["enrolled"], describe: ["enrolled"], note: ["enrolled"] },
} as const satisfies Record<WorkerPhase, Partial<Record<WorkerTransition["type"], readonly WorkerPhase[]>>>;

/** A worker before its first join. */
export function newWorkerRow(
  { worker, tenant, name }: { readonly worker: WorkerId; readonly tenant: Tenant; readonly name: string },
  boot: string,
  scheduler: { readonly replica: string; readonly epoch: number },
  now: Millis,
): InPhase<WorkerRow, "enrolled"> {
  return {
    kind: "worker",
    id: worker,
    tenant,
    name,
    phase: "enrolled",
    boot,
    epoch: 0,
    replica: scheduler.replica,
    replicaEpoch: scheduler.epoch,
    draining: false,
    joinedAt: now,
    seenAt: now,
    due: null,
    about: "{}",
    condition: "{}",
  };
}

const workerSteps: Steps<WorkerRow, WorkerTransition, typeof workerMoves> = {
  join: (worker, event, now) => ({
    ...worker,
    phase: "online",
    name: event.name,
    boot: event.boot,
    replica: event.replica,
    replicaEpoch: event.replicaEpoch,
    about: event.about,
    condition: event.condition,
    epoch: worker.epoch + 1,
    joinedAt: now,
    seenAt: now,
    due: now + event.leaseMs,
  }),
  beat: (worker, event, now) => ({ ...worker, seenAt: now, due: now + event.leaseMs, condition: event.condition }),
  note: (worker, event) => ({ ...worker, condition: event.condition }),
  describe: (worker, event, now) => ({ ...worker, about: event.about, seenAt: now }),
  enrol: (worker, event, now) => ({ ...worker, phase: "enrolled", name: event.name, seenAt: now, due: null }),
  drain: (worker, event) => ({ ...worker, draining: event.on }),
  leave: (worker) => ({ ...worker, phase: "away" }),
  expire: (worker, event) => ({ ...worker, phase: event.hasLeft ? "left" : "lost", due: event.again }),
  forgive: (worker, event) => ({ ...worker, due: event.until }),
};

/** Its lease is over: what waited for it waits no longer. */
export const isGone = ({ phase }: Pick<WorkerRow, "phase">): boolean => phase === "lost" || phase === "left";

type WorkerAfter<R extends WorkerRow, E extends WorkerTransition> = RowAfter<R, E, typeof workerMoves, WorkerRow>;

export function stepWorker<R extends WorkerRow, E extends WorkerTransition>(
  worker: R,
  event: E,
  now: Millis,
): WorkerAfter<R, E> | Fault {
  if (!(event.type in workerMoves[worker.phase]))
    return fault("E.SESSION.STALE_BINDING", `worker ${worker.id} is ${worker.phase} and cannot ${event.type}; handshake again`, {
      phase: worker.phase,
    });
  return takeStep(workerSteps, worker, event, now);
}

export function applyWorkerTransition<R extends WorkerRow, E extends WorkerTransition>(
  worker: R,
  event: E,
  now: Millis,
): WorkerAfter<R, E> {
  return requireLegalMove(stepWorker(worker, event, now));
}

/** The liveness of a session by heartbeats missed in a row: thresholds 1x, 2x, 3x. */
export type SessionLiveness = "fresh" | "warn" | "degraded" | "unhealthy";

export const livenessMoves = {
  fresh: { beat: ["fresh"], miss: ["warn"] },
  warn: { beat: ["fresh"], miss: ["degraded"] },
  degraded: { beat: ["fresh"], miss: ["unhealthy"] },
  // An unhealthy session is lost; only a new join makes it fresh again.
  unhealthy: {},
} as const satisfies Record<SessionLiveness, Partial<Record<"beat" | "miss", readonly SessionLiveness[]>>>;

/** A session's liveness after `silentMs` without a beat; whole periods missed decide, so a clock tick more or less does not. */
export function livenessAfter(silentMs: number, heartbeatMs: number): SessionLiveness {
  const missed = Math.floor(silentMs / heartbeatMs);
  return missed <= 0 ? "fresh" : missed === 1 ? "warn" : missed === 2 ? "degraded" : "unhealthy";
}
