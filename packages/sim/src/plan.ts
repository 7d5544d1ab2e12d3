// The plan of a world, drawn from its seed before anything happens: who is there, how they are set, what callers will want, which
// faults strike when. Plain data, so that a plan can be printed, stored, and played with a part of its faults.

import type { SessionLimits } from "@astraflow/doors";
import { defaultSettings, type EngineSettings } from "@astraflow/engine";
import { type LinkSettings, linkDefaults } from "@astraflow/runtime";
import { Dice } from "./dice.ts";
import { drawErrands } from "./errands.ts";
import { drawFaults, type Profile } from "./fault-table.ts";
import { nodeTypes, simPackage } from "./handlers.ts";
import type { ClockShape } from "./machine-clock.ts";
import type { FaultEvent, Promises, TrueTime, WorkerShape } from "./observation.ts";
import { drawOrders, type Order } from "./orders.ts";

export interface WorldPlan {
  readonly seed: number;
  readonly profile: Profile;
  readonly schedulers: readonly string[];
  readonly tenants: readonly string[];
  readonly workers: readonly WorkerShape[];
  readonly clocks: Readonly<Record<string, ClockShape>>;
  readonly storeLatencyMs: number;
  /** Hints are a courtesy of the store: with all of them lost, only looking now and then finds the work of others. */
  readonly hintsLostShare: number;
  readonly engine: EngineSettings;
  readonly doors: Partial<SessionLimits>;
  readonly link: Partial<LinkSettings>;
  readonly promises: Promises;
  /** Single messages may be lost, doubled and overtaken on connections that live on; else the network is as TCP is. */
  readonly isLoose: boolean;
  /** How long a session token is good for. */
  readonly tokenMs: number;
  readonly stormMs: TrueTime;
  readonly orders: readonly Order[];
  readonly faults: readonly FaultEvent[];
}

export interface WorldWish {
  /** Every resume is refused, whatever the seed says. */
  readonly isResumeRefused?: boolean;
}

export function drawWorld(seed: number, profile: Profile, wish: WorldWish = {}): WorldPlan {
  const dice = new Dice(`world ${seed}`);
  const sizes = sizesOf[profile] ?? worlds;
  const shape = dice.fork(profile === "session" || profile === "workflow" ? `${profile} shape` : "shape");
  const schedulers = names("s", Number(shape.weigh(sizes.schedulers)));
  const tenants = names("t", Number(shape.weigh(sizes.tenants)));
  // In some worlds of workflows nothing goes wrong and nobody interferes: there it is known what must come out.
  const isLeftAlone = profile === "workflow" && dice.fork("left alone").chance(0.2);
  const drawnWorkers = drawWorkers(shape, tenants, sizes);
  const workers = isLeftAlone ? drawnWorkers : drawGenerations(dice.fork("generations"), profile, drawnWorkers);
  const scale = shape.chance(0.12) ? 5 : 1;
  const engine = drawEngine(dice.fork("engine"), scale);
  const stormMs = Math.round(shape.scale(4_000, 30_000) * scale);
  const drawn = drawOrders(dice.fork("orders"), {
    tenants,
    workers,
    stormMs,
    scale,
    maxDeliveries: engine.maxDeliveries,
    mayKill: profile !== "calm" && !isLeftAlone,
    isTalkative: profile === "session",
    isNested: profile === "workflow",
    isLeftAlone,
  });
  const errands = isLeftAlone ? [] : drawErrands(dice.fork("errands"), { tenants, workers, stormMs });
  const orders = [...drawn, ...errands].sort((a, b) => a.at - b.at);
  const targets = { schedulers, workers: workers.map(({ worker }) => worker), leaseMs: engine.leaseMs };
  const { doors, link } = drawDoors(dice.fork("doors"), scale);
  const session = drawSessions(dice.fork("sessions"), profile, scale, wish.isResumeRefused === true);
  // Older workers give up what they could not say in a quarter of a minute: on anything but TCP they would lose results for ever.
  const isLoose = session.isLoose && !workers.some(({ dialect }) => dialect !== undefined);
  const { ackDeadlineMs, leaseMs, heartbeatMs, quietLeaseMs, quietHeartbeatMs, maxDeliveries, idleMs } = engine;
  return {
    seed,
    profile,
    schedulers,
    tenants,
    workers,
    clocks: drawClocks(dice.fork("clocks"), [...schedulers, ...targets.workers, "store"]),
    storeLatencyMs: shape.scale(0.2, 4),
    hintsLostShare: shape.pick([0, 0, 0.1, 1]),
    engine,
    doors: { ...doors, ...session.doors },
    link,
    isLoose,
    tokenMs: session.tokenMs,
    promises: {
      ackDeadlineMs,
      leaseMs,
      heartbeatMs,
      quietLeaseMs,
      quietHeartbeatMs,
      maxDeliveries,
      idleMs,
      convergeMs: convergeMs(engine, doors, link, orders),
    },
    stormMs,
    orders,
    faults: isLeftAlone ? [] : drawFaults(dice.fork("faults"), { profile, isLoose, stormMs }, targets),
  };
}

