// The faults that can strike, as data: what each needs to be drawn. What each does to the world is fault-effects.ts; the promises that
// must hold meanwhile are the judges'.

import { engineFailpoints } from "@astraflow/engine";
import type { Dice } from "./dice.ts";
import type { FaultEvent } from "./observation.ts";

/** Who a fault can be aimed at in the world that was drawn. */
export interface Targets {
  readonly schedulers: readonly string[];
  readonly workers: readonly string[];
  readonly leaseMs: number;
}

type Aim = Omit<FaultEvent, "at" | "kind">;
export type FaultGroup = "network" | "processes" | "store" | "clocks" | "disk" | "api" | "session" | "wire";

export interface FaultRow {
  readonly group: FaultGroup;
  /** How often, beside the others that are switched on. */
  readonly weight: number;
  draw(dice: Dice, targets: Targets): Aim;
}

const worker = (dice: Dice, { workers }: Targets): string => dice.pick(workers);
const scheduler = (dice: Dice, { schedulers }: Targets): string => dice.pick(schedulers);
const path = (dice: Dice, targets: Targets): string => `${worker(dice, targets)}-${scheduler(dice, targets)}`;
const aMoment = (dice: Dice): number => Math.round(dice.scale(20, 3_000));
/** On the scale of the lease, so that faults end before, around and after its end. */
const aWhile = (dice: Dice, { leaseMs }: Targets): number => Math.round(dice.scale(leaseMs / 60, leaseMs * 2.5));
const aSecond = (dice: Dice): number => Math.round(dice.scale(100, 4_000));
const either = (dice: Dice): string => dice.pick(["up", "down"]);

