// What each fault of the table does to the world, and how it ends. One row per kind; a row answers with what ends it, or null where the
// fault is over as soon as it has struck, or undefined where it found nobody to strike.

import type { EngineFailpoint } from "@astraflow/engine";
import type { Api } from "./api.ts";
import type { Side } from "./connection.ts";
import { Dice } from "./dice.ts";
import type { FaultKind } from "./fault-table.ts";
import type { MachineClock } from "./machine-clock.ts";
import type { Network } from "./network.ts";
import type { FaultEvent } from "./observation.ts";
import type { OutboxDrive } from "./outbox-drive.ts";
import type { SchedulerMachine } from "./scheduler-machine.ts";
import type { StoreServer } from "./store-server.ts";
import type { Timeline } from "./timeline.ts";
import type { WorkerMachine } from "./worker-machine.ts";

/** What faults can get at. */
export interface Stricken {
  readonly timeline: Timeline;
  readonly network: Network;
  readonly store: StoreServer;
  readonly storeClock: MachineClock;
  readonly api: Api;
  readonly schedulers: ReadonlyMap<string, SchedulerMachine>;
  readonly workers: ReadonlyMap<string, WorkerMachine>;
  /** Machines with the names of others; each is up while its fault lasts. */
  cloneOf(worker: string): WorkerMachine | undefined;
  /** Messages may be lost on connections that live on. */
  readonly isLoose: boolean;
}

type End = () => void;
type Strike = (world: Stricken, event: FaultEvent) => End | null | undefined;

const laneOf = (detail: string | undefined): Side => (detail === "up" ? "worker" : "scheduler");

function onConnections(strike: (connection: Living, event: FaultEvent) => void): Strike {
  return ({ network }, event) => {
    const connections = network.connectionsOf(event.target);
    for (const connection of connections) strike(connection, event);
    return connections.length === 0 ? undefined : null;
  };
}

function onPath(strike: (network: Network, worker: string, scheduler: string, event: FaultEvent) => End): Strike {
  return ({ network }, event) => {
    const [worker = "", scheduler = ""] = event.target.split("-");
    return strike(network, worker, scheduler, event);
  };
}

function plague(kind: "drop" | "double" | "overtake"): Strike {
  return ({ network, timeline, isLoose }, { target, detail, ms = 0 }) => {
    const connection = network.plague(target, laneOf(detail), { kind, ms });
    if (connection === null) return undefined;
    // What TCP would do is end the connection.
    if (kind === "drop" && !isLoose) timeline.after(ms, () => connection.cut(true));
    return null;
  };
}

function unsettle(kind: "lost" | "doubled" | "overtaken"): Strike {
  return onPath((network, worker, scheduler, { rate = 0, amount = 0 }) =>
    network.unsettle(worker, scheduler, kind, rate, amount),
  );
}

const onStore =
  (mood: "busy" | "fail" | "unknown"): Strike =>
  ({ store }, { rate = 0 }) =>
    store[mood].raise(rate);

const onApi =
  (mood: "requestLost" | "answerLost"): Strike =>
  ({ api }, { rate = 0 }) =>
    api[mood].raise(rate);

function clockOf({ schedulers, workers, storeClock }: Stricken, target: string): MachineClock | undefined {
  return target === "store" ? storeClock : (schedulers.get(target) ?? workers.get(target))?.clock;
}

const hold =
  (isSuspended: boolean): Strike =>
  ({ schedulers, workers }, { target }) => {
    const machine = schedulers.get(target) ?? workers.get(target);
    return machine?.isUp === true ? machine.hold(isSuspended) : undefined;
  };

const kill =
  (isPowerLoss: boolean): Strike =>
  ({ schedulers, workers }, { target, ms = 0 }) => {
    const machine = schedulers.get(target) ?? workers.get(target);
    if (machine?.isUp !== true) return undefined;
    machine.kill(ms, isPowerLoss ? "power lost" : "killed", isPowerLoss);
    return null;
  };

/** A disk that is not there cannot fail. */
function onDisk(fault: keyof OutboxDrive["faults"]): Strike {
  return ({ workers }, { target }) => {
    const drive = workers.get(target)?.drive;
    if (drive === undefined || drive === null) return undefined;
    drive.faults[fault]++;
    return () => void drive.faults[fault]--;
  };
}

