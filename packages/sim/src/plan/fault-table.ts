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
  /** Drawn one after the other: the order is part of the meaning of a seed. */
  readonly parameters: readonly DrawParameter[];
}

type DrawParameter = (random: SeededRandom, targets: FaultTargets) => Partial<FaultParameters>;

const onWorker: DrawParameter = (random, { workers }) => ({ target: random.pick(workers) });
const onScheduler: DrawParameter = (random, { schedulers }) => ({ target: random.pick(schedulers) });
const onPath: DrawParameter = (random, { workers, schedulers }) => ({
  target: `${random.pick(workers)}-${random.pick(schedulers)}`,
});
const onProcess: DrawParameter = (random, { schedulers, workers }) => ({ target: random.pick([...schedulers, ...workers]) });
const onClock: DrawParameter = (random, { schedulers, workers }) => ({
  target: random.pick([...schedulers, ...workers, "store"]),
});
const onStore: DrawParameter = () => ({ target: "store" });
const onApi: DrawParameter = () => ({ target: "api" });

/** On the scale of the lease, so that faults end before, around and after its end. */
const leaseScaleMs = (random: SeededRandom, { leaseMs }: FaultTargets): number =>
  Math.round(random.logUniform(leaseMs / 60, leaseMs * 2.5));
const secondScaleMs = (random: SeededRandom): number => Math.round(random.logUniform(100, 4_000));

const shortTime: DrawParameter = (random) => ({ ms: Math.round(random.logUniform(20, 3_000)) });
const leaseTime: DrawParameter = (random, targets) => ({ ms: leaseScaleMs(random, targets) });
const secondsTime: DrawParameter = (random) => ({ ms: secondScaleMs(random) });
const leaseAmount: DrawParameter = (random, targets) => ({ amount: leaseScaleMs(random, targets) });
const secondsAmount: DrawParameter = (random) => ({ amount: secondScaleMs(random) });
const amountBetween =
  (least: number, most: number): DrawParameter =>
  (random) => ({ amount: Math.round(random.logUniform(least, most)) });
const shareBetween =
  (least: number, most: number): DrawParameter =>
  (random) => ({ rate: random.logUniform(least, most) });
const oneOf =
  (...details: readonly string[]): DrawParameter =>
  (random) => ({ detail: random.pick(details) });
const direction = oneOf("up", "down");

