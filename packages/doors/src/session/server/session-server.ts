// Accepts worker sockets, routes engine effects to sessions, flushes sessions once per tick and checks timers. Transport-free.

import { compileFrameReaders, type Fault, fault } from "@astraflow/protocol";
import type { MetricsRegistry } from "../../environment/metrics-registry.ts";
import { LargeFrameQueue } from "../connection/large-frames.ts";
import { SessionConnection } from "../connection/session-connection.ts";
import { type SessionLimits, sessionLimits } from "../connection/session-limits.ts";
import { createSessionMetrics } from "../connection/session-metrics.ts";
import type { WorkerSocket, WorkerSocketEvents } from "../connection/worker-socket.ts";
import { FrameTrace } from "../frames/frame-trace.ts";
import { createTimestamp } from "../frames/frame-writer.ts";
import { RestartDetector, RunSequence } from "../frames/older-dialects.ts";
import { subscribeToEffects } from "../lifecycle/engine-effects.ts";
import type { SessionServices } from "../lifecycle/session-context.ts";
import { SessionRegistry } from "../lifecycle/session-registry.ts";
import { AdmissionControl, tooManyConnectionsFault } from "./admission-control.ts";
import { type JoinContext, JoinHandshake } from "./join-handshake.ts";

export interface SessionServerOptions extends SessionServices {
  readonly metrics: MetricsRegistry;
  readonly limits?: Partial<SessionLimits>;
  /** This is the only scheduler on its store. */
  readonly isAlone?: boolean;
}

const goldenRatio = 0.6180339887498949;

export class SessionServer {
  readonly #context: JoinContext;
  readonly #connections = new Set<SessionConnection>();
  readonly #unsubscribers: (() => void)[];
  #flushQueue = new Set<{ flush(): void }>();
  #jitterCount = 0;
  #isClosing = false;
  #isFastSweepScheduled = false;
  #onAllClosed: (() => void) | null = null;

  constructor(options: SessionServerOptions) {
    // Before the first socket: no frame should pay for compiling validators.
    compileFrameReaders();
    const { engineClient, environment, authenticator, volatile = null } = options;
    const limits = { ...sessionLimits, ...options.limits };
    const registry = new SessionRegistry(limits);
    this.#context = {
      ...options,
      // Where neither debug lines are written nor anybody can watch, a frame costs nothing.
      frameTrace: environment.isDebug === true || volatile !== null ? new FrameTrace(environment, volatile) : null,
      largeFrames:
        environment.yieldLoop === undefined ? null : new LargeFrameQueue(environment.yieldLoop, limits.largeFramesBytesMax),
      limits,
      timestamp: createTimestamp(() => environment.clock.now()),
      metrics: createSessionMetrics(options.metrics, engineClient),
      registry,
      admission: new AdmissionControl(limits, environment),
      runSequence: new RunSequence(options.isAlone === true, environment.clock.now()),
      restartDetector: new RestartDetector(),
      // Spreads resends without randomness: multiples of the golden ratio fill the interval evenly.
      jitter: () => (++this.#jitterCount * goldenRatio) % 1,
      scheduleFlush: (session) => this.#scheduleFlush(session),
      scheduleFastSweep: () => this.#scheduleFastSweep(),
    };
    this.#unsubscribers = [
      ...subscribeToEffects(engineClient, registry),
      authenticator.onChange(() => this.#recheckCredentials()),
      environment.timers.every(limits.sweepMs, () => this.#checkAllTimers()),
    ];
  }

  get connections(): number {
    return this.#connections.size;
  }

  /** Why no socket can be accepted at this moment; null when one can. To be asked before `acceptSocket`. */
  refusalReason(address: string): Fault | null {
    const { limits, admission } = this.#context;
    if (this.#isClosing) return fault("E.SHUTTING_DOWN", "this scheduler is shutting down");
    return this.#connections.size < limits.connectionsMax ? admission.capacityFault(address) : tooManyConnectionsFault();
  }

  /** Takes over an open socket, whose events have to be reported to the returned object. */
  acceptSocket(socket: WorkerSocket): WorkerSocketEvents {
    const { admission, metrics } = this.#context;
    const evicted = admission.evictIdle();
    if (evicted !== null) {
      metrics.reset("unknown", "E.OVERLOADED");
      evicted.terminate();
    }
    const connection = new SessionConnection(
      socket,
      this.#context,
      (created) => new JoinHandshake(created, this.#context),
      (closed) => this.#removeConnection(closed),
    );
    this.#connections.add(connection);
    admission.add(connection);
    return connection;
  }

  #removeConnection(connection: SessionConnection): void {
    this.#connections.delete(connection);
    this.#context.admission.remove(connection, connection.tenant);
    if (this.#connections.size === 0) this.#onAllClosed?.();
  }

  /** Closes all connections; resolves when the last socket is gone. */
  async close(): Promise<void> {
    const { environment, limits } = this.#context;
    this.#isClosing = true;
    const allClosed = new Promise<void>((resolve) => {
      this.#onAllClosed = resolve;
    });
    const deadline = environment.clock.monotonic() + limits.closeMs;
    for (const connection of this.#connections) connection.goAway(deadline);
    const stopTimer = environment.timers.after(limits.closeMs, () => {
      for (const connection of this.#connections) connection.terminate();
    });
    if (this.#connections.size > 0) await allClosed;
    stopTimer();
    for (const unsubscribe of this.#unsubscribers) unsubscribe();
  }

  // Everything owed at the end of a tick leaves together: one ack for all that one turn of the engine answered.
  #scheduleFlush(session: { flush(): void }): void {
    if (this.#flushQueue.size === 0) queueMicrotask(() => this.#flushQueued());
    this.#flushQueue.add(session);
  }

  #flushQueued(): void {
    const sessions = this.#flushQueue;
    this.#flushQueue = new Set();
    for (const session of sessions) session.flush();
  }

  /** v1 resends within fractions of a second, so its timers are checked more often; other sessions cost nothing here. */
  #scheduleFastSweep(): void {
    if (this.#isFastSweepScheduled || this.#isClosing) return;
    this.#isFastSweepScheduled = true;
    const { environment, limits, registry } = this.#context;
    environment.timers.after(limits.fastSweepMs, () => {
      this.#isFastSweepScheduled = false;
      const now = environment.clock.monotonic();
      for (const session of registry.all())
        if (session.identity.dialect === "v1") {
          session.run(() => session.checkStreamTimers(now));
          if (session.stream.nextTimeoutAt < Number.POSITIVE_INFINITY) this.#scheduleFastSweep();
        }
    });
  }

  #checkAllTimers(): void {
    const now = this.#context.environment.clock.monotonic();
    for (const connection of this.#connections) connection.checkTimers(now);
    this.#context.registry.endExpired(now);
    this.#context.registry.limitHeldBytes();
  }

  /** Credentials were revoked or rotated: all sessions are checked again, the detached ones too. */
  #recheckCredentials(): void {
    for (const connection of this.#connections) connection.recheckCredentials();
    for (const session of this.#context.registry.all()) session.run(() => session.recheckCredentials());
  }
}
