// The plan of a simulated run, generated from its seed before anything runs: machines, settings, API calls and the schedule of faults. Plain data, so that
// a plan can be printed, stored, and run with only some of its faults.

import type { SessionLimits } from "@astraflow/doors";
import { defaultSettings, type EngineSettings } from "@astraflow/engine";
import { type LinkSettings, linkDefaults } from "@astraflow/runtime";
import type { ClockConfig } from "../kernel/machine-clock.ts";
import { SeededRandom } from "../kernel/seeded-random.ts";
import type { ScheduledFault, SimulatedWorkerSpec, TrueTime, WorldSetupObservation } from "../observation/observation.ts";
import { type FaultProfile, generateFaultSchedule } from "./fault-table.ts";
import { generateCalls, generateWorkerCommands, type PlannedCall } from "./planned-calls.ts";
import { nodeTypes, simPackage } from "./simulated-package.ts";

export interface WorldPlan extends Omit<WorldSetupObservation, "kind"> {
  readonly profile: FaultProfile;
  readonly clocks: Readonly<Record<string, ClockConfig>>;
  readonly storeLatencyMs: number;
  /** Hints are a courtesy of the store: with all of them lost, only looking now and then finds the work of others. */
  readonly hintsLostShare: number;
  readonly engineSettings: EngineSettings;
  readonly sessionLimits: Partial<SessionLimits>;
  readonly linkSettings: Partial<LinkSettings>;
  /** Single messages may be lost, doubled and overtaken on connections that live on; else the network is as TCP is. */
  readonly isNetworkLossy: boolean;
  /** How long a session token is good for. */
  readonly tokenMs: number;
  readonly faultPhaseMs: TrueTime;
  readonly plannedCalls: readonly PlannedCall[];
  readonly faults: readonly ScheduledFault[];
}

/** `isResumeRefused`: every resume is refused, whatever the seed says. */
export function generateWorldPlan(
  seed: number,
  profile: FaultProfile,
  { isResumeRefused = false }: { readonly isResumeRefused?: boolean } = {},
): WorldPlan {
  const random = new SeededRandom(`world ${seed}`);
  const sizes = worldSizes[profile as keyof typeof worldSizes] ?? worldSizes.default;
  const shape = random.fork(ownShapes.has(profile) ? `${profile} shape` : "shape");
  const schedulers = numberedNames("s", Number(shape.pickWeighted(sizes.schedulers)));
  const tenants = numberedNames("t", Number(shape.pickWeighted(sizes.tenants)));
  // In some worlds of workflows nothing goes wrong and nobody interferes: there it is known what must come out.
  const isUndisturbed = profile === "workflow" && random.fork("left alone").chance(0.2);
  const drawnWorkers = generateWorkers(shape, tenants, sizes);
  const workers = isUndisturbed ? drawnWorkers : makeSomeWorkersLegacy(random.fork("generations"), profile, drawnWorkers);
  const scale = shape.chance(0.12) ? 5 : 1;
  const engine = generateEngineSettings(random.fork("engine"), scale);
  const faultPhaseMs = Math.round(shape.logUniform(4_000, 30_000) * scale);
  const drawn = generateCalls(random.fork("orders"), {
    tenants,
    workers,
    faultPhaseMs,
    scale,
    maxDeliveries: engine.maxDeliveries,
    mayKillProcess: profile !== "calm" && !isUndisturbed,
    hasMuchFeedback: profile === "session",
    isNested: profile === "workflow",
    isUndisturbed,
  });
  const workerCommands = isUndisturbed ? [] : generateWorkerCommands(random.fork("errands"), { tenants, workers, faultPhaseMs });
  const calls = [...drawn, ...workerCommands].sort((a, b) => a.at - b.at);
  const targets = { schedulers, workers: workers.map(({ worker }) => worker), leaseMs: engine.leaseMs };
  const { doors, link } = generateSessionAndLinkSettings(random.fork("doors"), scale);
  const session = generateSessionSettings(random.fork("sessions"), profile, scale, isResumeRefused);
  // Older workers give up what they could not say in a quarter of a minute: on anything but TCP they would lose results for ever.
  const isNetworkLossy = session.isNetworkLossy && !workers.some(({ dialect }) => dialect !== undefined);
  const { ackDeadlineMs, leaseMs, heartbeatMs, quietLeaseMs, quietHeartbeatMs, unstoppedSlotMs, maxDeliveries, idleMs } = engine;
  const convergeMs = convergenceBoundMs(engine, doors, link, calls);
  return {
    seed,
    profile,
    schedulers,
    tenants,
    workers,
    clocks: generateClocks(random.fork("clocks"), [...schedulers, ...targets.workers, "store"]),
    storeLatencyMs: shape.logUniform(0.2, 4),
    hintsLostShare: shape.pick([0, 0, 0.1, 1]),
    engineSettings: engine,
    sessionLimits: { ...doors, ...session.doors },
    linkSettings: link,
    isNetworkLossy,
    tokenMs: session.tokenMs,
    guarantees: {
      ...{ ackDeadlineMs, leaseMs, heartbeatMs, quietLeaseMs, quietHeartbeatMs },
      silenceMs: engine.silentGraceMs + engine.recheckMs,
      ...{ unstoppedSlotMs, maxDeliveries, idleMs, convergeMs },
    },
    faultPhaseMs,
    plannedCalls: calls,
    faults: isUndisturbed ? [] : generateFaultSchedule(random.fork("faults"), { profile, isNetworkLossy, faultPhaseMs }, targets),
  };
}