interface Sizes {
  readonly schedulers: Readonly<Record<string, number>>;
  readonly tenants: Readonly<Record<string, number>>;
  readonly workers: Readonly<Record<string, number>>;
  readonly slots: Readonly<Record<string, number>>;
}
/** Few more often than many. */
const worlds: Sizes = {
  schedulers: { 1: 3, 2: 4, 3: 2 },
  tenants: { 1: 5, 2: 3, 3: 1, 4: 0.5 },
  workers: { 1: 4, 2: 5, 3: 4, 5: 3, 8: 1.5, 14: 0.4, 40: 0.05 },
  slots: { 1: 4, 2: 3, 4: 2, 16: 0.5 },
};
/** Where sessions are looked at, there is little else. */
const smallWorlds: Sizes = {
  schedulers: { 1: 5, 2: 2 },
  tenants: { 1: 6, 2: 1 },
  workers: { 1: 4, 2: 4, 3: 2 },
  slots: { 1: 2, 4: 3, 16: 3 },
};

/** Few machines, so that chains and containers meet workers that are full. */
const nestedWorlds: Sizes = {
  schedulers: { 1: 4, 2: 3, 3: 1 },
  tenants: { 1: 6, 2: 1 },
  workers: { 1: 3, 2: 4, 3: 3, 5: 1 },
  slots: { 1: 4, 2: 3, 4: 2 },
};
const sizesOf: Partial<Record<Profile, Sizes>> = { session: smallWorlds, workflow: nestedWorlds };

const names = (letter: string, count: number): string[] => Array.from({ length: count }, (_, at) => `${letter}${at + 1}`);

/** The first worker of a tenant can do everything but what needs a pool. */
function drawWorkers(dice: Dice, tenants: readonly string[], sizes: Sizes): WorkerShape[] {
  const count = Number(dice.weigh(sizes.workers));
  const limits = dice.fork("limits");
  return Array.from({ length: Math.max(count, tenants.length) }, (_, at) => {
    const isFirst = at < tenants.length;
    return {
      worker: `w${at + 1}`,
      instance: `instance-${at + 1}`,
      tenant: tenants[at % tenants.length] as string,
      slots: Number(dice.weigh(sizes.slots)),
      pool: !isFirst && dice.chance(0.3) ? "gpu" : null,
      packageName: simPackage.name,
      packageVersion: simPackage.version,
      nodeTypes: [...nodeTypes],
      ...(limits.chance(0.2) && { perNodeLimits: { [limits.pick(nodeTypes)]: limits.between(1, 2) } }),
      hasDisk: dice.chance(0.7),
    };
  });
}

/** In how many worlds of a profile there are workers of older dialects. */
const olderShares: Partial<Record<Profile, number>> = { session: 0.2, default: 0.1, workflow: 0.12 };

/** Workers of older dialects, in some worlds: some of them or all. They have no disk to keep anything on, and cannot name a pool. */
function drawGenerations(dice: Dice, profile: Profile, workers: WorkerShape[]): WorkerShape[] {
  const share = dice.pick([0.3, 1]);
  if (!dice.chance(olderShares[profile] ?? 0)) return workers;
  const oldest = dice.fork("oldest");
  return workers.map((worker) => {
    if (!dice.chance(share)) return worker;
    return { ...worker, pool: null, hasDisk: false, dialect: oldest.chance(0.4) ? "v1" : "first" };
  });
}

/** Faults and limits on one scale: a lease of half a minute would outlive most storms. */
function drawEngine(dice: Dice, scale: number): EngineSettings {
  return {
    ...defaultSettings,
    leaseMs: 6_000 * scale,
    heartbeatMs: 2_000 * scale,
    quietHeartbeatMs: 4_000 * scale,
    quietLeaseMs: 12_000 * scale,
    recheckMs: 500 * scale,
    ackDeadlineMs: 1_500 * Math.min(scale, 3),
    ackStoreMs: 400 * scale,
    idleMs: 500 * Math.min(scale, 2),
    turnCommandsMax: dice.pick([2, 5, 1_024, 1_024]),
    sweepTasksMax: dice.pick([1, 3, 500, 500]),
    dueMax: dice.pick([2, 500]),
    claimLinesMax: dice.pick([1, 3, 64, 64]),
    maxDeliveries: dice.pick([2, 5, 5, 12]),
    turnsInFlight: dice.pick([1, 1, 2, 4]),
  };
}

