// Where workers' sockets meet the engine: peers, sessions, time, and what is owed at the end of a tick. No transport: sockets come through
// worker-socket.ts. What a socket goes through is connection.ts, what is said in a session session.ts; what it means, the engine.

import type { Effect } from "@astraflow/engine";
import { compileFrameReaders, type Fault, fault } from "@astraflow/protocol";
import type { EngineClient, FindLostResources, VolatileEvents } from "@astraflow/services";
import type { WorkerAuthenticator } from "../../auth/worker-authenticator.ts";
import type { DoorEnvironment } from "../../environment/door-environment.ts";
import type { MetricsRegistry } from "../../environment/metrics-registry.ts";
import { MonitoredSocket, type SocketOwner } from "../connection/monitored-socket.ts";
import type { WorkerSocket, WorkerSocketEvents } from "../connection/worker-socket.ts";
import { createFrameLog } from "../frames/frame-log.ts";
import { createFrameTap } from "../frames/frame-tap.ts";
import { createTimestamp } from "../frames/frame-writer.ts";
import { RestartDetector } from "../frames/restart-detector.ts";
import { RunSequence } from "../frames/run-sequence.ts";
import type { DispatchResourceBinder } from "../lifecycle/dispatch-resource-binder.ts";
import type { Session } from "../lifecycle/session.ts";
import type { RecordManifests, SessionContext, TenantWindows, VendorFrameSink } from "../lifecycle/session-context.ts";
import { type SessionLimits, sessionLimits } from "../lifecycle/session-limits.ts";
import { createSessionMetrics } from "../lifecycle/session-metrics.ts";
import { SessionRegistry } from "../lifecycle/session-registry.ts";
import { AdmissionControl } from "./admission-control.ts";

export interface SessionServerOptions {
  readonly engineClient: EngineClient;
  readonly authenticator: WorkerAuthenticator;
  readonly environment: DoorEnvironment;
  readonly metrics: MetricsRegistry;
  readonly limits?: Partial<SessionLimits>;
  /** What single tenants have of their own. */
  readonly tenants?: Readonly<Record<string, TenantWindows>>;
  /** Who takes vendors' frames of workers; without one they are refused. */
  readonly extensions?: VendorFrameSink;
  /** Who keeps the manifests that workers bring; without one nobody does. */
  readonly recordManifests?: RecordManifests;
  /** Who finds the resources that packages ask for; without one tasks are sent without. */
  readonly binder?: DispatchResourceBinder;
  /** Who finds what results have left with a worker; without one what it lost ends by its time to live. */
  readonly findLostResources?: FindLostResources;
  /** Where heartbeats and frames are told that stand in no log; without it they are not told. */
  readonly volatile?: VolatileEvents;
  /** This is the only scheduler on its store. */
  readonly isAlone?: boolean;
}

export interface SessionServer {
  /** Why nobody may come in at this moment; null when they may. Asked before `welcome`. */
  refusalReason(): Fault | null;
  /** Takes an open socket in; all that happens on it must be told to the ears. */
  acceptSocket(socket: WorkerSocket): WorkerSocketEvents;
  /** Says goodbye to everyone; resolves when the last socket is gone. */
  close(): Promise<void>;
  readonly connections: number;
}

const goingAwayCode = 1001;

export function createSessionServer(options: SessionServerOptions): SessionServer {
  // Before any stranger arrives: the first frame must not pay for compiling validators.
  compileFrameReaders();
  return new DefaultSessionServer(options);
}

class DefaultSessionServer implements SessionServer, SocketOwner {
  readonly context: SessionContext;
  readonly metrics: SessionContext["metrics"];
  readonly #environment: DoorEnvironment;
  readonly #limits: SessionLimits;
  readonly #admission: AdmissionControl<MonitoredSocket>;
  readonly #registry: SessionRegistry;
  /** By connection, so that a session finds the socket it is on. */
  readonly #sockets = new Map<unknown, MonitoredSocket>();
  readonly #unsubscribers: (() => void)[];
  #flushQueue = new Set<Session>();
  #isClosing = false;
  #isFastSweepScheduled = false;
  #onAllClosed: (() => void) | null = null;

