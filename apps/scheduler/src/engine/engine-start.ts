// Puts the engine into the real world: store, clock, names, dice, timers and crash points. The same for an engine in this thread
// and in one of its own; how commands and effects travel is the business of the hosts.

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
import { armFailpoints, createProcessControl, type Failpoint } from "../platform/failpoints.ts";
import { createIdGenerator, createRandom, digestText } from "../platform/ids-and-random.ts";
import { createScaledClock, type ScaledClock } from "../platform/scaled-clock.ts";
import type { StoreAddress } from "../settings/store-address.ts";
import { openStore } from "../store/store-factory.ts";
import { monitorStore } from "../store/store-monitor.ts";
import { toUnavailableFault } from "../store/store-retry.ts";

/** Plain data, so that it can cross into a thread. */
export interface EngineStartOptions {
  readonly store: StoreAddress;
  readonly cluster: string;
  readonly replica: string;
  readonly thresholds: TenantSettings;
  readonly tenants: Readonly<Record<string, Partial<TenantSettings>>>;
  readonly ackDeadlineMs: number;
  readonly turnsInFlight: number;
  readonly timeScale: number;
  readonly failpoints: readonly Failpoint[];
}

export interface EngineListeners {
  /** Effects of a turn that is on disk. */
  onEffects(effects: readonly Effect[]): void;
  onProblem(problem: EngineProblem): void;
  /** Another process has taken this replica's name: nothing can be written from here any more. */
  onReplaced(fault: Fault): void;
}

export interface EngineHostGauge extends EngineGauge {
  /** Turns cannot begin because the store does not answer. */
  readonly isStoreUnavailable: boolean;
  /** Why the store is not trusted with commits at this moment; null when it is. */
  readonly storeDurabilityProblem: string | null;
}

export interface RunningEngine {
  push(items: readonly CommandRequest[]): void;
  gauge(): EngineHostGauge;
  /** Ends after the running turn and closes the store. */
  stop(): Promise<void>;
}

/** Refuses with the store's Fault when the store cannot be used; nothing is left open then. */
export async function startEngine(
  options: EngineStartOptions,
  listeners: EngineListeners,
  pauseFlag: Int32Array<SharedArrayBuffer> | null,
): Promise<RunningEngine> {
  const settings = buildEngineSettings(options);
  // The configuration has said this in its own words already; no other way in may give the engine times that take work from the living.
  const problems = settingsProblems(settings);
  if (problems.length > 0) throw fault("E.CONFIG.INVALID", problems.join(" "));
  const clock = createScaledClock(options.timeScale);
  const failpoint = armFailpoints(options.failpoints, createProcessControl(pauseFlag));
  const { store, isUnavailable, durabilityProblem } = monitorStore(
    openStore(options.store, {
      clock,
      timeScale: options.timeScale,
      turnsInFlight: options.turnsInFlight,
      // Without armed points the store is not even told to pass them: that would cost a call per statement.
      ...(options.failpoints.length > 0 && { failpoint }),
    }),
    { onReplaced: listeners.onReplaced, now: () => performance.now() },
  );
  let timer: NodeJS.Timeout | undefined;
  let isStopped = false;
  const engine: Engine = createEngine(
    {
      store,
      ids: createIdGenerator(),
      random: createRandom(),
      digest: digestText,
      emit:
        options.timeScale === 1
          ? listeners.onEffects
          : (effects) => listeners.onEffects(effects.map((effect) => toRealTimeEffect(effect, clock))),
      scheduleWake(wakeAt, now) {
        clearTimeout(timer);
        // At least one real millisecond: a deadline that has just passed must not spin the loop.
        if (!isStopped) timer = setTimeout(() => engine.wake(), Math.max(1, clock.toReal(wakeAt - now)));
      },
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
  return {
    push: (items) => engine.push(items),
    gauge: () => ({ ...engine.gauge(), isStoreUnavailable: isUnavailable(), storeDurabilityProblem: durabilityProblem() }),
    async stop() {
      isStopped = true;
      clearTimeout(timer);
      await engine.stop();
      await store.close();
    },
  };
}

export function buildEngineSettings(
  options: Pick<EngineStartOptions, "thresholds" | "tenants" | "ackDeadlineMs" | "turnsInFlight" | "timeScale">,
): EngineSettings {
  return {
    ...defaultSettings,
    ...options.thresholds,
    tenants: options.tenants,
    ackDeadlineMs: options.ackDeadlineMs,
    turnsInFlight: options.turnsInFlight,
    // How often the engine looks is a matter of real time: a stall of the machine must not look longer because time is bent.
    idleMs: defaultSettings.idleMs * options.timeScale,
  };
}

/** Workers live in real time: what they are told of durations is turned back from the store's faster clock. */
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
