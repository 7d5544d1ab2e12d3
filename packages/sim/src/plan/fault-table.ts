// All kinds of faults as data: the group, weight and parameters of each. What each one does is in world/fault-effects.ts.

import { engineFailpoints } from "@astraflow/engine";
import type { SeededRandom } from "../kernel/seeded-random.ts";
import type { ScheduledFault } from "../observation/observation.ts";

/** Who a fault can be aimed at in the world that was drawn. */
export interface FaultTargets {
  readonly schedulers: readonly string[];
  readonly workers: readonly string[];
  readonly leaseMs: number;
}

type FaultParameters = Omit<ScheduledFault, "at" | "kind">;
export type FaultGroup = "network" | "processes" | "store" | "clocks" | "disk" | "api" | "session" | "wire";

export interface FaultDefinition {
  readonly group: FaultGroup;
  /** How often, beside the others that are switched on. */
  readonly weight: number;
  draw(random: SeededRandom, targets: FaultTargets): FaultParameters;
}

const pickWorker = (random: SeededRandom, { workers }: FaultTargets): string => random.pick(workers);
const pickScheduler = (random: SeededRandom, { schedulers }: FaultTargets): string => random.pick(schedulers);
const pickPath = (random: SeededRandom, targets: FaultTargets): string =>
  `${pickWorker(random, targets)}-${pickScheduler(random, targets)}`;
const pickShortMs = (random: SeededRandom): number => Math.round(random.logUniform(20, 3_000));
/** On the scale of the lease, so that faults end before, around and after its end. */
const pickLeaseScaleMs = (random: SeededRandom, { leaseMs }: FaultTargets): number =>
  Math.round(random.logUniform(leaseMs / 60, leaseMs * 2.5));
const pickSecondScaleMs = (random: SeededRandom): number => Math.round(random.logUniform(100, 4_000));
const pickDirection = (random: SeededRandom): string => random.pick(["up", "down"]);

