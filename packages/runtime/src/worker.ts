// A session worker, whole: link, socket, the runner of its handlers and the clock wired together. Config, logs and signals belong to the
// app. createWorker keeps all in one thread, for the simulator and tests; createThreadedWorker gives the handlers a thread of their own.

import path from "node:path";
import type { LocalAttempt } from "./attempts/attempt.ts";
import { describePackagesForRegister, type LoadedPackages } from "./handlers/package-loader.ts";
import { JournaledOutbox, type OutboxLogEvent } from "./outbox/journaled-outbox.ts";
import type { OutboxDisk } from "./outbox/outbox-disk.ts";
import { type ResourceSettings, resourceDefaults } from "./resources/resource.ts";
import { createInProcessRunner, type HandlerRunner, type HandlerRunnerListener } from "./runner/handler-runner.ts";
import { spawnHandlerThread } from "./runner/spawn-handler-thread.ts";
import type { LoadedPackagesSummary } from "./runner/thread-messages.ts";
import { ThreadRunner } from "./runner/thread-runner.ts";
import {
  type DrainThresholds,
  type LinkCounter,
  type LinkInventory,
  type LinkLogEvent,
  type LinkSettings,
  type LinkStatus,
  linkDefaults,
  type WorkerCapabilities,
  type WorkerHealth,
  type WorkerIdentity,
} from "./scheduler-link/link-ports.ts";
import { findLostResources } from "./scheduler-link/removed-resources.ts";
import { SchedulerLink } from "./scheduler-link/scheduler-link.ts";
import {
  type DialerEvents,
  type SchedulerDialer,
  type TlsCredentials,
  WebSocketDialer,
} from "./scheduler-link/websocket-dialer.ts";
import type { WorkerEnvironment } from "./system/environment.ts";
import { createProcessWatchdog, type ProcessWatchdog } from "./system/process-watchdog.ts";

interface SharedWorkerOptions {
  /** Where the scheduler is; of several replicas each new session dials the next. */
  readonly url: string | readonly string[];
  readonly identity: WorkerIdentity;
  readonly capabilities: Omit<WorkerCapabilities, "packages" | "manifests">;
  /** Results are kept here until they are acked, and survive this process; absent: they are kept in memory only. */
  readonly outbox?: OutboxDisk;
  /** Attempts get directories of their own below this. */
  readonly workRoot: string;
  /** What handlers keep for later lies here; absent: beside the attempts' directories. */
  readonly resourceDir?: string;
  readonly resources?: Partial<Omit<ResourceSettings, "workerName">>;
  readonly environment: WorkerEnvironment;
  readonly settings?: Partial<LinkSettings>;
  /** The line to the scheduler; a WebSocket to `url` where absent. */
  readonly createDialer?: (events: DialerEvents) => SchedulerDialer;
  /** Certificates for `wss:`, read anew at each dial. */
  readonly tls?: () => TlsCredentials;
  /** Numbers for the heartbeat, and what is wrong with this worker. Cheap, and never throws. */
  readonly readHealth?: (thresholds: DrainThresholds) => WorkerHealth;
  readonly incrementCounter?: (name: LinkCounter) => void;
  /** The outcome of an attempt is known, so many milliseconds after its handler was to be called. */
  readonly attemptEnded?: (nodeType: string, durationMs: number) => void;
  /** Every note of the link, and problems of runner and outbox. Must not throw. */
  readonly log: (event: LinkLogEvent | WorkerLogEvent) => void;
}

export interface SessionWorkerOptions extends SharedWorkerOptions {
  readonly loadedPackages: LoadedPackages;
}

export interface ThreadedWorkerOptions extends SharedWorkerOptions {
  /** Packages are read and imported by the thread that will call them. */
  readonly packagesDir: string;
  /** What the heap of that thread may grow to; absent: as Node decides. */
  readonly heapMbMax?: number;
}

export type WorkerLogEvent =
  | OutboxLogEvent
  | {
      readonly level: "warn";
      readonly event: "executor";
      readonly message: string;
      readonly details: Readonly<Record<string, unknown>>;
    };