export const faultTable = {
  /** Both ends see the end; what is on its way arrives first, or is lost. */
  cut: { group: "network", weight: 4, draw: (dice, t) => ({ target: worker(dice, t) }) },
  reset: { group: "network", weight: 4, draw: (dice, t) => ({ target: worker(dice, t) }) },
  /** One end sees the end, the other never hears. `detail` is the end that knows. */
  "half-open": {
    group: "network",
    weight: 3,
    draw: (dice, t) => ({ target: worker(dice, t), detail: dice.pick(["worker", "scheduler"]) }),
  },
  /** One direction is silent for ever, as behind a NAT that has forgotten the connection. */
  "one-way-loss": { group: "network", weight: 3, draw: (dice, t) => ({ target: worker(dice, t), detail: either(dice) }) },
  /** Nothing moves on one path; then everything does, in order. */
  clog: { group: "network", weight: 3, draw: (dice, t) => ({ target: path(dice, t), ms: aWhile(dice, t) }) },
  /** A scheduler and some workers do not reach each other. `detail` names the workers. */
  partition: {
    group: "network",
    weight: 2,
    draw: (dice, t) => ({
      target: scheduler(dice, t),
      ms: aWhile(dice, t),
      detail: t.workers.filter(() => dice.chance(0.6)).join(",") || worker(dice, t),
    }),
  },
  slow: {
    group: "network",
    weight: 2,
    draw: (dice, t) => ({ target: path(dice, t), ms: aWhile(dice, t), amount: aSecond(dice) }),
  },
  refuse: { group: "network", weight: 2, draw: (dice, t) => ({ target: path(dice, t), ms: aWhile(dice, t) }) },
  /** Ten cuts a second. */
  flap: { group: "network", weight: 1, draw: (dice, t) => ({ target: worker(dice, t), ms: aSecond(dice) }) },
  /** A single message vanishes, is doubled or is overtaken on a living connection. One that vanishes ends in a cut after `ms`. */
  "frame-lost": {
    group: "network",
    weight: 2,
    draw: (dice, t) => ({ target: worker(dice, t), detail: either(dice), ms: aMoment(dice) }),
  },
  "frame-doubled": {
    group: "network",
    weight: 2,
    draw: (dice, t) => ({ target: worker(dice, t), detail: either(dice), ms: aMoment(dice) }),
  },
  "frame-overtaken": {
    group: "network",
    weight: 1,
    draw: (dice, t) => ({ target: worker(dice, t), detail: either(dice), ms: aMoment(dice) }),
  },
  /** The worker believes its connection gone and dials again; what it had sent arrives `ms` later, on the old one. */
  lingering: { group: "network", weight: 2, draw: (dice, t) => ({ target: worker(dice, t), ms: aMoment(dice) }) },
  /** Paths clog one after the other and come free in another order; `amount` is the seed of both orders. */
  swizzle: {
    group: "network",
    weight: 1,
    draw: (dice, t) => ({ target: "*", ms: aWhile(dice, t), amount: dice.below(1_000_000) }),
  },
  /** The worker goes to another scheduler, while the old one may still count on it. */
  move: { group: "network", weight: 2, draw: (dice, t) => ({ target: worker(dice, t), detail: scheduler(dice, t) }) },

  "scheduler-killed": { group: "processes", weight: 3, draw: (dice, t) => ({ target: scheduler(dice, t), ms: aWhile(dice, t) }) },
  /** At the next passing of a named point of a turn. */
  "scheduler-killed-at": {
    group: "processes",
    weight: 4,
    draw: (dice, t) => ({ target: scheduler(dice, t), detail: dice.pick(engineFailpoints), ms: aWhile(dice, t) }),
  },
  "scheduler-paused": { group: "processes", weight: 3, draw: (dice, t) => ({ target: scheduler(dice, t), ms: aWhile(dice, t) }) },
  "scheduler-restarted": {
    group: "processes",
    weight: 2,
    draw: (dice, t) => ({ target: scheduler(dice, t), ms: aSecond(dice) }),
  },
  "worker-killed": { group: "processes", weight: 4, draw: (dice, t) => ({ target: worker(dice, t), ms: aWhile(dice, t) }) },
  /** The whole machine: the kernel says no goodbye, and what the disk was not made to keep is gone. */
  "worker-power-lost": { group: "processes", weight: 2, draw: (dice, t) => ({ target: worker(dice, t), ms: aWhile(dice, t) }) },
  "worker-paused": { group: "processes", weight: 3, draw: (dice, t) => ({ target: worker(dice, t), ms: aWhile(dice, t) }) },
  "worker-restarted": {
    group: "processes",
    weight: 2,
    draw: (dice, t) => ({ target: worker(dice, t), ms: aSecond(dice), amount: aWhile(dice, t) }),
  },

  /** Shares of roots called busy, of commits that fail or whose answer is lost. */
  "store-busy": {
    group: "store",
    weight: 3,
    draw: (dice, t) => ({ target: "store", ms: aWhile(dice, t), rate: dice.scale(0.02, 0.5) }),
  },
  "store-fails": {
    group: "store",
    weight: 3,
    draw: (dice, t) => ({ target: "store", ms: aWhile(dice, t), rate: dice.scale(0.02, 0.5) }),
  },
  "store-unknown": {
    group: "store",
    weight: 3,
    draw: (dice, t) => ({ target: "store", ms: aWhile(dice, t), rate: dice.scale(0.02, 0.5) }),
  },
  "store-slow": {
    group: "store",
    weight: 2,
    draw: (dice, t) => ({ target: "store", ms: aWhile(dice, t), amount: Math.round(dice.scale(5, 500)) }),
  },
  "store-stalled": { group: "store", weight: 1, draw: (dice, t) => ({ target: "store", ms: aWhile(dice, t) }) },

  /** One scheduler's requests to the store and its answers wait; to its workers it is as alive as ever. */
  "store-unreachable": { group: "store", weight: 2, draw: (dice, t) => ({ target: scheduler(dice, t), ms: aWhile(dice, t) }) },
  /** What is open there and not committed is gone. */
  "store-connection-lost": { group: "store", weight: 2, draw: (dice, t) => ({ target: scheduler(dice, t) }) },

  "wall-jumps": {
    group: "clocks",
    weight: 3,
    draw: (dice, t) => ({
      target: dice.pick([...t.schedulers, ...t.workers, "store"]),
      amount: dice.pick([-1, 1]) * Math.round(dice.scale(100, 86_400_000)),
    }),
  },
  "clock-drifts": {
    group: "clocks",
    weight: 2,
    draw: (dice, t) => ({ target: dice.pick([...t.schedulers, ...t.workers, "store"]), amount: dice.between(-500, 500) }),
  },
  /** The machine is suspended: its monotonic clock stands still, so the process cannot know. */
  suspended: {
    group: "clocks",
    weight: 2,
    draw: (dice, t) => ({ target: dice.pick([...t.schedulers, ...t.workers]), ms: aWhile(dice, t) }),
  },

  "disk-full": { group: "disk", weight: 3, draw: (dice, t) => ({ target: worker(dice, t), ms: aWhile(dice, t) }) },
  "disk-append-fails": { group: "disk", weight: 2, draw: (dice, t) => ({ target: worker(dice, t), ms: aSecond(dice) }) },
  "disk-sync-fails": { group: "disk", weight: 3, draw: (dice, t) => ({ target: worker(dice, t), ms: aSecond(dice) }) },
  "disk-slow": {
    group: "disk",
    weight: 2,
    draw: (dice, t) => ({ target: worker(dice, t), ms: aWhile(dice, t), amount: Math.round(dice.scale(20, 6_000)) }),
  },

  /** Shares of calls whose request or answer is lost on the way. */
  "request-lost": {
    group: "api",
    weight: 1,
    draw: (dice, t) => ({ target: "api", ms: aWhile(dice, t), rate: dice.scale(0.1, 0.9) }),
  },
  "answer-lost": {
    group: "api",
    weight: 2,
    draw: (dice, t) => ({ target: "api", ms: aWhile(dice, t), rate: dice.scale(0.1, 0.9) }),
  },

  /** Sockets that live for moments: every `amount` ms the newest ends, each time in another of the ways in which sockets end. */
  churn: {
    group: "session",
    weight: 4,
    draw: (dice, t) => ({ target: worker(dice, t), ms: aWhile(dice, t), amount: Math.round(dice.scale(30, 3_000)) }),
  },
  /** What the worker says is held up for `amount` ms; then it dials again, while the first socket looks open and all that arrives there `ms` later. */
  "taken-over": {
    group: "session",
    weight: 3,
    draw: (dice, t) => ({ target: worker(dice, t), ms: aMoment(dice), amount: aSecond(dice) }),
  },
  /** A second process with the same name and token, as from a copied disk image; it has an empty disk of its own. */
  cloned: { group: "session", weight: 1, draw: (dice, t) => ({ target: worker(dice, t), ms: aWhile(dice, t) }) },

  /** Shares of messages on living connections; only where the network is no TCP. Doubles and stragglers come by up to `amount` ms later. */
  "wire-loses": {
    group: "wire",
    weight: 4,
    draw: (dice, t) => ({ target: path(dice, t), ms: aWhile(dice, t), rate: dice.scale(0.02, 0.6) }),
  },
  "wire-doubles": {
    group: "wire",
    weight: 3,
    draw: (dice, t) => ({ target: path(dice, t), ms: aWhile(dice, t), rate: dice.scale(0.05, 0.9), amount: aSecond(dice) }),
  },
  "wire-shuffles": {
    group: "wire",
    weight: 3,
    draw: (dice, t) => ({ target: path(dice, t), ms: aWhile(dice, t), rate: dice.scale(0.05, 0.9), amount: aSecond(dice) }),
  },
} as const satisfies Record<string, FaultRow>;

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
export type Profile = keyof typeof profiles;

