// A session worker: link, socket, clock and runner of its handlers, in the same thread (simulator, tests) or in one of its own.

import path from "node:path";
import {
  describePackagesForRegister,
  type LoadedPackages,
  type LoadedPackagesSummary,
  loadPackages,
} from "./handlers/package-loader.ts";
import { type HostingSettings, HostSet } from "./hosts/host-set.ts";
import { JournaledOutbox, type OutboxLogEvent } from "./outbox/journaled-outbox.ts";
import type { OutboxDisk } from "./outbox/outbox-file.ts";
import type { PackageLogEvent, PackageManager } from "./packages/package-manager.ts";
import { type ResourcePorts, type ResourceSettings, resourceDefaults } from "./resources/resource.ts";
import { createInProcessRunner, type HandlerRunner, type HandlerRunnerListener } from "./runner/handler-runner.ts";
import { spawnHandlerThread } from "./runner/spawn-handler-thread.ts";
import { ThreadRunner } from "./runner/thread-runner.ts";
import {
  type DrainThresholds,
  type LinkCounter,
  type LinkInventory,
  type LinkLogEvent,
  type LinkPorts,
  type LinkSettings,
  type LinkStatus,
  linkDefaults,
  packageFeature,
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
import { ProcessWatchdog } from "./system/process-watchdog.ts";

export interface SharedWorkerOptions {
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
  /** How handlers reach the scheduler's files; absent: they do not. */
  readonly transferFile?: ResourcePorts["transferFile"];
  /** What one attempt may write as feedback before it is ended. */
  readonly outputBytesMax?: number;
  readonly environment: WorkerEnvironment;
  readonly settings?: Partial<LinkSettings>;
  /** The line to the scheduler; a WebSocket to `url` where absent. */
  readonly createDialer?: (events: DialerEvents) => SchedulerDialer;
  /** Installs and removes packages at the scheduler's command; absent: this worker does not. */
  readonly packageManager?: PackageManager;
  /** Certificates for `wss:`, read anew at each dial. */
  readonly tls?: () => TlsCredentials;
  /** Numbers for the heartbeat, and what is wrong with this worker. Cheap, and never throws. */
  readonly readHealth?: (thresholds: DrainThresholds) => WorkerHealth;
  readonly incrementCounter?: (name: LinkCounter) => void;
  /** The outcome of an attempt is known, and how long after its handler was called. */
  readonly attemptEnded?: NonNullable<LinkPorts["attemptEnded"]>;
  /** Log events of the link, and problems of runner and outbox. Must not throw. */
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
  /** How packages run that have processes of their own; absent: those for Python are not offered. */
  readonly hosting?: HostingSettings;
}

export interface HostedWorkerOptions extends SharedWorkerOptions {
  readonly packagesDir: string;
  readonly hosting: HostingSettings;
}

export type WorkerLogEvent =
  | OutboxLogEvent
  | PackageLogEvent
  | {
      readonly level: "warn";
      readonly event: "executor";
      readonly message: string;
      readonly details: Readonly<Record<string, unknown>>;
    };

const tickDelayMsMax = 60_000;

export function createWorker(options: SessionWorkerOptions): SessionWorker {
  const { loadedPackages, environment } = options;
  const settings = { ...buildRunnerSettings(options), loadedPackages, environment, watchdog: createWatchdog(options) };
  return new SessionWorker(options, (listener) => createInProcessRunner(listener, settings));
}

/** All packages run in processes of their own, none in this one. Resolves once they are loaded. */
export async function createHostedWorker(options: HostedWorkerOptions): Promise<SessionWorker> {
  const { environment, packagesDir, hosting, log } = options;
  const watchdog = createWatchdog(options);
  const hosts = new HostSet(
    {
      environment,
      groupStarted: (pid) => watchdog.watchGroup(pid),
      groupEnded: (pid) => watchdog.unwatchGroup(pid),
      reportProblem: (problem) => log(createProblemEvent(problem)),
    },
    hosting,
  );
  const loadedPackages = await loadPackages(packagesDir, hosts);
  const settings = { ...buildRunnerSettings(options), loadedPackages, environment, watchdog };
  return new SessionWorker(options, (listener) => createInProcessRunner(listener, settings));
}

/** Handlers get a thread of their own, so that one that blocks or crashes ends no session. Resolves once the packages are loaded. */
export async function createThreadedWorker(options: ThreadedWorkerOptions): Promise<SessionWorker> {
  const { packagesDir, heapMbMax, hosting } = options;
  const settings = {
    ...buildHandlerSettings(options),
    packagesDir,
    ...(heapMbMax !== undefined && { heapMbMax }),
    ...(hosting !== undefined && { hosting }),
  };
  const runner = new ThreadRunner({
    environment: options.environment,
    spawnThread: (listener) => spawnHandlerThread(settings, listener),
    watchdog: createWatchdog(options),
    ...(options.transferFile !== undefined && { transferFile: options.transferFile }),
  });
  try {
    await runner.startThread();
  } catch (problem) {
    await runner.close();
    throw problem;
  }
  return new SessionWorker(options, (listener) => {
    runner.setListener(listener);
    return runner;
  });
}

/** Installing packages is announced by workers that can do it, whatever else they were told to announce. */
function listFeatures({ capabilities, packageManager }: SharedWorkerOptions): string[] {
  const others = capabilities.features.filter((feature) => feature !== packageFeature);
  return packageManager === undefined ? others : [...others, packageFeature];
}

const createWatchdog = ({ log }: SharedWorkerOptions): ProcessWatchdog =>
  new ProcessWatchdog((problem) => log(createProblemEvent(problem)));

function createProblemEvent({ message, cause }: { readonly message: string; readonly cause: unknown }): WorkerLogEvent {
  return { level: "warn", event: "executor", message, details: { cause: String(cause) } };
}

function buildHandlerSettings(options: SharedWorkerOptions) {
  const { workRoot, identity, resources, resourceDir = path.join(workRoot, "kept"), outputBytesMax } = options;
  return {
    tenant: identity.tenant,
    workRoot: path.join(workRoot, identity.boot),
    resourceDir,
    resources: { ...resourceDefaults, ...resources, workerName: identity.name },
    ...(outputBytesMax !== undefined && { outputBytesMax }),
  };
}

const buildRunnerSettings = (options: SharedWorkerOptions) => ({
  ...buildHandlerSettings(options),
  ...(options.transferFile !== undefined && { transferFile: options.transferFile }),
});

export class SessionWorker {
  /** Resolves once the link is closed for good, its socket is gone and its handlers were asked to stop. */
  readonly closed: Promise<void>;
  readonly runner: HandlerRunner;
  readonly #options: SharedWorkerOptions;
  readonly #durableOutbox: JournaledOutbox | null;
  readonly #link: SchedulerLink;
  readonly #dialer: SchedulerDialer;
  readonly #resolveClosed: () => void;
  #cancelTick = () => {};
  #cancelGrace = () => {};

  constructor(options: SharedWorkerOptions, createRunner: (listener: HandlerRunnerListener) => HandlerRunner) {
    const { environment, outbox: disk, log, url, tls, createDialer } = options;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.closed = promise;
    this.#resolveClosed = resolve;
    this.#options = options;
    const healthChanged = () => this.#link.healthChanged();
    this.#durableOutbox = disk === undefined ? null : new JournaledOutbox({ disk, environment, log, healthChanged });
    this.#link = new SchedulerLink({
      ports: this.#createLinkPorts(),
      identity: options.identity,
      capabilities: () => ({
        ...options.capabilities,
        features: listFeatures(options),
        ...describePackagesForRegister(this.#offeredPackages),
        resources: this.runner.referencedResources,
      }),
      slotsMax: options.capabilities.maxParallel,
      settings: { ...linkDefaults, ...options.settings },
      durableOutbox: this.#durableOutbox,
    });
    this.runner = createRunner(this.#link);
    this.#dialer =
      createDialer?.(this.#link) ?? new WebSocketDialer([url].flat(), this.#link, environment, tls === undefined ? {} : { tls });
  }

  /** Dials, once it has read what an earlier process left in the outbox. A damaged outbox ends the worker before it starts. */
  start(): void {
    const { packageManager } = this.#options;
    if (packageManager !== undefined) {
      void packageManager.start({
        packagesChanged: () => this.packagesChanged(),
        hasAttemptsOf: (name, version) => this.#link.hasAttemptsOf(name, version),
        sendPackageEvent: (event, command) => this.#link.sendPackageEvent(event, command),
      });
    }
    if (this.#durableOutbox === null) this.#link.start();
    else void this.#restoreAndStart(this.#durableOutbox);
  }

  /** Takes no new work and ends when everything is finished and acked; at the latest after `graceMs`. */
  drain(graceMs: number): void {
    this.#link.drainAndClose();
    if (this.status.phase !== "CLOSED") this.#cancelGrace = this.#options.environment.after(graceMs, () => this.stop());
  }

  /** Ends now; what runs is given back to the scheduler. */
  stop(): void {
    this.#link.stop();
  }

  get status(): LinkStatus {
    return this.#link.status;
  }

  /** Packages were installed or removed on disk: new versions are offered and removed ones drained, and the scheduler is told. */
  async packagesChanged(): Promise<LoadedPackagesSummary> {
    const known = new Set(this.runner.loadedPackages.problems.map(problemKey));
    await this.runner.reloadPackages();
    const { loadedPackages } = this.runner;
    for (const problem of loadedPackages.problems) if (!known.has(problemKey(problem))) this.#logPackageProblem(problem);
    this.#link.packagesChanged();
    return loadedPackages;
  }

  #logPackageProblem({ dir, code, message }: LoadedPackagesSummary["problems"][number]): void {
    this.#options.log({ level: "warn", event: "package", message, details: { dir, code } });
  }

  /** Without those that are about to be removed. */
  get #offeredPackages(): LoadedPackagesSummary {
    const { packageManager } = this.#options;
    const { packages, problems } = this.runner.loadedPackages;
    return { packages: packages.filter(({ name, version }) => packageManager?.isLeaving(name, version) !== true), problems };
  }

  inventory(): LinkInventory {
    return this.#link.inventory();
  }

  /** Whether results can be stored; true where they are kept in memory only. */
  get isOutboxWritable(): boolean {
    return this.#durableOutbox?.isHealthy ?? true;
  }

  async #restoreAndStart(outbox: JournaledOutbox): Promise<void> {
    const restored = await outbox.load();
    if (this.status.phase === "CLOSED") return;
    if (restored === null) return this.stop();
    this.#link.restoreOutcomes(restored);
    for (const resource of findLostResources(restored, new Set(this.runner.referencedResources)))
      this.#link.resourceRemoved(resource, "lost");
    this.#link.start();
  }

  #createLinkPorts(): LinkPorts {
    const { environment, attemptEnded, readHealth, incrementCounter = () => {}, log, packageManager } = this.#options;
    return {
      now: environment.now,
      timestamp: createTimestamp(environment.wallClock),
      random: environment.random,
      randomBytes: environment.randomBytes,
      dial: (target) => this.#dialer.dial(target),
      send: (text) => this.#dialer.send(text),
      bufferedBytes: () => this.#dialer.bufferedBytes?.() ?? 0,
      closeConnection: (code, reason) => this.#dialer.closeConnection(code, reason),
      wakeAt: (at) => {
        this.#cancelTick();
        // A tick too early only asks again, so the cap costs nothing and no timer overflows.
        const delayMs = Math.min(Math.max(0, Math.ceil(at - environment.now())), tickDelayMsMax);
        this.#cancelTick = environment.after(delayMs, () => this.#link.tick());
      },
      // After everything that one poll of the sockets brought in: frames that came together are acked together.
      requestFlush: () => environment.defer(() => this.#link.flush()),
      startHandler: (attempt) => this.runner.start(attempt),
      readHealth: (thresholds) => {
        const { metrics, problems } = readHealth?.(thresholds) ?? { metrics: {}, problems: [] };
        const { resourceReport } = this.runner;
        return {
          metrics: { ...metrics, ...this.runner.metrics },
          problems: [...problems, ...this.runner.problems],
          ...(resourceReport !== undefined && { resources: resourceReport }),
        };
      },
      deliverVendorFrame: (frame) => this.runner.deliverVendorFrame(frame),
      ...(packageManager !== undefined && {
        packageCommands: {
          take: (command) => packageManager.takeCommand(command),
          eventAcked: (command) => packageManager.eventAcked(command),
          isLeaving: (name, version) => packageManager.isLeaving(name, version),
        },
      }),
      incrementCounter,
      ...(attemptEnded !== undefined && { attemptEnded }),
      reportProblem: (problem) => log(createProblemEvent(problem)),
      log: (event) => {
        log(event);
        if (event.event === "closed") this.#handleClosed();
      },
    };
  }

  #handleClosed(): void {
    this.#cancelTick();
    this.#cancelGrace();
    // What was sent last must leave before the process does.
    const endings = [
      this.#dialer.whenClosed(),
      this.#durableOutbox?.close() ?? Promise.resolve(),
      this.runner.close(),
      this.#options.packageManager?.close() ?? Promise.resolve(),
    ];
    void Promise.all(endings).then(() => this.#resolveClosed());
  }
}

const problemKey = ({ dir, message }: LoadedPackagesSummary["problems"][number]): string => `${dir}\n${message}`;

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