type WorldSizeWeights = Readonly<Record<"schedulers" | "tenants" | "workers" | "slots", Readonly<Record<string, number>>>>;

const worldSizes = {
  /** Few more often than many. */
  default: {
    schedulers: { 1: 3, 2: 4, 3: 2 },
    tenants: { 1: 5, 2: 3, 3: 1, 4: 0.5 },
    workers: { 1: 4, 2: 5, 3: 4, 5: 3, 8: 1.5, 14: 0.4, 40: 0.05 },
    slots: { 1: 4, 2: 3, 4: 2, 16: 0.5 },
  },
  /** Where sessions are looked at, there is little else. */
  session: {
    schedulers: { 1: 5, 2: 2 },
    tenants: { 1: 6, 2: 1 },
    workers: { 1: 4, 2: 4, 3: 2 },
    slots: { 1: 2, 4: 3, 16: 3 },
  },
  /** One worker of every dialect at least, side by side. */
  dialects: {
    schedulers: { 1: 4, 2: 2 },
    tenants: { 1: 1 },
    workers: { 4: 3, 5: 2, 7: 1 },
    slots: { 1: 2, 2: 3, 4: 2 },
  },
  /** Few machines, so that chains and containers meet workers that are full. */
  workflow: {
    schedulers: { 1: 4, 2: 3, 3: 1 },
    tenants: { 1: 6, 2: 1 },
    workers: { 1: 3, 2: 4, 3: 3, 5: 1 },
    slots: { 1: 4, 2: 3, 4: 2 },
  },
} as const satisfies Partial<Record<FaultProfile, WorldSizeWeights>>;

/** Profiles whose worlds have sizes of their own. */
const ownShapes: ReadonlySet<string> = new Set(["session", "dialects", "workflow"]);

const numberedNames = (letter: string, count: number): string[] => Array.from({ length: count }, (_, at) => `${letter}${at + 1}`);

/** The first worker of a tenant can do everything but what needs a pool. */
function generateWorkers(random: SeededRandom, tenants: readonly string[], sizes: WorldSizeWeights): SimulatedWorkerSpec[] {
  const count = Number(random.pickWeighted(sizes.workers));
  const limits = random.fork("limits");
  return Array.from({ length: Math.max(count, tenants.length) }, (_, at) => {
    const isFirst = at < tenants.length;
    return {
      worker: `w${at + 1}`,
      instance: `instance-${at + 1}`,
      tenant: tenants[at % tenants.length] as string,
      slots: Number(random.pickWeighted(sizes.slots)),
      pool: !isFirst && random.chance(0.3) ? "gpu" : null,
      packageName: simPackage.name,
      packageVersion: simPackage.version,
      nodeTypes: [...nodeTypes],
      ...(limits.chance(0.2) && { perNodeLimits: { [limits.pick(nodeTypes)]: limits.integerBetween(1, 2) } }),
      hasDisk: random.chance(0.7),
    };
  });
}

/** In how many worlds of a profile there are workers of older dialects. */
const legacyWorkerShares: Partial<Record<FaultProfile, number>> = { session: 0.2, default: 0.1, workflow: 0.12 };

/** Workers of older dialects, in some worlds: some of them or all. They have no disk to keep anything on, and cannot name a pool. */
function makeSomeWorkersLegacy(
  random: SeededRandom,
  profile: FaultProfile,
  workers: SimulatedWorkerSpec[],
): SimulatedWorkerSpec[] {
  const share = random.pick([0.3, 1]);
  if (profile === "dialects") return workers.map((worker, at) => withDialect(worker, everyDialect[at % everyDialect.length]));
  if (!random.chance(legacyWorkerShares[profile] ?? 0)) return workers;
  const oldest = random.fork("oldest");
  return workers.map((worker) => {
    if (!random.chance(share)) return worker;
    return withDialect(worker, oldest.pickWeighted({ v1: 3, first: 4, basic: 3 }));
  });
}

/** Undefined is our own. */
const everyDialect = [undefined, "v1", "first", "basic"] as const;

const withDialect = (worker: SimulatedWorkerSpec, dialect: SimulatedWorkerSpec["dialect"]): SimulatedWorkerSpec =>
  dialect === undefined ? worker : { ...worker, pool: null, hasDisk: false, dialect };