export const faultEffects: Readonly<Record<FaultKind, Strike>> = {
  cut: onConnections((connection) => connection.cut(false)),
  reset: onConnections((connection) => connection.cut(true)),
  "half-open": onConnections((connection, { detail }) => connection.forsake(detail === "worker" ? "worker" : "scheduler")),
  "one-way-loss": onConnections((connection, { detail }) => connection.laneFrom(laneOf(detail)).die()),
  clog: onPath((network, worker, scheduler) => network.clog(worker, scheduler)),
  partition: ({ network }, { target, detail = "" }) => {
    const ends = detail.split(",").map((worker) => network.clog(worker, target));
    return () => {
      for (const end of ends) end();
    };
  },
  slow: onPath((network, worker, scheduler, { amount = 0 }) => network.slow(worker, scheduler, amount)),
  refuse: onPath((network, worker, scheduler) => network.refuse(worker, scheduler)),
  flap: ({ network, timeline }, { target }) => {
    let isOver = false;
    const flap = (): void => {
      if (isOver) return;
      for (const connection of network.connectionsOf(target)) connection.cut(true);
      timeline.after(100, flap);
    };
    flap();
    return () => {
      isOver = true;
    };
  },
  "frame-lost": plague("drop"),
  "frame-doubled": plague("double"),
  "frame-overtaken": plague("overtake"),
  lingering: onConnections((connection, { ms = 0 }) => connection.linger(ms)),
  swizzle: ({ network, timeline, workers, schedulers }, { ms = 0, amount = 0 }) => {
    const dice = new Dice(`swizzle ${amount}`);
    const ends = new Set<End>();
    let isOver = false;
    for (const worker of workers.keys())
      for (const scheduler of schedulers.keys())
        timeline.after((dice.roll() * ms) / 2, () => {
          if (isOver) return;
          const unclog = network.clog(worker, scheduler);
          const end = (): void => {
            if (ends.delete(end)) unclog();
          };
          ends.add(end);
          timeline.after((dice.roll() * ms) / 2, end);
        });
    return () => {
      isOver = true;
      for (const end of [...ends]) end();
    };
  },
  move: ({ network, workers }, { target, detail = "" }) => {
    if (workers.get(target)?.moveTo(detail) !== true) return undefined;
    for (const connection of network.connectionsOf(target)) connection.forsake("worker");
    return null;
  },

  "scheduler-killed": kill(false),
  "scheduler-killed-at": ({ schedulers }, { target, detail, ms = 0 }) => {
    const machine = schedulers.get(target);
    if (machine?.isUp !== true) return undefined;
    machine.armed = { point: detail as EngineFailpoint, backInMs: ms };
    return null;
  },
  "scheduler-paused": hold(false),
  "scheduler-restarted": ({ schedulers }, { target, ms = 0 }) => {
    const machine = schedulers.get(target);
    if (machine?.listening === null || machine === undefined) return undefined;
    machine.stop(ms);
    return null;
  },
  "worker-killed": kill(false),
  "worker-power-lost": kill(true),
  "worker-paused": hold(false),
  "worker-restarted": ({ workers }, { target, ms = 0, amount = 0 }) => {
    const machine = workers.get(target);
    if (machine?.isUp !== true) return undefined;
    machine.leave(amount, ms);
    return null;
  },

  "store-busy": onStore("busy"),
  "store-fails": onStore("fail"),
  "store-unknown": onStore("unknown"),
  "store-slow": ({ store }, { amount = 0 }) => store.slow.raise(amount),
  "store-stalled": ({ store }) => store.stall(),

  "store-unreachable": ({ schedulers }, { target }) => schedulers.get(target)?.loseStore(),
  "store-connection-lost": ({ schedulers }, { target }) => (schedulers.get(target)?.breakStore() === true ? null : undefined),

  "wall-jumps": (world, { target, amount = 0 }) => {
    clockOf(world, target)?.jump(amount);
    return null;
  },
  "clock-drifts": (world, { target, amount = 0 }) => {
    clockOf(world, target)?.drift(amount);
    return null;
  },
  suspended: hold(true),

  "disk-full": onDisk("full"),
  "disk-append-fails": onDisk("append"),
  "disk-sync-fails": onDisk("sync"),
  "disk-slow": ({ workers }, { target, amount = 0 }) => {
    const drive = workers.get(target)?.drive;
    if (drive === undefined || drive === null) return undefined;
    drive.slowMs += amount;
    return () => void (drive.slowMs -= amount);
  },

  "request-lost": onApi("requestLost"),
  "answer-lost": onApi("answerLost"),

  churn: ({ network, timeline }, { target, at, amount = 0 }) => {
    const dice = new Dice(`churn ${target} ${at}`);
    let isOver = false;
    const end = (): void => {
      if (isOver) return;
      const connection = network.connectionsOf(target).at(-1);
      if (connection !== undefined)
        waysToEnd[dice.weigh({ cut: 3, reset: 3, deaf: 1, forsaken: 2, late: 2 })](connection, amount);
      timeline.after(dice.scale(amount / 3, amount * 3), end);
    };
    end();
    return () => {
      isOver = true;
    };
  },
  "taken-over": ({ network, timeline }, { target, ms = 0, amount = 0 }) => {
    const connection = network.connectionsOf(target).at(-1);
    if (connection === undefined) return undefined;
    connection.laneFrom("worker").read(false);
    timeline.after(amount, () => connection.linger(ms));
    return null;
  },
  cloned: ({ cloneOf }, { target }) => {
    const clone = cloneOf(target);
    if (clone === undefined || clone.isUp) return undefined;
    clone.start();
    return () => clone.retire();
  },
  "wire-loses": unsettle("lost"),
  "wire-doubles": unsettle("doubled"),
  "wire-shuffles": unsettle("overtaken"),
};

type Living = ReturnType<Network["connectionsOf"]>[number];
const waysToEnd: Readonly<Record<"cut" | "reset" | "deaf" | "forsaken" | "late", (connection: Living, ms: number) => void>> = {
  cut: (connection) => connection.cut(false),
  reset: (connection) => connection.cut(true),
  deaf: (connection) => connection.laneFrom("scheduler").die(),
  forsaken: (connection) => connection.forsake("worker"),
  late: (connection, ms) => connection.linger(ms),
};
