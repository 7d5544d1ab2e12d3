// What each kind of fault does to the world. A row returns the function that ends the fault, null where the fault has no duration, or undefined where it
// found no target.

import type { EngineFailpoint } from "@astraflow/engine";
import type { SimulatedApi } from "../callers/simulated-api.ts";
import type { MachineClock } from "../kernel/machine-clock.ts";
import { SeededRandom } from "../kernel/seeded-random.ts";
import type { Timeline } from "../kernel/timeline.ts";
import type { SchedulerMachine } from "../machines/scheduler-machine.ts";
import type { WorkerMachine } from "../machines/worker-machine.ts";
import type { ConnectionSide, SimulatedConnection } from "../network/simulated-connection.ts";
import type { SimulatedNetwork } from "../network/simulated-network.ts";
import type { ScheduledFault } from "../observation/observation.ts";
import type { FaultKind } from "../plan/fault-table.ts";
import type { SimulatedStoreServer } from "../store/simulated-store-server.ts";
import type { SimulatedOutboxDisk } from "../worker/simulated-outbox-disk.ts";

/** What faults can get at. */
export interface FaultableWorld {
  readonly timeline: Timeline;
  readonly network: SimulatedNetwork;
  readonly store: SimulatedStoreServer;
  readonly storeClock: MachineClock;
  readonly api: SimulatedApi;
  readonly schedulers: ReadonlyMap<string, SchedulerMachine>;
  readonly workers: ReadonlyMap<string, WorkerMachine>;
  /** Machines with the names of others; each is up while its fault lasts. */
  cloneOf(worker: string): WorkerMachine | undefined;
  /** Messages may be lost on connections that live on. */
  readonly isNetworkLossy: boolean;
}

type EndFault = () => void;
type ApplyFault = (world: FaultableWorld, event: ScheduledFault) => EndFault | null | undefined;

const sideOfDirection = (detail: string | undefined): ConnectionSide => (detail === "up" ? "worker" : "scheduler");

function affectConnections(strike: (connection: SimulatedConnection, event: ScheduledFault) => void): ApplyFault {
  return ({ network }, event) => {
    const connections = network.connectionsOf(event.target);
    for (const connection of connections) strike(connection, event);
    return connections.length === 0 ? undefined : null;
  };
}

function affectNextFrame(kind: "drop" | "double" | "overtake"): ApplyFault {
  return ({ network, timeline, isNetworkLossy }, { target, detail, ms = 0 }) => {
    const connection = network.disturbNextFrame(target, sideOfDirection(detail), { kind, ms });
    if (connection === null) return undefined;
    // What TCP would do is end the connection.
    if (kind === "drop" && !isNetworkLossy) timeline.after(ms, () => connection.disconnectBothEnds(true));
    return null;
  };
}

function findClock({ schedulers, workers, storeClock }: FaultableWorld, target: string): MachineClock | undefined {
  return target === "store" ? storeClock : (schedulers.get(target) ?? workers.get(target))?.clock;
}

const pauseMachine =
  (isSuspended: boolean): ApplyFault =>
  ({ schedulers, workers }, { target }) => {
    const machine = schedulers.get(target) ?? workers.get(target);
    return machine?.isUp === true ? machine.pause(isSuspended) : undefined;
  };

const killMachine =
  (isPowerLoss: boolean): ApplyFault =>
  ({ schedulers, workers }, { target, ms = 0 }) => {
    const machine = schedulers.get(target) ?? workers.get(target);
    if (machine?.isUp !== true) return undefined;
    machine.kill(ms, isPowerLoss ? "power lost" : "killed", isPowerLoss);
    return null;
  };

/** A disk that is not there cannot fail. */
function affectDisk(fault: keyof SimulatedOutboxDisk["faults"]): ApplyFault {
  return ({ workers }, { target }) => {
    const outboxDisk = workers.get(target)?.outboxDisk;
    if (outboxDisk === undefined || outboxDisk === null) return undefined;
    outboxDisk.faults[fault]++;
    return () => void outboxDisk.faults[fault]--;
  };
}