export const faultTable = {
  /** Both ends see the end; what is on its way arrives first, or is lost. */
  cut: { group: "network", weight: 4, draw: (random, t) => ({ target: pickWorker(random, t) }) },
  reset: { group: "network", weight: 4, draw: (random, t) => ({ target: pickWorker(random, t) }) },
  /** One end sees the end, the other never hears. `detail` is the end that knows. */
  "half-open": {
    group: "network",
    weight: 3,
    draw: (random, t) => ({ target: pickWorker(random, t), detail: random.pick(["worker", "scheduler"]) }),
  },
  /** One direction is silent for ever, as behind a NAT that has forgotten the connection. */
  "one-way-loss": {
    group: "network",
    weight: 3,
    draw: (random, t) => ({ target: pickWorker(random, t), detail: pickDirection(random) }),
  },
  /** Nothing moves on one path; then everything does, in order. */
  clog: { group: "network", weight: 3, draw: (random, t) => ({ target: pickPath(random, t), ms: pickLeaseScaleMs(random, t) }) },
  /** A scheduler and some workers do not reach each other. `detail` names the workers. */
  partition: {
    group: "network",
    weight: 2,
    draw: (random, t) => ({
      target: pickScheduler(random, t),
      ms: pickLeaseScaleMs(random, t),
      detail: t.workers.filter(() => random.chance(0.6)).join(",") || pickWorker(random, t),
    }),
  },
  slow: {
    group: "network",
    weight: 2,
    draw: (random, t) => ({ target: pickPath(random, t), ms: pickLeaseScaleMs(random, t), amount: pickSecondScaleMs(random) }),
  },
  refuse: {
    group: "network",
    weight: 2,
    draw: (random, t) => ({ target: pickPath(random, t), ms: pickLeaseScaleMs(random, t) }),
  },
  /** Ten cuts a second. */
  flap: { group: "network", weight: 1, draw: (random, t) => ({ target: pickWorker(random, t), ms: pickSecondScaleMs(random) }) },
  /** A single message vanishes, is doubled or is overtaken on a living connection. One that vanishes ends in a cut after `ms`. */
  "frame-lost": {
    group: "network",
    weight: 2,
    draw: (random, t) => ({ target: pickWorker(random, t), detail: pickDirection(random), ms: pickShortMs(random) }),
  },
  "frame-doubled": {
    group: "network",
    weight: 2,
    draw: (random, t) => ({ target: pickWorker(random, t), detail: pickDirection(random), ms: pickShortMs(random) }),
  },
  "frame-overtaken": {
    group: "network",
    weight: 1,
    draw: (random, t) => ({ target: pickWorker(random, t), detail: pickDirection(random), ms: pickShortMs(random) }),
  },
  /** The worker believes its connection gone and dials again; what it had sent arrives `ms` later, on the old one. */
  lingering: { group: "network", weight: 2, draw: (random, t) => ({ target: pickWorker(random, t), ms: pickShortMs(random) }) },
  /** Paths clog one after the other and come free in another order; `amount` is the seed of both orders. */
  swizzle: {
    group: "network",
    weight: 1,
    draw: (random, t) => ({ target: "*", ms: pickLeaseScaleMs(random, t), amount: random.integerBelow(1_000_000) }),
  },
  /** The worker goes to another scheduler, while the old one may still count on it. */
  move: {
    group: "network",
    weight: 2,
    draw: (random, t) => ({ target: pickWorker(random, t), detail: pickScheduler(random, t) }),
  },

  "scheduler-killed": {
    group: "processes",
    weight: 3,
    draw: (random, t) => ({ target: pickScheduler(random, t), ms: pickLeaseScaleMs(random, t) }),
  },
  /** At the next passing of a named point of a turn. */
  "scheduler-killed-at": {
    group: "processes",
    weight: 4,
    draw: (random, t) => ({
      target: pickScheduler(random, t),
      detail: random.pick(engineFailpoints),
      ms: pickLeaseScaleMs(random, t),
    }),
  },
  "scheduler-paused": {
    group: "processes",
    weight: 3,
    draw: (random, t) => ({ target: pickScheduler(random, t), ms: pickLeaseScaleMs(random, t) }),
  },
  "scheduler-restarted": {
    group: "processes",
    weight: 2,
    draw: (random, t) => ({ target: pickScheduler(random, t), ms: pickSecondScaleMs(random) }),
  },
  "worker-killed": {
    group: "processes",
    weight: 4,
    draw: (random, t) => ({ target: pickWorker(random, t), ms: pickLeaseScaleMs(random, t) }),
  },
  /** The whole machine: the kernel says no goodbye, and what the disk was not made to keep is gone. */
  "worker-power-lost": {
    group: "processes",
    weight: 2,
    draw: (random, t) => ({ target: pickWorker(random, t), ms: pickLeaseScaleMs(random, t) }),
  },
  "worker-paused": {
    group: "processes",
    weight: 3,
    draw: (random, t) => ({ target: pickWorker(random, t), ms: pickLeaseScaleMs(random, t) }),
  },
  "worker-restarted": {
    group: "processes",
    weight: 2,
    draw: (random, t) => ({ target: pickWorker(random, t), ms: pickSecondScaleMs(random), amount: pickLeaseScaleMs(random, t) }),
  },

  /** Shares of roots called busy, of commits that fail or whose answer is lost. */
  "store-busy": {
    group: "store",
    weight: 3,
    draw: (random, t) => ({ target: "store", ms: pickLeaseScaleMs(random, t), rate: random.logUniform(0.02, 0.5) }),
  },
  "store-fails": {
    group: "store",
    weight: 3,
    draw: (random, t) => ({ target: "store", ms: pickLeaseScaleMs(random, t), rate: random.logUniform(0.02, 0.5) }),
  },
  "store-unknown": {
    group: "store",
    weight: 3,
    draw: (random, t) => ({ target: "store", ms: pickLeaseScaleMs(random, t), rate: random.logUniform(0.02, 0.5) }),
  },
  "store-slow": {
    group: "store",
    weight: 2,
    draw: (random, t) => ({ target: "store", ms: pickLeaseScaleMs(random, t), amount: Math.round(random.logUniform(5, 500)) }),
  },
  "store-stalled": { group: "store", weight: 1, draw: (random, t) => ({ target: "store", ms: pickLeaseScaleMs(random, t) }) },

  /** One scheduler's requests to the store and its answers wait; to its workers it is as alive as ever. */
  "store-unreachable": {
    group: "store",
    weight: 2,
    draw: (random, t) => ({ target: pickScheduler(random, t), ms: pickLeaseScaleMs(random, t) }),
  },
  /** What is open there and not committed is gone. */
  "store-connection-lost": { group: "store", weight: 2, draw: (random, t) => ({ target: pickScheduler(random, t) }) },

  "wall-jumps": {
    group: "clocks",
    weight: 3,
    draw: (random, t) => ({
      target: random.pick([...t.schedulers, ...t.workers, "store"]),
      amount: random.pick([-1, 1]) * Math.round(random.logUniform(100, 86_400_000)),
    }),
  },
  "clock-drifts": {
    group: "clocks",
    weight: 2,
    draw: (random, t) => ({
      target: random.pick([...t.schedulers, ...t.workers, "store"]),
      amount: random.integerBetween(-500, 500),
    }),
  },
  /** The machine is suspended: its monotonic clock stands still, so the process cannot know. */
  suspended: {
    group: "clocks",
    weight: 2,
    draw: (random, t) => ({ target: random.pick([...t.schedulers, ...t.workers]), ms: pickLeaseScaleMs(random, t) }),
  },

  "disk-full": {
    group: "disk",
    weight: 3,
    draw: (random, t) => ({ target: pickWorker(random, t), ms: pickLeaseScaleMs(random, t) }),
  },
  "disk-append-fails": {
    group: "disk",
    weight: 2,
    draw: (random, t) => ({ target: pickWorker(random, t), ms: pickSecondScaleMs(random) }),
  },
  "disk-sync-fails": {
    group: "disk",
    weight: 3,
    draw: (random, t) => ({ target: pickWorker(random, t), ms: pickSecondScaleMs(random) }),
  },
  "disk-slow": {
    group: "disk",
    weight: 2,
    draw: (random, t) => ({
      target: pickWorker(random, t),
      ms: pickLeaseScaleMs(random, t),
      amount: Math.round(random.logUniform(20, 6_000)),
    }),
  },

  /** Shares of calls whose request or answer is lost on the way. */
  "request-lost": {
    group: "api",
    weight: 1,
    draw: (random, t) => ({ target: "api", ms: pickLeaseScaleMs(random, t), rate: random.logUniform(0.1, 0.9) }),
  },
  "answer-lost": {
    group: "api",
    weight: 2,
    draw: (random, t) => ({ target: "api", ms: pickLeaseScaleMs(random, t), rate: random.logUniform(0.1, 0.9) }),
  },

  /** Sockets that live for moments: every `amount` ms the newest ends, each time in another of the ways in which sockets end. */
  churn: {
    group: "session",
    weight: 4,
    draw: (random, t) => ({
      target: pickWorker(random, t),
      ms: pickLeaseScaleMs(random, t),
      amount: Math.round(random.logUniform(30, 3_000)),
    }),
  },
  /** What the worker says is held up for `amount` ms; then it dials again, while the first socket looks open and all that arrives there `ms` later. */
  "taken-over": {
    group: "session",
    weight: 3,
    draw: (random, t) => ({ target: pickWorker(random, t), ms: pickShortMs(random), amount: pickSecondScaleMs(random) }),
  },
  /** A second process with the same name and token, as from a copied disk image; it has an empty disk of its own. */
  cloned: {
    group: "session",
    weight: 1,
    draw: (random, t) => ({ target: pickWorker(random, t), ms: pickLeaseScaleMs(random, t) }),
  },

  /** Shares of messages on living connections; only where the network is no TCP. Doubles and stragglers come by up to `amount` ms later. */
  "wire-loses": {
    group: "wire",
    weight: 4,
    draw: (random, t) => ({ target: pickPath(random, t), ms: pickLeaseScaleMs(random, t), rate: random.logUniform(0.02, 0.6) }),
  },
  "wire-doubles": {
    group: "wire",
    weight: 3,
    draw: (random, t) => ({
      target: pickPath(random, t),
      ms: pickLeaseScaleMs(random, t),
      rate: random.logUniform(0.05, 0.9),
      amount: pickSecondScaleMs(random),
    }),
  },
  "wire-shuffles": {
    group: "wire",
    weight: 3,
    draw: (random, t) => ({
      target: pickPath(random, t),
      ms: pickLeaseScaleMs(random, t),
      rate: random.logUniform(0.05, 0.9),
      amount: pickSecondScaleMs(random),
    }),
  },
} as const satisfies Record<string, FaultDefinition>;