export interface SessionWorker {
  /** Dials, once it has read what an earlier process left in the outbox. One that is damaged ends the worker before it began. */
  start(): void;
  /** Takes no new work and ends when all is finished and acked; at the latest after so long. */
  drain(graceMs: number): void;
  /** Ends now; what runs is given back. */
  stop(): void;
  /** Resolves once the link is closed for good, its socket is gone and its handlers were told to let go. */
  readonly closed: Promise<void>;
  readonly status: LinkStatus;
  inventory(): LinkInventory;
  /** Whether results can be kept; true where they are kept in memory only. */
  readonly isOutboxWritable: boolean;
}

export interface ThreadedWorker extends SessionWorker {
  /** What the handlers' thread has loaded. */
  readonly loadedPackages: LoadedPackagesSummary;
  /** How full the memory of the handlers' thread is, in percent; null where it is not known. */
  readonly heapPct: number | null;
  /** For how long the handlers' thread has not got to a question: the sign that a handler blocks it. */
  readonly lagMs: number;
  /** After `closed`: the handlers' thread sits in a call into the system and cannot be ended; only the end of the process ends it. */
  readonly isStuck: boolean;
}

const tickDelayMsMax = 60_000;

export function createWorker(options: SessionWorkerOptions): SessionWorker {
  const { loadedPackages, environment } = options;
  const settings = { ...buildHandlerSettings(options), loadedPackages, environment, watchdog: createWatchdog(options) };
  return assembleWorker(
    options,
    (listener) => createInProcessRunner(listener, settings),
    () => describePackagesForRegister(loadedPackages),
  );
}

/**
 * The link has this thread to itself: a handler that blocks its own never looks like a dead worker, and one that ends it takes no
 * session with it. Resolves once the packages are loaded; rejects where that ended their thread.
 */
export async function createThreadedWorker(options: ThreadedWorkerOptions): Promise<ThreadedWorker> {
  const { packagesDir, heapMbMax } = options;
  const settings = { ...buildHandlerSettings(options), packagesDir, ...(heapMbMax !== undefined && { heapMbMax }) };
  const host = new ThreadRunner({
    environment: options.environment,
    spawnThread: (listener) => spawnHandlerThread(settings, listener),
    watchdog: createWatchdog(options),
  });
  try {
    await host.startThread();
  } catch (problem) {
    await host.close();
    throw problem;
  }
  const begin = (listener: HandlerRunnerListener) => {
    host.setListener(listener);
    return host;
  };
  const worker = assembleWorker(options, begin, () => describePackagesForRegister(host.loadedPackages));
  return Object.defineProperties(worker, {
    loadedPackages: { get: () => host.loadedPackages },
    heapPct: { get: () => host.heapPct },
    lagMs: { get: () => host.lagMs },
    isStuck: { get: () => host.isStuck },
  }) as ThreadedWorker;
}

const createWatchdog = ({ log }: SharedWorkerOptions): ProcessWatchdog =>
  createProcessWatchdog(({ message, cause }) =>
    log({ level: "warn", event: "executor", message, details: { cause: String(cause) } }),
  );

function buildHandlerSettings({ workRoot, identity, resources, resourceDir = path.join(workRoot, "kept") }: SharedWorkerOptions) {
  return {
    tenant: identity.tenant,
    workRoot: path.join(workRoot, identity.boot),
    resourceDir,
    resources: { ...resourceDefaults, ...resources, workerName: identity.name },
  };
}

