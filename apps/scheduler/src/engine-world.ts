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
import { createClock, type ScaledClock } from "./clock.ts";
import { armFailpoints, type Failpoint, processHands } from "./failpoints.ts";
import { createDice, createIds, digestText } from "./identity.ts";
import { guardStore } from "./store-guard.ts";
import { openStore } from "./store-opening.ts";
import type { StorePlace } from "./store-place.ts";
import { asAway } from "./store-wait.ts";

/** Plain data, so that it can cross into a thread. */
export interface EngineOptions {
  readonly store: StorePlace;
  readonly cluster: string;
  readonly replica: string;
  readonly thresholds: TenantSettings;
  readonly tenants: Readonly<Record<string, Partial<TenantSettings>>>;
  readonly ackDeadlineMs: number;
  readonly turnsInFlight: number;
  readonly timeScale: number;
  readonly failpoints: readonly Failpoint[];
}

export interface EngineEars {
  /** Effects of a turn that is on disk. */
  hear(effects: readonly Effect[]): void;
  report(problem: EngineProblem): void;
  /** Another process has taken this replica's name: nothing can be written from here any more. */
  replaced(fault: Fault): void;
}

export interface HostGauge extends EngineGauge {
  /** Turns cannot begin because the store does not answer. */
  readonly isStoreAway: boolean;
  /** Why the store is not trusted with commits at this moment; null when it is. */
  readonly storeWeakness: string | null;
}

export interface RunningEngine {
  push(items: readonly CommandRequest[]): void;
  gauge(): HostGauge;
  /** Ends after the running turn and closes the store. */
  stop(): Promise<void>;
}

/** Refuses with the store's Fault when the store cannot be used; nothing is left open then. */
export async function runEngine(
  options: EngineOptions,
  ears: EngineEars,
  gate: Int32Array<SharedArrayBuffer> | null,
): Promise<RunningEngine> {
  const settings = engineSettings(options);
  // The configuration has said this in its own words already; no other way in may give the engine times that take work from the living.
  const problems = settingsProblems(settings);
  if (problems.length > 0) throw fault("E.CONFIG.INVALID", problems.join(" "));
  const clock = createClock(options.timeScale);
  const failpoint = armFailpoints(options.failpoints, processHands(gate));
  const { store, isAway, weakness } = guardStore(
    openStore(options.store, {
      clock,
      timeScale: options.timeScale,
      turnsInFlight: options.turnsInFlight,
      // Without armed points the store is not even told to pass them: that would cost a call per statement.
      ...(options.failpoints.length > 0 && { failpoint }),
    }),
    { replaced: ears.replaced, now: () => performance.now() },
  );
  let timer: NodeJS.Timeout | undefined;
  let isStopped = false;
  const engine: Engine = createEngine(
    {
      store,
      ids: createIds(),
      random: createDice(),
      digest: digestText,
      emit: options.timeScale === 1 ? ears.hear : (effects) => ears.hear(effects.map((effect) => unscaleEffect(effect, clock))),
      scheduleWake(wakeAt, now) {
        clearTimeout(timer);
        // At least one real millisecond: a deadline that has just passed must not spin the loop.
        if (!isStopped) timer = setTimeout(() => engine.wake(), Math.max(1, clock.toReal(wakeAt - now)));
      },
      failpoint,
      reportProblem: ears.report,
    },
    settings,
  );
  try {
    await engine.start({ replica: options.replica, cluster: options.cluster });
  } catch (cause) {
    await store.close();
    throw asAway(cause);
  }
  return {
    push: (items) => engine.push(items),
    gauge: () => ({ ...engine.gauge(), isStoreAway: isAway(), storeWeakness: weakness() }),
    async stop() {
      isStopped = true;
      clearTimeout(timer);
      await engine.stop();
      await store.close();
    },
  };
}

export function engineSettings(
  options: Pick<EngineOptions, "thresholds" | "tenants" | "ackDeadlineMs" | "turnsInFlight" | "timeScale">,
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
export function unscaleEffect(effect: Effect, clock: Pick<ScaledClock, "toReal">): Effect {
  if (effect.type === "answer" && effect.body?.of === "join") {
    const { leaseMs, heartbeatMs } = effect.body;
    return { ...effect, body: { ...effect.body, leaseMs: clock.toReal(leaseMs), heartbeatMs: clock.toReal(heartbeatMs) } };
  }
  if (effect.type === "dispatch" && effect.dispatch.timeoutMs !== null) {
    return { ...effect, dispatch: { ...effect.dispatch, timeoutMs: clock.toReal(effect.dispatch.timeoutMs) } };
  }
  return effect;
}
