// Builds the engine with the real store, clock, ids, random numbers, timers and failpoints, for both hosts of engine-host.ts.

import { setImmediate as nextRound } from "node:timers/promises";
import { isMainThread } from "node:worker_threads";
import type { LoopTimes } from "@astraflow/doors";
import {
  type CommandRequest,
  createEngine,
  defaultSettings,
  type Effect,
  type Engine,
  type EngineGauge,
  type EngineProblem,
  type EngineSettings,
  settingsProblems,
  type TenantSettings,
} from "@astraflow/engine";
import { type Fault, fault } from "@astraflow/protocol";
import { defaultRetentionPace, type RetentionPolicy, RetentionSweeper, type SweepReport } from "@astraflow/services";
import { armFailpoints, createProcessControl } from "../platform/failpoints.ts";
import { createIdGenerator, createRandom, digestText } from "../platform/ids-and-random.ts";
import { startLoopProbe } from "../platform/loop-probe.ts";
import { createScaledClock, type ScaledClock } from "../platform/scaled-clock.ts";
import type { SchedulerConfig } from "../settings/config.ts";
import { hasRoomForStore, openStore } from "../store/store-factory.ts";
import { monitorStore } from "../store/store-monitor.ts";
import { toUnavailableFault } from "../store/store-retry.ts";

type EngineConfig =
  | "store"
  | "cluster"
  | "thresholds"
  | "ackDeadlineMs"
  | "attemptLimits"
  | "packageDeadlineMs"
  | "turnsInFlight"
  | "retention"
  | "timeScale"
  | "failpoints";

/** Plain data, so that it can be sent to a thread. */
export interface EngineStartOptions extends Pick<SchedulerConfig, EngineConfig> {
  readonly replica: string;
  readonly tenants: Readonly<Record<string, Partial<TenantSettings>>>;
  /** What single tenants have of their own. */
  readonly retentionByTenant: Readonly<Record<string, Partial<RetentionPolicy>>>;
}

export interface EngineListeners {
  /** Effects of a committed turn. */
  onEffects(effects: readonly Effect[]): void;
  onProblem(problem: EngineProblem): void;
  /** Old rows of a tenant were removed. */
  onSwept(report: SweepReport): void;
  /** Another process has taken over this replica's name, so this one can no longer write. */
  onReplaced(fault: Fault): void;
}

export interface EngineHostGauge extends EngineGauge {
  /** The store does not answer, so turns cannot begin. */
  readonly isStoreUnavailable: boolean;
  /** Why commits are not durable at the moment; null when they are. */
  readonly storeDurabilityProblem: string | null;
  readonly isDiskFull: boolean;
  /** Of the engine's own thread; null where it has none. */
  readonly loopTimes: LoopTimes | null;
}

export interface RunningEngine {
  push(items: readonly CommandRequest[]): void;
  gauge(): EngineHostGauge;
  /** Ends after the running turn and closes the store. */
  stop(): Promise<void>;
}

/** Rejects with the Fault of the store if it cannot be used; then nothing is left open. */
export async function startEngine(
  options: EngineStartOptions,
  listeners: EngineListeners,
  pauseFlag: Int32Array<SharedArrayBuffer> | null,
): Promise<RunningEngine> {
  const settings = buildEngineSettings(options);
  // The configuration has been checked already; this also covers other callers, because wrong times would take tasks from live workers.
  const problems = settingsProblems(settings);
  if (problems.length > 0) throw fault("E.CONFIG.INVALID", problems.join(" "));
  const clock = createScaledClock(options.timeScale);
  const failpoint = armFailpoints(options.failpoints, createProcessControl(pauseFlag));
  const { store, isUnavailable, durabilityProblem, isDiskFull } = monitorStore(
    openStore(options.store, {
      clock,
      timeScale: options.timeScale,
      turnsInFlight: options.turnsInFlight,
      // Without armed failpoints the store gets none: they would cost a call per statement.
      ...(options.failpoints.length > 0 && { failpoint }),
    }),
    { onReplaced: listeners.onReplaced, now: () => performance.now(), hasRoom: () => hasRoomForStore(options.store) },
  );
  let timer: NodeJS.Timeout | undefined;
  let isStopped = false;
  // In the main thread the probe of the doors measures both.
  const loopProbe = isMainThread ? null : startLoopProbe();
  const engine: Engine = createEngine(
    {
      store,
      ids: createIdGenerator(),
      random: createRandom(),
      digest: digestText,
      emit(effects) {
        const named = isDiskFull() ? effects.map(nameFullDisk) : effects;
        listeners.onEffects(options.timeScale === 1 ? named : named.map((effect) => toRealTimeEffect(effect, clock)));
      },
      scheduleWake(wakeAt, now) {
        clearTimeout(timer);
        // At least one real millisecond, or a deadline that has just passed would spin the loop.
        if (!isStopped) timer = setTimeout(() => engine.wake(), Math.max(1, clock.toReal(wakeAt - now)));
      },
      yieldLoop: () => nextRound(),
      failpoint,
      reportProblem: listeners.onProblem,
    },
    settings,
  );
  try {
    await engine.start({ replica: options.replica, cluster: options.cluster });
  } catch (cause) {
    await store.close();
    throw toUnavailableFault(cause);
  }
  const sweeper = new RetentionSweeper({
    store,
    policyOf: (tenant) => ({ ...options.retention, ...options.retentionByTenant[tenant] }),
    clock: { monotonic: () => performance.now() },
    timers: { after: startTimer },
    gauge: () => engine.gauge(),
    onSwept(report) {
      listeners.onEffects(countRemoved(report));
      listeners.onSwept(report);
    },
    onProblem: (cause) => listeners.onProblem({ code: "E.STORE.BUSY", message: "retention.failed", details: {}, cause }),
    pace: { sweepEveryMs: clock.toReal(sweepEveryMs), fullSweepEveryMs: clock.toReal(fullSweepEveryMs) },
  });
  sweeper.start();
  return {
    push(items) {
      if (!isDiskFull()) return engine.push(items);
      const { refused, passed } = refuseWhileDiskIsFull(items);
      listeners.onEffects(refused);
      if (passed.length > 0) engine.push(passed);
    },
    gauge: () => ({
      ...engine.gauge(),
      isStoreUnavailable: isUnavailable(),
      storeDurabilityProblem: durabilityProblem(),
      isDiskFull: isDiskFull(),
      loopTimes: loopProbe?.times() ?? null,
    }),
    async stop() {
      isStopped = true;
      loopProbe?.stop();
      clearTimeout(timer);
      await sweeper.stop();
      await engine.stop();
      await store.close();
    },
  };
}