function assembleWorker(
  options: SharedWorkerOptions,
  makeRunner: (listener: HandlerRunnerListener) => HandlerRunner,
  offered: () => Pick<WorkerCapabilities, "packages" | "manifests">,
): SessionWorker {
  const { environment } = options;
  let cancelTick = () => {};
  let cancelGrace = () => {};
  const { promise: closed, resolve: resolveClosed } = Promise.withResolvers<void>();

  const startedAt = new Map<LocalAttempt, number>();
  const runner = makeRunner({
    attemptFinished(attempt, outcome) {
      const at = startedAt.get(attempt);
      if (at !== undefined && startedAt.delete(attempt))
        options.attemptEnded?.(attempt.dispatch.node_type, environment.now() - at);
      link.handleOutcome(attempt, outcome);
    },
    handlerReturned: (attempt) => link.handleHandlerReturned(attempt),
    feedbackReceived: (attempt, input) => link.handleFeedback(attempt, input),
    nextCalled: (attempt, draft, answer) => link.callNext(attempt, draft, answer),
    vendorFrameSent: (draft) => link.sendVendorFrame(draft),
    resourceRemoved: (resource, reason) => link.reportRemovedResource(resource, reason),
    problemReported: ({ message, cause }) =>
      options.log({ level: "warn", event: "executor", message, details: { cause: String(cause) } }),
    healthChanged: () => link.reportHealth(),
  });

  const events: DialerEvents = {
    connectionOpened: () => link.handleOpen(),
    messageReceived: (text) => link.handleMessage(text),
    connectionLost: (reason, target) => link.handleConnectionLost(reason, target),
  };
  const dialer =
    options.createDialer?.(events) ??
    new WebSocketDialer([options.url].flat(), events, environment, options.tls === undefined ? {} : { tls: options.tls });

  const durableOutbox =
    options.outbox === undefined
      ? null
      : new JournaledOutbox({ disk: options.outbox, environment, log: options.log, healthChanged: () => link.reportHealth() });

  const link: SchedulerLink = new SchedulerLink({
    ports: {
      now: environment.now,
      timestamp: createTimestamp(environment.wallClock),
      random: environment.random,
      dial: (target) => dialer.dial(target),
      send: (text) => dialer.send(text),
      bufferedBytes: () => dialer.bufferedBytes?.() ?? 0,
      closeConnection: (code, reason) => dialer.closeConnection(code, reason),
      wakeAt(at) {
        cancelTick();
        // A tick too early only asks again, so the cap costs nothing and no timer overflows.
        cancelTick = environment.after(Math.min(Math.max(0, Math.ceil(at - environment.now())), tickDelayMsMax), () =>
          link.tick(),
        );
      },
      // After all that one poll of the sockets brought in: frames that came together are acked together.
      requestFlush: () => environment.defer(() => link.flush()),
      startHandler(attempt) {
        if (options.attemptEnded !== undefined) startedAt.set(attempt, environment.now());
        runner.start(attempt);
      },
      readHealth(thresholds) {
        const { metrics, problems } = options.readHealth?.(thresholds) ?? { metrics: {}, problems: [] };
        const all = runner.problems.length === 0 ? problems : [...problems, ...runner.problems];
        return { metrics: { ...metrics, ...runner.metrics }, problems: all };
      },
      deliverVendorFrame: (frame) => runner.deliverVendorFrame(frame),
      incrementCounter: options.incrementCounter ?? (() => {}),
      log(event) {
        options.log(event);
        if (event.event === "closed") end();
      },
    },
    identity: options.identity,
    capabilities: () => ({ ...options.capabilities, ...offered(), resources: runner.referencedResources }),
    settings: { ...linkDefaults, ...options.settings },
    durableOutbox: durableOutbox,
  });

  const begin = async (outbox: JournaledOutbox): Promise<void> => {
    const restored = await outbox.load();
    if (link.status.phase === "CLOSED") return;
    if (restored === null) return link.stop();
    link.restoreOutcomes(restored);
    for (const resource of findLostResources(restored, new Set(runner.referencedResources)))
      link.reportRemovedResource(resource, "lost");
    link.start();
  };

  function end(): void {
    cancelTick();
    cancelGrace();
    // What was sent last must leave before the process does.
    void Promise.all([dialer.whenClosed(), durableOutbox?.close(), runner.close()]).then(() => resolveClosed());
  }

  return {
    start: () => (durableOutbox === null ? link.start() : void begin(durableOutbox)),
    drain(graceMs) {
      link.drainAndClose();
      if (link.status.phase !== "CLOSED") cancelGrace = environment.after(graceMs, () => link.stop());
    },
    stop: () => link.stop(),
    closed,
    get status() {
      return link.status;
    },
    inventory: () => link.inventory(),
    get isOutboxWritable() {
      return durableOutbox?.isHealthy ?? true;
    },
  };
}

/** Writing a date costs more than the rest of an envelope; within one millisecond it is the same text. */
function createTimestamp(wallNow: () => number): () => string {
  let at = -1;
  let text = "";
  return () => {
    const wall = wallNow();
    if (wall !== at) {
      at = wall;
      text = new Date(wall).toISOString();
    }
    return text;
  };
}