export const faultTable = {
  /** Both ends see the end; what is on its way arrives first, or is lost. */
  cut: { group: "network", weight: 4, parameters: [onWorker] },
  reset: { group: "network", weight: 4, parameters: [onWorker] },
  /** One end sees the end, the other never hears. `detail` is the end that knows. */
  "half-open": { group: "network", weight: 3, parameters: [onWorker, oneOf("worker", "scheduler")] },
  /** One direction is silent for ever, as behind a NAT that has forgotten the connection. */
  "one-way-loss": { group: "network", weight: 3, parameters: [onWorker, direction] },
  /** Nothing moves on one path; then everything does, in order. */
  clog: { group: "network", weight: 3, parameters: [onPath, leaseTime] },
  /** A scheduler and some workers do not reach each other. `detail` names the workers. */
  partition: {
    group: "network",
    weight: 2,
    parameters: [
      onScheduler,
      leaseTime,
      (random, { workers }) => ({ detail: workers.filter(() => random.chance(0.6)).join(",") || random.pick(workers) }),
    ],
  },
  slow: { group: "network", weight: 2, parameters: [onPath, leaseTime, secondsAmount] },
  refuse: { group: "network", weight: 2, parameters: [onPath, leaseTime] },
  /** Ten cuts a second. */
  flap: { group: "network", weight: 1, parameters: [onWorker, secondsTime] },
  /** A single message vanishes, is doubled or is overtaken on a living connection. One that vanishes ends in a cut after `ms`. */
  "frame-lost": { group: "network", weight: 2, parameters: [onWorker, direction, shortTime] },
  "frame-doubled": { group: "network", weight: 2, parameters: [onWorker, direction, shortTime] },
  "frame-overtaken": { group: "network", weight: 1, parameters: [onWorker, direction, shortTime] },
  /** The worker believes its connection gone and dials again; what it had sent arrives `ms` later, on the old one. */
  lingering: { group: "network", weight: 2, parameters: [onWorker, shortTime] },
  /** Paths clog one after the other and come free in another order; `amount` is the seed of both orders. */
  swizzle: {
    group: "network",
    weight: 1,
    parameters: [() => ({ target: "*" }), leaseTime, (random) => ({ amount: random.integerBelow(1_000_000) })],
  },
  /** The worker goes to another scheduler, while the old one may still count on it. */
  move: { group: "network", weight: 2, parameters: [onWorker, (random, t) => ({ detail: random.pick(t.schedulers) })] },

  "scheduler-killed": { group: "processes", weight: 3, parameters: [onScheduler, leaseTime] },
  /** At the next passing of a named point of a turn. */
  "scheduler-killed-at": { group: "processes", weight: 4, parameters: [onScheduler, oneOf(...engineFailpoints), leaseTime] },
  "scheduler-paused": { group: "processes", weight: 3, parameters: [onScheduler, leaseTime] },
  "scheduler-restarted": { group: "processes", weight: 2, parameters: [onScheduler, secondsTime] },
  "worker-killed": { group: "processes", weight: 4, parameters: [onWorker, leaseTime] },
  /** The whole machine: the kernel says no goodbye, and what the disk was not made to keep is gone. */
  "worker-power-lost": { group: "processes", weight: 2, parameters: [onWorker, leaseTime] },
  "worker-paused": { group: "processes", weight: 3, parameters: [onWorker, leaseTime] },
  "worker-restarted": { group: "processes", weight: 2, parameters: [onWorker, secondsTime, leaseAmount] },

  /** Shares of roots called busy, of commits that fail or whose answer is lost. */
  "store-busy": { group: "store", weight: 3, parameters: [onStore, leaseTime, shareBetween(0.02, 0.5)] },
  "store-fails": { group: "store", weight: 3, parameters: [onStore, leaseTime, shareBetween(0.02, 0.5)] },
  "store-unknown": { group: "store", weight: 3, parameters: [onStore, leaseTime, shareBetween(0.02, 0.5)] },
  "store-slow": { group: "store", weight: 2, parameters: [onStore, leaseTime, amountBetween(5, 500)] },
  "store-stalled": { group: "store", weight: 1, parameters: [onStore, leaseTime] },

  /** One scheduler's requests to the store and its answers wait; to its workers it is as alive as ever. */
  "store-unreachable": { group: "store", weight: 2, parameters: [onScheduler, leaseTime] },
  /** What is open there and not committed is gone. */
  "store-connection-lost": { group: "store", weight: 2, parameters: [onScheduler] },

  "wall-jumps": {
    group: "clocks",
    weight: 3,
    parameters: [onClock, (random) => ({ amount: random.pick([-1, 1]) * Math.round(random.logUniform(100, 86_400_000)) })],
  },
  "clock-drifts": {
    group: "clocks",
    weight: 2,
    parameters: [onClock, (random) => ({ amount: random.integerBetween(-500, 500) })],
  },
  /** The machine is suspended: its monotonic clock stands still, so the process cannot know. */
  suspended: { group: "clocks", weight: 2, parameters: [onProcess, leaseTime] },

  "disk-full": { group: "disk", weight: 3, parameters: [onWorker, leaseTime] },
  "disk-append-fails": { group: "disk", weight: 2, parameters: [onWorker, secondsTime] },
  "disk-sync-fails": { group: "disk", weight: 3, parameters: [onWorker, secondsTime] },
  "disk-slow": { group: "disk", weight: 2, parameters: [onWorker, leaseTime, amountBetween(20, 6_000)] },

  /** Shares of calls whose request or answer is lost on the way. */
  "request-lost": { group: "api", weight: 1, parameters: [onApi, leaseTime, shareBetween(0.1, 0.9)] },
  "answer-lost": { group: "api", weight: 2, parameters: [onApi, leaseTime, shareBetween(0.1, 0.9)] },

  /** Sockets that live for moments: every `amount` ms the newest ends, each time in another of the ways in which sockets end. */
  churn: { group: "session", weight: 4, parameters: [onWorker, leaseTime, amountBetween(30, 3_000)] },
  /** What the worker says is held up for `amount` ms; then it dials again, while the first socket looks open and all that arrives there `ms` later. */
  "taken-over": { group: "session", weight: 3, parameters: [onWorker, shortTime, secondsAmount] },
  /** A second process with the same name and token, as from a copied disk image; it has an empty disk of its own. */
  cloned: { group: "session", weight: 1, parameters: [onWorker, leaseTime] },

  /** Shares of messages on living connections; only where the network is no TCP. Doubles and stragglers come by up to `amount` ms later. */
  "wire-loses": { group: "wire", weight: 4, parameters: [onPath, leaseTime, shareBetween(0.02, 0.6)] },
  "wire-doubles": { group: "wire", weight: 3, parameters: [onPath, leaseTime, shareBetween(0.05, 0.9), secondsAmount] },
  "wire-shuffles": { group: "wire", weight: 3, parameters: [onPath, leaseTime, shareBetween(0.05, 0.9), secondsAmount] },
} as const satisfies Record<string, FaultDefinition>;