/** Groups that came later: they have dice of their own, so that the seeds of the older profiles keep their faults. */
const youngGroups: readonly FaultGroup[] = ["session", "wire"];

export interface Weather {
  readonly profile: Profile;
  /** On TCP no message is lost while its connection lives. */
  readonly isLoose: boolean;
  readonly stormMs: number;
}

/** A storm's schedule: which kinds are switched on, then when and whom they strike. In the order of time. */
export function drawFaults(dice: Dice, { profile, isLoose, stormMs }: Weather, targets: Targets): FaultEvent[] {
  const groups: readonly FaultGroup[] = profiles[profile];
  const isPossible = (group: FaultGroup): boolean => groups.includes(group) && (isLoose || group !== "wire");
  const kindsOf = (isWanted: (group: FaultGroup) => boolean): FaultKind[] =>
    faultKinds.filter((kind) => isPossible(faultTable[kind].group) && isWanted(faultTable[kind].group));
  const draw = (from: Dice, isWanted: (group: FaultGroup) => boolean, countMax: number): FaultEvent[] =>
    drawKinds(from, kindsOf(isWanted), { targets, stormMs, countMax });
  // Worlds of workflows had no disks that fail at first.
  const isLate = (group: FaultGroup): boolean => profile === "workflow" && group === "disk";
  const isYoung = (group: FaultGroup): boolean => youngGroups.includes(group);
  const young = dice.fork("young");
  const late = dice.fork("late");
  const events =
    profile === "session"
      ? [...draw(dice.fork("session"), () => true, 40), ...draw(young, isYoung, 30)]
      : [
          ...draw(dice, (group) => !isYoung(group) && !isLate(group), 40),
          ...(young.chance(0.35) ? draw(young, isYoung, 8) : []),
          ...(late.chance(0.35) ? draw(late, isLate, 8) : []),
        ];
  return events.sort((a, b) => a.at - b.at);
}

interface Storm {
  readonly targets: Targets;
  readonly stormMs: number;
  readonly countMax: number;
}

function drawKinds(dice: Dice, possible: readonly FaultKind[], { targets, stormMs, countMax }: Storm): FaultEvent[] {
  if (possible.length === 0) return [];
  // Each seed has its own weather: with everything on in every seed, no two faults would ever meet often.
  const share = dice.pick([0.15, 0.4, 0.8]);
  const chosen = possible.filter(() => dice.chance(share));
  const kinds = chosen.length > 0 ? chosen : [dice.pick(possible)];
  const weights = Object.fromEntries(kinds.map((kind) => [kind, faultTable[kind].weight])) as Record<FaultKind, number>;
  const count = Math.round(dice.scale(1, countMax));
  const events: FaultEvent[] = [];
  for (let n = 0; n < count; n++) {
    const kind = dice.weigh(weights);
    events.push({ at: Math.round(dice.roll() * stormMs * 0.95), kind, ...faultTable[kind].draw(dice, targets) });
  }
  return events.sort((a, b) => a.at - b.at);
}