/** Faults and limits on one scale: a lease of half a minute would outlive most fault phase. */
function generateEngineSettings(random: SeededRandom, scale: number): EngineSettings {
  return {
    ...defaultSettings,
    leaseMs: 6_000 * scale,
    heartbeatMs: 2_000 * scale,
    quietHeartbeatMs: 4_000 * scale,
    quietLeaseMs: 12_000 * scale,
    recheckMs: 500 * scale,
    silentGraceMs: 3_000 * scale,
    unstoppedSlotMs: 10_000 * scale,
    ackDeadlineMs: 1_500 * Math.min(scale, 3),
    ackStoreMs: 400 * scale,
    idleMs: 500 * Math.min(scale, 2),
    turnCommandsMax: random.pick([2, 5, 1_024, 1_024]),
    sweepTasksMax: random.pick([1, 3, 500, 500]),
    dueMax: random.pick([2, 500]),
    claimLinesMax: random.pick([1, 3, 64, 64]),
    maxDeliveries: random.pick([2, 5, 5, 12]),
    turnsInFlight: random.pick([1, 1, 2, 4]),
  };
}

function generateSessionAndLinkSettings(
  random: SeededRandom,
  scale: number,
): { doors: Partial<SessionLimits>; link: Partial<LinkSettings> } {
  const window = (): number => Number(random.pickWeighted({ 1: 1, 2: 1, 7: 1, 64: 2, 1024: 3 }));
  const [sendWindow, recvWindow] = [window(), window()];
  return {
    doors: {
      handshakeTimeoutMs: 4_000 * scale,
      registerTimeoutMs: 4_000 * scale,
      pingMs: 2_500 * scale,
      resetCloseDelayMs: 1_000 * scale,
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

/** What became possible when sessions learned to resume; on dice of its own, so that older seeds keep the rest of their worlds. */
function generateSessionSettings(
  random: SeededRandom,
  profile: FaultProfile,
  scale: number,
  isResumeRefused: boolean,
): Pick<WorldPlan, "isNetworkLossy" | "tokenMs"> & { readonly doors: Partial<SessionLimits> } {
  const isSession = profile === "session";
  const isNetworkLossy = random.chance(isSession ? 0.5 : 0.2) && profile !== "calm";
  const isRefused = random.chance(isSession ? 0.05 : 0.15);
  const keptMs = random.pick([2_000 * scale, 10_000 * scale, 120_000, 120_000]);
  const resumeTimeoutMs = isRefused || isResumeRefused ? 0 : keptMs;
  const tokenMs = random.pick(isSession ? [1_500 * scale, 8_000 * scale, 3_600_000] : [8_000 * scale, 3_600_000, 3_600_000]);
  if (!isSession) return { isNetworkLossy, tokenMs, doors: { resumeTimeoutMs } };
  const window = (): number => random.pick([1, 2, 3, 4, random.integerBetween(5, 64), 64]);
  // Workers that cannot be told of a window keep the usual one: they would not look at a smaller.
  const windows = { sendWindow: 64, recvWindow: 64, wideSendWindow: window(), wideRecvWindow: window() };
  return { isNetworkLossy, tokenMs, doors: { resumeTimeoutMs, ...windows } };
}

function generateClocks(random: SeededRandom, machines: readonly string[]): Record<string, ClockConfig> {
  const shapes = machines.map((machine) => [
    machine,
    {
      monoStart: random.integerBetween(1_000, 10_000_000),
      wallOffset: random.chance(0.3) ? random.integerBetween(-3_600_000, 3_600_000) : random.integerBetween(-500, 500),
      driftPpm: random.integerBetween(-200, 200),
    },
  ]);
  return Object.fromEntries(shapes) as Record<string, ClockConfig>;
}

/**
 * What I39 promises: a grant that nobody acked, a lease, a connection found dead and dialled again, then all the work there is, one
 * handler after the other, each as often as it may be delivered. Lost deliveries cost a lease each.
 */
function convergenceBoundMs(
  engine: EngineSettings,
  doors: Partial<SessionLimits>,
  link: Partial<LinkSettings>,
  calls: readonly PlannedCall[],
): number {
  const noticeMs =
    engine.ackDeadlineMs +
    2 * engine.leaseMs +
    engine.quietLeaseMs +
    engine.unstoppedSlotMs +
    3 * (doors.pingMs ?? 0) +
    (link.handshakeTimeoutMs ?? 0);
  const reconnectMs = 3 * (link.backoff?.maxMs ?? 0) + (link.acceptTimeoutMs ?? 0);
  const workMs = calls.reduce((sum, call) => sum + (call.what === "start" ? call.workMs : 0), 0);
  return Math.round(engine.maxDeliveries * (noticeMs + reconnectMs) + workMs + 30_000);
}
