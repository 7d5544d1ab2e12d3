// Where workers' sockets meet the engine: peers, sessions, time, and what is owed at the end of a tick. No transport: sockets come through
// peer-socket.ts. What a socket goes through is connection.ts, what is said in a session session.ts; what it means, the engine.

import type { Effect } from "@astraflow/engine";
import { compileFrameReaders, type Fault, fault } from "@astraflow/protocol";
import type { VolatileEvents } from "../events/volatile.ts";
import type { Gate } from "../gate.ts";
import type { Link } from "../link.ts";
import type { Metrics } from "../metrics.ts";
import type { Outside } from "../outside.ts";
import { Admission } from "./admission.ts";
import type { DispatchBinder } from "./dispatch-bindings.ts";
import { FrameCounters } from "./frame-counters.ts";
import { createFrameLog } from "./frame-log.ts";
import type { CompareKept } from "./kept-resources.ts";
import { type SessionLimits, sessionLimits } from "./limits.ts";
import { createMeters } from "./meters.ts";
import { Peer, type PeerHome } from "./peer.ts";
import type { PeerEars, PeerSocket } from "./peer-socket.ts";
import { RunNumbers } from "./run-numbers.ts";
import type { Session } from "./session.ts";
import { SessionBook } from "./session-book.ts";
import type { ExtensionEar, NoteManifests, Surroundings, TenantWindows } from "./surroundings.ts";
import { createStamp } from "./texts.ts";
import { createWireTap } from "./wire-tap.ts";

export interface SessionHallOptions {
  readonly link: Link;
  readonly gate: Gate;
  readonly outside: Outside;
  readonly metrics: Metrics;
  readonly limits?: Partial<SessionLimits>;
  /** What single tenants have of their own. */
  readonly tenants?: Readonly<Record<string, TenantWindows>>;
  /** Who takes vendors' frames of workers; without one they are refused. */
  readonly extensions?: ExtensionEar;
  /** Who keeps the manifests that workers bring; without one nobody does. */
  readonly noteManifests?: NoteManifests;
  /** Who finds the resources that packages ask for; without one tasks are sent without. */
  readonly binder?: DispatchBinder;
  /** Who finds what results have left with a worker; without one what it lost ends by its time to live. */
  readonly compareKept?: CompareKept;
  /** Where heartbeats and frames are told that stand in no log; without it they are not told. */
  readonly volatile?: VolatileEvents;
  /** This is the only scheduler on its store. */
  readonly isAlone?: boolean;
}

export interface SessionHall {
  /** Why nobody may come in at this moment; null when they may. Asked before `welcome`. */
  refusal(): Fault | null;
  /** Takes an open socket in; all that happens on it must be told to the ears. */
  welcome(socket: PeerSocket): PeerEars;
  /** Says goodbye to everyone; resolves when the last socket is gone. */
  close(): Promise<void>;
  readonly connections: number;
}

const goingAwayCode = 1001;

export function createSessionHall(options: SessionHallOptions): SessionHall {
  // Before any stranger arrives: the first frame must not pay for compiling validators.
  compileFrameReaders();
  return new Hall(options);
}

class Hall implements SessionHall, PeerHome {
  readonly around: Surroundings;
  readonly meters: Surroundings["meter"];
  readonly #outside: Outside;
  readonly #limits: SessionLimits;
  readonly #admission: Admission<Peer>;
  readonly #book: SessionBook;
  /** By connection, so that a session finds the socket it is on. */
  readonly #peers = new Map<unknown, Peer>();
  readonly #stops: (() => void)[];
  #owing = new Set<Session>();
  #isClosing = false;
  #isHasty = false;
  #allGone: (() => void) | null = null;