export type FaultKind = keyof typeof faultTable;
export const faultKinds = Object.keys(faultTable) as readonly FaultKind[];

export const profiles = {
  default: ["network", "processes", "store", "clocks", "disk", "api", "session", "wire"],
  calm: [],
  crashes: ["processes"],
  network: ["network", "api", "session", "wire"],
  session: ["network", "processes", "session", "wire"],
  store: ["store"],
  clocks: ["clocks"],
  disk: ["disk", "processes"],
  workflow: ["network", "processes", "store", "clocks", "disk", "api", "session", "wire"],
} as const satisfies Record<string, readonly FaultGroup[]>;
export type FaultProfile = keyof typeof profiles;

/** Groups that came later: they have dice of their own, so that the seeds of the older profiles keep their faults. */
const laterAddedGroups: readonly FaultGroup[] = ["session", "wire"];

export interface FaultScheduleOptions {
  readonly profile: FaultProfile;
  /** On TCP no message is lost while its connection lives. */
  readonly isNetworkLossy: boolean;
  readonly faultPhaseMs: number;
}

/** A fault phase's schedule: which kinds are switched on, then when and whom they strike. In the order of time. */
export function generateFaultSchedule(
  random: SeededRandom,
  { profile, isNetworkLossy, faultPhaseMs }: FaultScheduleOptions,
  targets: FaultTargets,
): ScheduledFault[] {
  const groups: readonly FaultGroup[] = profiles[profile];
  const isPossible = (group: FaultGroup): boolean => groups.includes(group) && (isNetworkLossy || group !== "wire");
  const kindsOf = (isWanted: (group: FaultGroup) => boolean): FaultKind[] =>
    faultKinds.filter((kind) => isPossible(faultTable[kind].group) && isWanted(faultTable[kind].group));
  const draw = (from: SeededRandom, isWanted: (group: FaultGroup) => boolean, countMax: number): ScheduledFault[] =>
    generateFaultsOfKinds(from, kindsOf(isWanted), { targets, faultPhaseMs, countMax });
  // Worlds of workflows had no disks that fail at first.
  const isLate = (group: FaultGroup): boolean => profile === "workflow" && group === "disk";
  const isYoung = (group: FaultGroup): boolean => laterAddedGroups.includes(group);
  const young = random.fork("young");
  const late = random.fork("late");
  const events =
    profile === "session"
      ? [...draw(random.fork("session"), () => true, 40), ...draw(young, isYoung, 30)]
      : [
          ...draw(random, (group) => !isYoung(group) && !isLate(group), 40),
          ...(young.chance(0.35) ? draw(young, isYoung, 8) : []),
          ...(late.chance(0.35) ? draw(late, isLate, 8) : []),
        ];
  return events.sort((a, b) => a.at - b.at);
}

interface FaultBatchOptions {
  readonly targets: FaultTargets;
  readonly faultPhaseMs: number;
  readonly countMax: number;
}

function generateFaultsOfKinds(
  random: SeededRandom,
  possible: readonly FaultKind[],
  { targets, faultPhaseMs, countMax }: FaultBatchOptions,
): ScheduledFault[] {
  if (possible.length === 0) return [];
  // Each seed has its own weather: with everything on in every seed, no two faults would ever meet often.
  const share = random.pick([0.15, 0.4, 0.8]);
  const chosen = possible.filter(() => random.chance(share));
  const kinds = chosen.length > 0 ? chosen : [random.pick(possible)];
  const weights = Object.fromEntries(kinds.map((kind) => [kind, faultTable[kind].weight])) as Record<FaultKind, number>;
  const count = Math.round(random.logUniform(1, countMax));
  const events: ScheduledFault[] = [];
  for (let n = 0; n < count; n++) {
    const kind = random.pickWeighted(weights);
    events.push({ at: Math.round(random.random() * faultPhaseMs * 0.95), kind, ...faultTable[kind].draw(random, targets) });
  }
  return events.sort((a, b) => a.at - b.at);
}