function drawDoors(dice: Dice, scale: number): { doors: Partial<SessionLimits>; link: Partial<LinkSettings> } {
  const window = (): number => Number(dice.weigh({ 1: 1, 2: 1, 7: 1, 64: 2, 1024: 3 }));
  const [sendWindow, recvWindow] = [window(), window()];
  return {
    doors: {
      handshakeTimeoutMs: 4_000 * scale,
      registerTimeoutMs: 4_000 * scale,
      inventoryTimeoutMs: 1_500 * scale,
      pingMs: 2_500 * scale,
      closeMs: 1_000 * scale,
      sweepMs: 500 * scale,
      retryAfterMs: 300 * scale,
      sendWindow,
      recvWindow,
      wideSendWindow: sendWindow,
      wideRecvWindow: recvWindow,
    },
    link: {
      backoff: { ...linkDefaults.backoff, baseMs: 200 * scale, maxMs: 3_000 * scale },
      attemptTable: { ...linkDefaults.attemptTable, slotWaitMs: 2_000 * scale },
      handshakeTimeoutMs: 5_000 * scale,
      acceptTimeoutMs: 4_000 * scale,
      supersededDelayMs: 1_200 * scale,
    },
  };
}

interface SessionDraw {
  readonly isLoose: boolean;
  readonly tokenMs: number;
  readonly doors: Partial<SessionLimits>;
}

/** What became possible when sessions learned to resume; on dice of its own, so that older seeds keep the rest of their worlds. */
function drawSessions(dice: Dice, profile: Profile, scale: number, isResumeRefused: boolean): SessionDraw {
  const isSession = profile === "session";
  const isLoose = dice.chance(isSession ? 0.5 : 0.2) && profile !== "calm";
  const isRefused = dice.chance(isSession ? 0.05 : 0.15);
  const keptMs = dice.pick([2_000 * scale, 10_000 * scale, 120_000, 120_000]);
  const resumeTimeoutMs = isRefused || isResumeRefused ? 0 : keptMs;
  const tokenMs = dice.pick(isSession ? [1_500 * scale, 8_000 * scale, 3_600_000] : [8_000 * scale, 3_600_000, 3_600_000]);
  if (!isSession) return { isLoose, tokenMs, doors: { resumeTimeoutMs } };
  const window = (): number => dice.pick([1, 2, 3, 4, dice.between(5, 64), 64]);
  // Workers that cannot be told of a window keep the usual one: they would not look at a smaller.
  const windows = { sendWindow: 64, recvWindow: 64, wideSendWindow: window(), wideRecvWindow: window() };
  return { isLoose, tokenMs, doors: { resumeTimeoutMs, ...windows } };
}

function drawClocks(dice: Dice, machines: readonly string[]): Record<string, ClockShape> {
  const shapes = machines.map((machine) => [
    machine,
    {
      monoStart: dice.between(1_000, 10_000_000),
      wallOffset: dice.chance(0.3) ? dice.between(-3_600_000, 3_600_000) : dice.between(-500, 500),
      driftPpm: dice.between(-200, 200),
    },
  ]);
  return Object.fromEntries(shapes) as Record<string, ClockShape>;
}

/**
 * What I39 promises: a grant that nobody acked, a lease, a connection found dead and dialled again, then all the work there is, one
 * handler after the other, each as often as it may be delivered. Lost deliveries cost a lease each.
 */
function convergeMs(
  engine: EngineSettings,
  doors: Partial<SessionLimits>,
  link: Partial<LinkSettings>,
  orders: readonly Order[],
): number {
  const noticeMs =
    engine.ackDeadlineMs + 2 * engine.leaseMs + engine.quietLeaseMs + 3 * (doors.pingMs ?? 0) + (link.handshakeTimeoutMs ?? 0);
  const reconnectMs = 3 * (link.backoff?.maxMs ?? 0) + (link.acceptTimeoutMs ?? 0);
  const workMs = orders.reduce((sum, order) => sum + (order.what === "start" ? order.workMs : 0), 0);
  return Math.round(engine.maxDeliveries * (noticeMs + reconnectMs) + workMs + 30_000);
}