  constructor(options: SessionHallOptions) {
    const { link, outside, gate } = options;
    this.#outside = outside;
    this.#limits = { ...sessionLimits, ...options.limits };
    this.meters = createMeters(options.metrics, link);
    this.#book = new SessionBook(this.#limits);
    this.#admission = new Admission(this.#limits, outside);
    this.around = {
      gate,
      outside,
      frameLog: createFrameLog(outside),
      wireTap: options.volatile === undefined ? null : createWireTap(options.volatile),
      volatile: options.volatile ?? null,
      limits: this.#limits,
      stamp: createStamp(() => outside.clock.now()),
      meter: this.meters,
      book: this.#book,
      runNumbers: new RunNumbers(options.isAlone === true, outside.clock.now()),
      frameCounters: new FrameCounters(),
      extensions: options.extensions ?? null,
      noteManifests: options.noteManifests ?? null,
      tenants: options.tenants ?? {},
      roll: createRoll(),
      binder: options.binder ?? null,
      compareKept: options.compareKept ?? null,
      step: (session, step) => this.#step(session, step),
      post: (session, command, note) =>
        link.post(command, (body, why) => {
          if (note !== null) this.#step(session, () => session.answered(note, body, why));
        }),
    };
    this.#stops = [
      link.on("dispatch", (effect) => this.#reach(effect, (session) => session.hearDispatch(effect))),
      link.on("stop", (effect) => this.#reach(effect, (session) => session.hearStop(effect))),
      link.on("next", (effect) => this.#reach(effect, (session) => session.hearNext(effect))),
      link.on("order", (effect) => this.#reach(effect, (session) => session.hearOrder(effect))),
      link.on("tell", (effect) => this.#reach(effect, (session) => session.hearTell(effect))),
      link.on("reset", (effect) => this.#reach(effect, (session) => session.hearReset(effect))),
      link.on("drain", (effect) => this.#reach(effect, (session) => session.hearDrain(effect))),
      gate.onChange(() => this.#reconsider()),
      outside.timers.every(this.#limits.sweepMs, () => this.#sweep()),
    ];
  }

  get connections(): number {
    return this.#peers.size;
  }

  refusal(): Fault | null {
    if (this.#isClosing) return fault("E.SHUTTING_DOWN", "this scheduler is going away");
    if (this.#peers.size < this.#limits.connectionsMax && this.#admission.hasRoom()) return null;
    return fault("E.OVERLOADED", "too many connections; come back later");
  }

  welcome(socket: PeerSocket): PeerEars {
    const idler = this.#admission.makeRoom();
    if (idler !== null) {
      this.meters.reset("unknown", "E.OVERLOADED");
      idler.socket.terminate();
    }
    const peer = new Peer(socket, this);
    this.#peers.set(peer.connection, peer);
    this.#admission.enter(peer);
    return {
      message: (data, isBinary) => {
        this.#guard(peer, () => peer.hear(data, isBinary));
        this.#owe(peer.connection.session);
        peer.press();
      },
      ping: (data) => peer.answerPing(data),
      pong: () => peer.heard(),
      drained: () => this.#owe(peer.connection.session),
      weigh: (bytes) => peer.weigh(bytes),
      closed: (code) => this.#leave(peer, code),
    };
  }

  trusted(peer: Peer, tenant: string): boolean {
    return this.#admission.trust(peer, tenant);
  }

  pace(peer: Peer, tenant: string, run: () => boolean): void {
    this.#admission.pace(tenant, () => {
      let isUsed = true;
      this.#guard(peer, () => {
        isUsed = run();
      });
      this.#owe(peer.connection.session);
      peer.relieve();
      return isUsed;
    });
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    const gone = new Promise<void>((resolve) => {
      this.#allGone = resolve;
    });
    const end = this.#outside.clock.ticks() + this.#limits.closeMs;
    for (const peer of this.#peers.values()) {
      peer.closeBy = end;
      peer.socket.close(goingAwayCode, "going away");
    }
    const stopTimer = this.#outside.timers.after(this.#limits.closeMs, () => {
      for (const peer of this.#peers.values()) peer.socket.terminate();
    });
    if (this.#peers.size > 0) await gone;
    stopTimer();
    for (const stop of this.#stops) stop();
  }

  #leave(peer: Peer, code: number): void {
    this.#peers.delete(peer.connection);
    this.#admission.leave(peer, peer.tenant);
    peer.gone();
    this.#guard(peer, () => peer.connection.ended(`socket closed with ${code}`));
    if (this.#peers.size === 0) this.#allGone?.();
  }

  /** Runs one step on a socket. One that throws ends that socket and its session, never the process. */
  #guard(peer: Peer, step: () => void): void {
    try {
      step();
    } catch (problem) {
      const { session } = peer.connection;
      this.#report(session, problem);
      peer.socket.terminate();
      // Where its state is in doubt, nobody may go on with it.
      session?.end("a bug of this scheduler");
    }
  }

  /** The same for what a session hears from elsewhere than its socket. */
  #step(session: Session, step: () => void): void {
    const { line } = session;
    try {
      step();
    } catch (problem) {
      this.#report(session, problem);
      line?.terminate();
      session.end("a bug of this scheduler");
    }
    this.#owe(session);
    this.#peers.get(session.line)?.relieve();
  }

  #report(session: Session | null, problem: unknown): void {
    this.#outside.log({ level: "error", event: "session.bug", session: session?.id ?? null, problem: describeProblem(problem) });
  }

  #reach(effect: Extract<Effect, { session: string }>, step: (session: Session) => void): void {
    const session = this.#book.find(effect.session);
    // The session has gone meanwhile; its leave is on the way to the engine.
    if (session !== undefined) this.#step(session, () => step(session));
  }

  // Everything owed at the end of a tick leaves together: one ack for all that one turn of the engine answered.
  #owe(session: Session | null): void {
    if (session === null || session.line === null) return;
    if (this.#owing.size === 0) queueMicrotask(() => this.#flush());
    this.#owing.add(session);
  }

  #flush(): void {
    const due = this.#owing;
    this.#owing = new Set();
    for (const session of due) {
      const peer = this.#peers.get(session.line);
      if (peer === undefined) continue;
      const { socket } = peer;
      // All frames of one turn in one write: about a fifth less processor time per task than a write per frame.
      socket.together(() => this.#guard(peer, () => session.flush(this.#limits.socketBytesSoft - socket.bufferedAmount)));
      if (session.bound.dialect === "v1" && session.stream.nextDue < Number.POSITIVE_INFINITY) this.#hurry();
    }
  }

  /** v1 repeats within fractions of a second, so it is looked at more often; nobody else pays for that. */
  #hurry(): void {
    if (this.#isHasty || this.#isClosing) return;
    this.#isHasty = true;
    this.#outside.timers.after(this.#limits.hastySweepMs, () => {
      this.#isHasty = false;
      const now = this.#outside.clock.ticks();
      for (const session of this.#book.all())
        if (session.bound.dialect === "v1") {
          this.#step(session, () => session.tick(now));
          if (session.stream.nextDue < Number.POSITIVE_INFINITY) this.#hurry();
        }
    });
  }

  #sweep(): void {
    const now = this.#outside.clock.ticks();
    for (const peer of this.#peers.values()) {
      this.#guard(peer, () => peer.tick(now));
      const { session } = peer.connection;
      if (session !== null && session.line === peer.connection) this.#step(session, () => session.tick(now));
    }
    this.#book.sweep(now);
  }

  /** Credentials were revoked or rotated: everybody is looked at again, also those who wait for their worker. */
  #reconsider(): void {
    for (const peer of this.#peers.values()) this.#guard(peer, () => peer.connection.reconsider());
    for (const session of this.#book.all()) this.#step(session, () => session.reconsider());
  }
}

/** Spreads repeats: a sequence that fills the unit evenly, so no chance is needed. */
function createRoll(): () => number {
  let at = 0;
  return () => {
    at = (at + 0.6180339887498949) % 1;
    return at;
  };
}

const describeProblem = (problem: unknown): string =>
  problem instanceof Error ? (problem.stack ?? problem.message) : String(problem);