  constructor(options: SessionServerOptions) {
    const { engineClient, environment, authenticator } = options;
    this.#environment = environment;
    this.#limits = { ...sessionLimits, ...options.limits };
    this.metrics = createSessionMetrics(options.metrics, engineClient);
    this.#registry = new SessionRegistry(this.#limits);
    this.#admission = new AdmissionControl(this.#limits, environment);
    this.context = {
      authenticator,
      environment,
      frameLog: createFrameLog(environment),
      frameTap: options.volatile === undefined ? null : createFrameTap(options.volatile),
      volatile: options.volatile ?? null,
      limits: this.#limits,
      timestamp: createTimestamp(() => environment.clock.now()),
      metrics: this.metrics,
      registry: this.#registry,
      runSequence: new RunSequence(options.isAlone === true, environment.clock.now()),
      restartDetector: new RestartDetector(),
      extensions: options.extensions ?? null,
      recordManifests: options.recordManifests ?? null,
      tenants: options.tenants ?? {},
      jitter: createJitterSequence(),
      binder: options.binder ?? null,
      findLostResources: options.findLostResources ?? null,
      runStep: (session, step) => this.#runSessionStep(session, step),
      postCommand: (session, command, note) =>
        engineClient.send(command, (body, why) => {
          if (note !== null) this.#runSessionStep(session, () => session.handleAnswer(note, body, why));
        }),
    };
    this.#unsubscribers = [
      engineClient.on("dispatch", (effect) => this.#routeEffect(effect, (session) => session.handleDispatch(effect))),
      engineClient.on("stop", (effect) => this.#routeEffect(effect, (session) => session.handleStop(effect))),
      engineClient.on("next", (effect) => this.#routeEffect(effect, (session) => session.handleNextResponse(effect))),
      engineClient.on("order", (effect) => this.#routeEffect(effect, (session) => session.handleCommand(effect))),
      engineClient.on("tell", (effect) => this.#routeEffect(effect, (session) => session.handleVendorFrame(effect))),
      engineClient.on("reset", (effect) => this.#routeEffect(effect, (session) => session.handleReset(effect))),
      engineClient.on("drain", (effect) => this.#routeEffect(effect, (session) => session.handleDrain(effect))),
      authenticator.onChange(() => this.#recheckCredentials()),
      environment.timers.every(this.#limits.sweepMs, () => this.#checkAllTimers()),
    ];
  }

  get connections(): number {
    return this.#sockets.size;
  }

  refusalReason(): Fault | null {
    if (this.#isClosing) return fault("E.SHUTTING_DOWN", "this scheduler is going away");
    if (this.#sockets.size < this.#limits.connectionsMax && this.#admission.hasCapacity()) return null;
    return fault("E.OVERLOADED", "too many connections; come back later");
  }

  acceptSocket(socket: WorkerSocket): WorkerSocketEvents {
    const evicted = this.#admission.evictIdle();
    if (evicted !== null) {
      this.metrics.reset("unknown", "E.OVERLOADED");
      evicted.socket.terminate();
    }
    const peer = new MonitoredSocket(socket, this);
    this.#sockets.set(peer.connection, peer);
    this.#admission.add(peer);
    return {
      message: (data, isBinary) => {
        this.#runGuarded(peer, () => peer.handleMessage(data, isBinary));
        this.#scheduleFlush(peer.connection.session);
        peer.pauseIfOverloaded();
      },
      ping: (data) => peer.answerPing(data),
      pong: () => peer.recordActivity(),
      drained: () => this.#scheduleFlush(peer.connection.session),
      bytesReceived: (bytes) => peer.countBytes(bytes),
      closed: (code) => this.#removeSocket(peer, code),
    };
  }

  markAuthenticated(peer: MonitoredSocket, tenant: string): boolean {
    return this.#admission.markAuthenticated(peer, tenant);
  }

  scheduleJoin(peer: MonitoredSocket, tenant: string, run: () => boolean): void {
    this.#admission.scheduleJoin(tenant, () => {
      let isSlotUsed = true;
      this.#runGuarded(peer, () => {
        isSlotUsed = run();
      });
      this.#scheduleFlush(peer.connection.session);
      peer.resumeIfDrained();
      return isSlotUsed;
    });
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    const gone = new Promise<void>((resolve) => {
      this.#onAllClosed = resolve;
    });
    const closeDeadline = this.#environment.clock.monotonic() + this.#limits.closeMs;
    for (const peer of this.#sockets.values()) {
      peer.closeDeadline = closeDeadline;
      peer.socket.close(goingAwayCode, "going away");
    }
    const stopTimer = this.#environment.timers.after(this.#limits.closeMs, () => {
      for (const peer of this.#sockets.values()) peer.socket.terminate();
    });
    if (this.#sockets.size > 0) await gone;
    stopTimer();
    for (const stop of this.#unsubscribers) stop();
  }

  #removeSocket(peer: MonitoredSocket, code: number): void {
    this.#sockets.delete(peer.connection);
    this.#admission.remove(peer, peer.tenant);
    peer.handleDisconnect();
    this.#runGuarded(peer, () => peer.connection.handleDisconnect(`socket closed with ${code}`));
    if (this.#sockets.size === 0) this.#onAllClosed?.();
  }

  /** Runs one step on a socket. One that throws ends that socket and its session, never the process. */
  #runGuarded(peer: MonitoredSocket, step: () => void): void {
    try {
      step();
    } catch (problem) {
      const { session } = peer.connection;
      this.#logBug(session, problem);
      peer.socket.terminate();
      // Where its state is in doubt, nobody may go on with it.
      session?.end("a bug of this scheduler");
    }
  }

  /** The same for what a session hears from elsewhere than its socket. */
  #runSessionStep(session: Session, step: () => void): void {
    const { connection } = session;
    try {
      step();
    } catch (problem) {
      this.#logBug(session, problem);
      connection?.terminate();
      session.end("a bug of this scheduler");
    }
    this.#scheduleFlush(session);
    this.#sockets.get(session.connection)?.resumeIfDrained();
  }

  #logBug(session: Session | null, problem: unknown): void {
    this.#environment.log({
      level: "error",
      event: "session.bug",
      session: session?.id ?? null,
      problem: describeError(problem),
    });
  }

  #routeEffect(effect: Extract<Effect, { session: string }>, step: (session: Session) => void): void {
    const session = this.#registry.findById(effect.session);
    // The session has gone meanwhile; its leave is on the way to the engine.
    if (session !== undefined) this.#runSessionStep(session, () => step(session));
  }

  // Everything owed at the end of a tick leaves together: one ack for all that one turn of the engine answered.
  #scheduleFlush(session: Session | null): void {
    if (session === null || session.connection === null) return;
    if (this.#flushQueue.size === 0) queueMicrotask(() => this.#flushQueued());
    this.#flushQueue.add(session);
  }

  #flushQueued(): void {
    const sessions = this.#flushQueue;
    this.#flushQueue = new Set();
    for (const session of sessions) {
      const peer = this.#sockets.get(session.connection);
      if (peer === undefined) continue;
      const { socket } = peer;
      // All frames of one turn in one write: about a fifth less processor time per task than a write per frame.
      socket.batchWrites(() => this.#runGuarded(peer, () => session.flush(this.#limits.socketBytesSoft - socket.bufferedAmount)));
      if (session.identity.dialect === "v1" && session.stream.nextTimeoutAt < Number.POSITIVE_INFINITY) this.#scheduleFastSweep();
    }
  }

  /** v1 repeats within fractions of a second, so it is looked at more often; nobody else pays for that. */
  #scheduleFastSweep(): void {
    if (this.#isFastSweepScheduled || this.#isClosing) return;
    this.#isFastSweepScheduled = true;
    this.#environment.timers.after(this.#limits.fastSweepMs, () => {
      this.#isFastSweepScheduled = false;
      const now = this.#environment.clock.monotonic();
      for (const session of this.#registry.all())
        if (session.identity.dialect === "v1") {
          this.#runSessionStep(session, () => session.checkTimers(now));
          if (session.stream.nextTimeoutAt < Number.POSITIVE_INFINITY) this.#scheduleFastSweep();
        }
    });
  }

  #checkAllTimers(): void {
    const now = this.#environment.clock.monotonic();
    for (const peer of this.#sockets.values()) {
      this.#runGuarded(peer, () => peer.checkTimers(now));
      const { session } = peer.connection;
      if (session !== null && session.connection === peer.connection)
        this.#runSessionStep(session, () => session.checkTimers(now));
    }
    this.#registry.endExpired(now);
  }

  /** Credentials were revoked or rotated: everybody is looked at again, also those who wait for their worker. */
  #recheckCredentials(): void {
    for (const peer of this.#sockets.values()) this.#runGuarded(peer, () => peer.connection.recheckCredentials());
    for (const session of this.#registry.all()) this.#runSessionStep(session, () => session.recheckCredentials());
  }
}

/** Spreads repeats: a sequence that fills the unit evenly, so no chance is needed. */
function createJitterSequence(): () => number {
  let at = 0;
  return () => {
    at = (at + 0.6180339887498949) % 1;
    return at;
  };
}

const describeError = (problem: unknown): string =>
  problem instanceof Error ? (problem.stack ?? problem.message) : String(problem);