const { sweepEveryMs, fullSweepEveryMs } = defaultRetentionPace;

function startTimer(ms: number, run: () => void): () => void {
  const timer = setTimeout(run, ms);
  return () => clearTimeout(timer);
}

/** As the engine counts what it does. */
function countRemoved({ tenant, removed }: SweepReport): Effect[] {
  return Object.entries(removed).flatMap(([kind, count]): Effect[] =>
    count === 0
      ? []
      : [{ type: "count", name: "retention_removed_total", labels: { tenant, kind: kindNames[kind] ?? kind }, values: [count] }],
  );
}
const kindNames: Readonly<Record<string, string>> = { logEntries: "log_entries" };

/** Plain data: it may have to pass to another thread. The doors name the disk to the caller by `isDiskFull`. */
const diskFullFault = {
  code: "E.STORE.BUSY",
  message: "the disk of the scheduler's store is full; nothing was changed. Free some space, then try again",
  details: { isDiskFull: true },
} as const;

/** The engine knows only that the store did not take the command. */
export function nameFullDisk(effect: Effect): Effect {
  return effect.type === "answer" && effect.fault?.code === "E.STORE.BUSY" ? { ...effect, fault: diskFullFault } : effect;
}

/**
 * Requests of callers are answered at once: the engine would try each ten times, with growing pauses. Reports of workers wait in the engine;
 * they cannot be taken back, and their commits show when there is room again.
 */
export function refuseWhileDiskIsFull(items: readonly CommandRequest[]): { refused: Effect[]; passed: CommandRequest[] } {
  const isOfCaller = ({ command }: CommandRequest) => command.type.startsWith("run.");
  return {
    refused: items.filter(isOfCaller).map(({ ref }): Effect => ({ type: "answer", ref, fault: diskFullFault, body: null })),
    passed: items.filter((item) => !isOfCaller(item)),
  };
}

export function buildEngineSettings(
  options: Pick<
    EngineStartOptions,
    "thresholds" | "tenants" | "ackDeadlineMs" | "attemptLimits" | "packageDeadlineMs" | "turnsInFlight" | "timeScale"
  >,
): EngineSettings {
  return {
    ...defaultSettings,
    ...options.thresholds,
    tenants: options.tenants,
    ackDeadlineMs: options.ackDeadlineMs,
    ...options.attemptLimits,
    packageDeadlineMs: options.packageDeadlineMs,
    turnsInFlight: options.turnsInFlight,
    // The idle interval is real time: scaled, a stall of the machine would look longer than it is.
    idleMs: defaultSettings.idleMs * options.timeScale,
  };
}

/** Workers run in real time, so the durations that they get are converted back from the scaled clock. */
export function toRealTimeEffect(effect: Effect, clock: Pick<ScaledClock, "toReal">): Effect {
  if (effect.type === "answer" && effect.body?.of === "join") {
    const { leaseMs, heartbeatMs } = effect.body;
    return { ...effect, body: { ...effect.body, leaseMs: clock.toReal(leaseMs), heartbeatMs: clock.toReal(heartbeatMs) } };
  }
  if (effect.type === "dispatch" && effect.dispatch.timeoutMs !== null) {
    return { ...effect, dispatch: { ...effect.dispatch, timeoutMs: clock.toReal(effect.dispatch.timeoutMs) } };
  }
  return effect;
}