export const faultEffects: Readonly<Record<FaultKind, ApplyFault>> = {
  cut: affectConnections((connection) => connection.disconnectBothEnds(false)),
  reset: affectConnections((connection) => connection.disconnectBothEnds(true)),
  "half-open": affectConnections((connection, { detail }) => connection.disconnectOneEnd(detail as ConnectionSide)),
  "one-way-loss": affectConnections((connection, { detail }) => connection.channelFrom(sideOfDirection(detail)).goSilent()),
  clog: ({ network }, { target }) => network.blockPath(target),
  partition: ({ network }, { target, detail = "" }) => {
    const ends = detail.split(",").map((worker) => network.blockPath(`${worker}-${target}`));
    return () => {
      for (const end of ends) end();
    };
  },
  slow: ({ network }, { target, amount = 0 }) => network.slowPath(target, amount),
  refuse: ({ network }, { target }) => network.refuseConnections(target),
  flap: ({ network, timeline }, { target }) => {
    let isOver = false;
    const flap = (): void => {
      if (isOver) return;
      for (const connection of network.connectionsOf(target)) connection.disconnectBothEnds(true);
      timeline.after(100, flap);
    };
    flap();
    return () => void (isOver = true);
  },
  "frame-lost": affectNextFrame("drop"),
  "frame-doubled": affectNextFrame("double"),
  "frame-overtaken": affectNextFrame("overtake"),
  lingering: affectConnections((connection, { ms = 0 }) => connection.disconnectWithLateDelivery(ms)),
  swizzle: ({ network, timeline, workers, schedulers }, { ms = 0, amount = 0 }) => {
    const random = new SeededRandom(`swizzle ${amount}`);
    const ends = new Set<EndFault>();
    let isOver = false;
    for (const worker of workers.keys())
      for (const scheduler of schedulers.keys())
        timeline.after((random.random() * ms) / 2, () => {
          if (isOver) return;
          const unclog = network.blockPath(`${worker}-${scheduler}`);
          const end = (): void => {
            if (ends.delete(end)) unclog();
          };
          ends.add(end);
          timeline.after((random.random() * ms) / 2, end);
        });
    return () => {
      isOver = true;
      for (const end of [...ends]) end();
    };
  },
  move: ({ network, workers }, { target, detail = "" }) => {
    if (workers.get(target)?.preferScheduler(detail) !== true) return undefined;
    for (const connection of network.connectionsOf(target)) connection.disconnectOneEnd("worker");
    return null;
  },

  "scheduler-killed": killMachine(false),
  "scheduler-killed-at": ({ schedulers }, { target, detail, ms = 0 }) => {
    const machine = schedulers.get(target);
    if (machine?.isUp !== true) return undefined;
    machine.killAtFailpoint = { point: detail as EngineFailpoint, backInMs: ms };
    return null;
  },
  "scheduler-paused": pauseMachine(false),
  "scheduler-restarted": ({ schedulers }, { target, ms = 0 }) => {
    const machine = schedulers.get(target);
    if (machine?.listeningProcess === null || machine === undefined) return undefined;
    machine.stopGracefully(ms);
    return null;
  },
  "worker-killed": killMachine(false),
  "worker-power-lost": killMachine(true),
  "worker-paused": pauseMachine(false),
  "worker-restarted": ({ workers }, { target, ms = 0, amount = 0 }) => {
    const machine = workers.get(target);
    if (machine?.isUp !== true) return undefined;
    machine.stopGracefully(amount, ms);
    return null;
  },

  "store-busy": ({ store }, { rate = 0 }) => store.busy.raise(rate),
  "store-fails": ({ store }, { rate = 0 }) => store.fail.raise(rate),
  "store-unknown": ({ store }, { rate = 0 }) => store.unknown.raise(rate),
  "store-slow": ({ store }, { amount = 0 }) => store.slow.raise(amount),
  "store-stalled": ({ store }) => store.stallAll(),

  "store-unreachable": ({ schedulers }, { target }) => schedulers.get(target)?.cutStoreConnection(),
  "store-connection-lost": ({ schedulers }, { target }) =>
    schedulers.get(target)?.loseNextTransaction() === true ? null : undefined,

  "wall-jumps": (world, { target, amount = 0 }) => {
    findClock(world, target)?.jumpWallClock(amount);
    return null;
  },
  "clock-drifts": (world, { target, amount = 0 }) => {
    findClock(world, target)?.setDriftPpm(amount);
    return null;
  },
  suspended: pauseMachine(true),

  "disk-full": affectDisk("full"),
  "disk-append-fails": affectDisk("append"),
  "disk-sync-fails": affectDisk("sync"),
  "disk-slow": ({ workers }, { target, amount = 0 }) => {
    const outboxDisk = workers.get(target)?.outboxDisk;
    if (outboxDisk === undefined || outboxDisk === null) return undefined;
    outboxDisk.addedSyncMs += amount;
    return () => void (outboxDisk.addedSyncMs -= amount);
  },

  "request-lost": ({ api }, { rate = 0 }) => api.requestLost.raise(rate),
  "answer-lost": ({ api }, { rate = 0 }) => api.answerLost.raise(rate),

  churn: ({ network, timeline }, { target, at, amount = 0 }) => {
    const random = new SeededRandom(`churn ${target} ${at}`);
    let isOver = false;
    const end = (): void => {
      if (isOver) return;
      const connection = network.connectionsOf(target).at(-1);
      if (connection !== undefined)
        connectionEndings[random.pickWeighted({ cut: 3, reset: 3, deaf: 1, forsaken: 2, late: 2 })](connection, amount);
      timeline.after(random.logUniform(amount / 3, amount * 3), end);
    };
    end();
    return () => void (isOver = true);
  },
  "taken-over": ({ network, timeline }, { target, ms = 0, amount = 0 }) => {
    const connection = network.connectionsOf(target).at(-1);
    if (connection === undefined) return undefined;
    connection.channelFrom("worker").setReading(false);
    timeline.after(amount, () => connection.disconnectWithLateDelivery(ms));
    return null;
  },
  cloned: ({ cloneOf }, { target }) => {
    const clone = cloneOf(target);
    if (clone === undefined || clone.isUp) return undefined;
    clone.start();
    return () => clone.retire();
  },
  "wire-loses": ({ network }, { target, rate = 0 }) => network.disturbFrames(target, "lost", rate),
  "wire-doubles": ({ network }, { target, rate, amount }) => network.disturbFrames(target, "doubled", rate, amount),
  "wire-shuffles": ({ network }, { target, rate, amount }) => network.disturbFrames(target, "overtaken", rate, amount),
};

const connectionEndings = {
  cut: (connection) => connection.disconnectBothEnds(false),
  reset: (connection) => connection.disconnectBothEnds(true),
  deaf: (connection) => connection.channelFrom("scheduler").goSilent(),
  forsaken: (connection) => connection.disconnectOneEnd("worker"),
  late: (connection, ms) => connection.disconnectWithLateDelivery(ms),
} as const satisfies Record<string, (connection: SimulatedConnection, ms: number) => void>;