export type FaultKind = keyof typeof faultTable;
export const faultKinds = Object.keys(faultTable) as readonly FaultKind[];

export const profiles = {
  default: ["network", "processes", "store", "clocks", "disk", "api", "session", "wire"],
  calm: [],
  crashes: ["processes"],
  network: ["network", "api", "session", "wire"],
  session: ["network", "processes", "session", "wire"],
  dialects: ["network", "processes", "session"],
  store: ["store"],
  clocks: ["clocks"],
  disk: ["disk", "processes"],
  workflow: ["network", "processes", "store", "clocks", "disk", "api", "session", "wire"],
} as const satisfies Record<string, readonly FaultGroup[]>;
export type FaultProfile = keyof typeof profiles;

/** Groups that came later: they have dice of their own, so that the seeds of the older profiles keep their faults. */
const laterAddedGroups: readonly FaultGroup[] = ["session", "wire"];

/** A fault phase's schedule: which kinds are switched on, then when and whom they strike. In the order of time. */
export function generateFaultSchedule(
  random: SeededRandom,
  { profile, isNetworkLossy, faultPhaseMs }: { profile: FaultProfile; isNetworkLossy: boolean; faultPhaseMs: number },
  targets: FaultTargets,
): ScheduledFault[] {
  const groups: readonly FaultGroup[] = profiles[profile];
  // On TCP no message is lost while its connection lives.
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
    profile === "session" || profile === "dialects"
      ? [...draw(random.fork("session"), () => true, 40), ...draw(young, isYoung, 30)]
      : [
          ...draw(random, (group) => !isYoung(group) && !isLate(group), 40),
          ...(young.chance(0.35) ? draw(young, isYoung, 8) : []),
          ...(late.chance(0.35) ? draw(late, isLate, 8) : []),
        ];
  return events.sort((a, b) => a.at - b.at);
}

function generateFaultsOfKinds(
  random: SeededRandom,
  possible: readonly FaultKind[],
  { targets, faultPhaseMs, countMax }: { targets: FaultTargets; faultPhaseMs: number; countMax: number },
): ScheduledFault[] {
  if (possible.length === 0) return [];
  // Each seed enables only some kinds; with all of them, no pair would coincide often.
  const share = random.pick([0.15, 0.4, 0.8]);
  const chosen = possible.filter(() => random.chance(share));
  const kinds = chosen.length > 0 ? chosen : [random.pick(possible)];
  const weights = Object.fromEntries(kinds.map((kind) => [kind, faultTable[kind].weight])) as Record<FaultKind, number>;
  const count = Math.round(random.logUniform(1, countMax));
  const faults = Array.from({ length: count }, (): ScheduledFault => {
    const kind = random.pickWeighted(weights);
    const at = Math.round(random.random() * faultPhaseMs * 0.95);
    const { parameters } = faultTable[kind] as FaultDefinition;
    return Object.assign({ at, kind, target: "" }, ...parameters.map((draw) => draw(random, targets)));
  });
  return faults.sort((a, b) => a.at - b.at);
}
