// The worker's side of a session, as a machine driven by events: the socket's, the clock's, the executor's, the operator's.
// It keeps phase, heartbeats, lease and numbers; attempts and unacked words live in work.ts; sockets and timers stay outside.
// Windows that survive the socket (control.resume) will come here; until then every loss ends in a new handshake and register.

import {
  type Ack,
  type Dispatch,
  type Envelope,
  Fault,
  type JsonObject,
  type JsonValue,
  limits,
  prepareFrames,
  type Reset,
  readEnvelope,
  readFrame,
  readJson,
  readPayload,
  type SessionAccept,
} from "@astraflow/protocol";
import type { Attempt } from "./attempt.ts";
import type { FeedbackInput } from "./feedback.ts";
import { FrameWriter } from "./frame-writer.ts";
import { Inbox } from "./inbox.ts";
import { Lease } from "./lease.ts";
import type { LinkIdentity, LinkNote, LinkOffer, LinkPorts, LinkSettings, LinkView } from "./link-ports.ts";
import { linkFeatures, linkPayloadTypes } from "./link-ports.ts";
import type { KeptWord } from "./outbox-journal.ts";
import type { Keeping } from "./outbox-keeper.ts";
import type { Outcome } from "./outcome.ts";
import { backoffMs, isInSession, type LinkMove, type LinkPhase, stepPhase } from "./phase.ts";
import { Work } from "./work.ts";

const never = Number.POSITIVE_INFINITY;
/** A batch nests its items two levels deeper than they would travel alone. */
const frameBounds = { ...limits.json.frame, depthMax: limits.json.frame.depthMax + 2 };

export interface LinkParts {
  readonly ports: LinkPorts;
  readonly identity: LinkIdentity;
  readonly offer: () => LinkOffer;
  readonly settings: LinkSettings;
  /** Results are on disk before they are sent; absent: they are kept in memory only. */
  readonly keeping?: Keeping | null;
}

export class Link {
  readonly #ports: LinkPorts;
  readonly #identity: LinkIdentity;
  readonly #offer: () => LinkOffer;
  readonly #settings: LinkSettings;
  readonly #keeping: Keeping | null;
  readonly #writer: FrameWriter;
  readonly #work: Work;
  readonly #lease: Lease;
  readonly #inbox: Inbox;

  #phase: LinkPhase = "NEW";
  #isLeaving = false;
  #hasSaidDrained = false;
  /** Sessions in a row that failed before they proved themselves. */
  #failures = 0;
  /** Id of the handshake or register whose ack is awaited. */
  #awaited = "";
  /** Id of the heartbeat that says goodbye. Until it is answered more work may be on its way here. */
  #farewell = "";
  #registeredAt = 0;
  #readyAt = never;
  #heartbeatMs: number;

  /** Instants at which something is due; `never` while it is not. */
  #phaseEndsAt = never;
  #beatAt = never;
  #retryAt = never;
  #armedAt = never;

  #isFlushAsked = false;

  constructor(given: LinkParts) {
    const { ports, identity, offer, settings, keeping = null } = given;
    this.#ports = ports;
    this.#identity = identity;
    this.#offer = offer;
    this.#settings = settings;
    this.#keeping = keeping;
    this.#heartbeatMs = settings.heartbeatMs;
    this.#inbox = new Inbox(settings.windowDefault);
    this.#writer = new FrameWriter(ports, identity);
    this.#lease = new Lease(settings.lease);
    this.#work = new Work(
      {
        now: () => ports.now(),
        start: (attempt) => ports.start(attempt),
        nextId: () => this.#writer.nextId(),
        keeping,
        askFlush: () => this.#askFlush(),
        note: (level, event, message, details) => this.#note(level, event, message, details),
      },
      { table: { ...settings.table, slotsMax: offer().maxParallel }, outbox: settings.outbox },
    );
  }

  get view(): LinkView {
    return { phase: this.#phase, ...this.#work.counts };
  }

  // ---- the operator

  begin(): void {
    prepareFrames();
    this.#dial();
  }

  /** Before `begin`: what an earlier process has left on disk, oldest first. */
  recall(left: readonly KeptWord[]): void {
    this.#work.recall(left);
  }

  /** Takes no new work, finishes what it holds, then closes for good. */
  leave(): void {
    if (this.#isLeaving || this.#phase === "CLOSED") return;
    this.#isLeaving = true;
    this.#move("drain");
    if (isInSession(this.#phase)) this.#farewell = this.#beat(this.#ports.now());
    this.#closeIfDone();
    this.#arm();
  }

  /** Ends now: what still runs is given back to the scheduler. */
  stop(): void {
    if (this.#phase === "CLOSED") return;
    this.#work.giveBackUnfinished("the worker was stopped before the task ended");
    this.flush();
    this.#close("stopped");
  }

  // ---- the socket

  opened(): void {
    if (!this.#move("open")) return;
    const { auth, name, instance, version, hostname } = this.#identity;
    const worker = { worker_name: name, worker_instance_id: instance, version, hostname };
    this.#awaited = this.#writer.control("control.handshake", { protocol: 2, auth, worker }, { ackRequest: true });
    this.#phaseEndsAt = this.#ports.now() + this.#settings.handshakeWaitMs;
    this.#arm();
  }

  lost(reason: string): void {
    this.#lose({ event: "lost", reason });
  }

  /** One text message of the scheduler. */
  received(text: string): void {
    if (this.#phase === "CLOSED" || this.#phase === "BACKOFF" || this.#phase === "NEW") return;
    this.#fenceSelfIfDue(this.#ports.now());
    const value = readJson(text, frameBounds);
    const envelope = value instanceof Fault ? value : readEnvelope(value, "v2");
    if (envelope instanceof Fault) this.#hangUp(1002, `the scheduler sent a frame that cannot be read: ${envelope.message}`);
    else if (envelope.type.startsWith("control.")) this.#takeControl(envelope);
    else this.#takeNumbered(envelope);
    this.#arm();
  }

  // ---- the executor

  finished(attempt: Attempt, outcome: Outcome): void {
    this.#fenceSelfIfDue(this.#ports.now());
    this.#work.finished(attempt, outcome);
  }

  settled(attempt: Attempt): void {
    this.#work.settled(attempt);
    this.#closeIfDone();
  }

  feedback(attempt: Attempt, input: FeedbackInput): void {
    this.#work.feedback(attempt, input);
  }

  // ---- the disk

  /** The disk fails, or works again: the scheduler hears of it at once, so that it sends work only to those who can keep its results. */
  healthChanged(): void {
    if (!isInSession(this.#phase)) return;
    this.#beat(this.#ports.now());
    this.#arm();
  }

  // ---- the clock

  /** Does all that is due, and asks for the next call. */
  tick(): void {
    const now = this.#ports.now();
    this.#armedAt = never;
    this.#fenceSelfIfDue(now);
    this.#work.expireWaiting(now);
    if (this.#phaseEndsAt <= now) this.#hangUp(1002, `no answer from the scheduler while ${this.#phase}`);
    else if (this.#retryAt <= now && this.#move("retry")) this.#dial();
    else if (this.#beatAt <= now) {
      if (this.#lease.isSilent) this.#hangUp(1001, "the scheduler leaves heartbeats unanswered");
      else this.#beat(now);
    }
    this.#arm();
  }

  /** Sends what one tick has gathered: one ack for all that came, then the words that may travel. */
  flush(): void {
    this.#isFlushAsked = false;
    if (!isInSession(this.#phase)) return;
    if (this.#inbox.isOwing) {
      const ack = this.#inbox.takeAck();
      this.#writer.control("control.ack", ack, { ackFor: ack.for });
    }
    this.#work.pump((words, number) => this.#writer.words(words, number));
  }

  // ---- phases

  /** The only place that changes the phase. */
  #move(move: LinkMove): boolean {
    const next = stepPhase(this.#phase, move);
    if (next === undefined) return false;
    this.#note("debug", "phase", `${this.#phase} -> ${next}`, { from: this.#phase, to: next, move });
    this.#phase = next;
    this.#phaseEndsAt = never;
    this.#retryAt = never;
    if (!isInSession(next)) this.#beatAt = never;
    return true;
  }

  #dial(): void {
    this.#phaseEndsAt = this.#ports.now() + this.#settings.handshakeWaitMs;
    this.#ports.dial();
    this.#arm();
  }

  #register(): void {
    if (!this.#move("welcome")) return;
    const offer = this.#offer();
    const concurrency = { max_parallel: offer.maxParallel, per_node_limits: offer.perNodeLimits };
    const features = [...new Set([...linkFeatures, ...offer.features])];
    this.#registeredAt = this.#ports.now();
    this.#awaited = this.#writer.control(
      "control.register",
      {
        capabilities: { concurrency, runtimes: offer.runtimes, features, pool: offer.pool, tags: offer.tags },
        payload_types: linkPayloadTypes,
        packages: offer.packages,
        manifests: offer.manifests,
        boot_id: this.#identity.boot,
        running: this.#work.held(),
      },
      { ackRequest: true },
    );
    this.#phaseEndsAt = this.#registeredAt + this.#settings.acceptWaitMs;
  }

  #accept(accept: SessionAccept): void {
    const { instance } = this.#identity;
    if (accept.worker_instance_id !== undefined && accept.worker_instance_id !== instance) {
      this.#hangUp(1002, `the scheduler accepted ${accept.worker_instance_id}, but this worker is ${instance}`);
      return;
    }
    if (!this.#move("accept")) return;
    const now = this.#ports.now();
    this.#readyAt = now;
    this.#inbox.reopen(accept.send_window ?? this.#settings.windowDefault);
    const batchMax = accept.features?.includes("batch") ? limits.batchItemsMax : 1;
    this.#work.rewind(accept.recv_window ?? this.#settings.windowDefault, batchMax);
    this.#heartbeatMs = accept.heartbeat_interval_ms ?? this.#settings.heartbeatMs;
    this.#lease.grant(accept.lease_ms, this.#registeredAt);
    this.#beatAt = now + this.#heartbeatMs;
    this.#hasSaidDrained = false;
    this.#note("info", "ready", `session ${accept.session_id} is open`, { session: accept.session_id, ...this.#work.counts });
    if (this.#isLeaving && this.#move("drain")) this.#farewell = this.#beat(now);
    else if (!this.#isHealthy) this.#beat(now);
    this.#askFlush();
    this.#closeIfDone();
  }

  #obeyReset(reset: Reset): void {
    if (reset.code.startsWith("E.FRAME.")) this.#work.distrust(reset);
    const pauseMs = reset.retry_after_ms ?? (reset.code === "E.SESSION.SUPERSEDED" ? this.#settings.supersededMs : 0);
    const event = isInSession(this.#phase) ? "reset" : "refused";
    this.#ports.hangUp(1000, "reset");
    this.#lose({ event, reason: reset.reason, code: reset.code, pauseMs });
  }

  #hangUp(code: number, reason: string): void {
    this.#ports.hangUp(code, reason);
    this.#lose({ event: "lost", reason });
  }

  #lose(loss: { event: "lost" | "reset" | "refused"; reason: string; code?: string; pauseMs?: number }): void {
    if (!this.#move("lose")) return;
    const now = this.#ports.now();
    if (now - this.#readyAt >= this.#settings.provenMs) this.#failures = 0;
    this.#readyAt = never;
    this.#farewell = "";
    this.#lease.forgetAsked();
    const delayMs = Math.max(loss.pauseMs ?? 0, backoffMs(this.#settings.backoff, this.#failures, this.#ports.roll()));
    this.#failures++;
    this.#retryAt = now + delayMs;
    const { event, reason, code } = loss;
    const details = { ...this.#work.counts, retryInMs: Math.round(delayMs), ...(code !== undefined && { code }) };
    this.#note("warn", event, reason, details);
    this.#closeIfDone();
    this.#arm();
  }

  /** A worker that leaves is done once nothing is held and nothing is left to say; one that drains says that it is done, and stays. */
  #closeIfDone(): void {
    if (!this.#work.isDone) return;
    if (this.#isLeaving) {
      if (this.#farewell === "") this.#close("left");
    } else if (this.#phase === "DRAINING" && !this.#hasSaidDrained) {
      this.#hasSaidDrained = true;
      this.#note("info", "drained", "all that was held is finished and acked");
      this.#beat(this.#ports.now());
    }
  }

  #close(reason: string): void {
    if (!this.#move("stop")) return;
    this.#ports.hangUp(1000, reason);
    this.#note("info", "closed", reason);
  }

  /** Near the end of the lease the scheduler may grant these tasks to others; from here on they must not be touched. */
  #fenceSelfIfDue(now: number): void {
    if (now < this.#lease.fenceAt) return;
    this.#lease.expire();
    const lost = this.#work.dropUnfinished("the worker's lease ran out");
    if (lost > 0)
      this.#note("error", "self-fenced", `the lease ran out without an answer; ${lost} attempts were dropped`, { lost });
    // Only a new register brings a new lease.
    if (isInSession(this.#phase)) this.#hangUp(1001, "the lease ran out without an answer");
  }

  // ---- frames that come in

  #takeControl(envelope: Envelope): void {
    const frame = readFrame("v2", envelope);
    if (frame instanceof Fault) {
      // A type of frame from a newer scheduler is no reason to part; a known one that is malformed is.
      if (frame.code === "E.CMD.UNKNOWN") this.#ignore(envelope, frame.message);
      else this.#hangUp(1002, frame.message);
      return;
    }
    switch (frame.type) {
      case "control.ack":
        this.#takeAck(frame.payload, envelope);
        return;
      case "control.session.accept":
        this.#accept(frame.payload);
        return;
      case "control.reset":
        this.#obeyReset(frame.payload);
        return;
      case "control.drain":
        if (envelope.ack?.request) this.#writer.control("control.ack", { ok: true, for: envelope.id }, { ackFor: envelope.id });
        if (this.#move("drain")) this.#closeIfDone();
        return;
      default:
        this.#ignore(envelope, `${frame.type} is not for workers`);
    }
  }

  #takeAck(ack: Ack, envelope: Envelope): void {
    const id = ack.for ?? envelope.ack?.for;
    if (id !== undefined && id === this.#awaited) {
      this.#awaited = "";
      if (ack.ok === false) this.#hangUp(1002, ack.info ?? "the scheduler refused");
      else if (this.#phase === "HANDSHAKING") this.#register();
      return;
    }
    if (id !== undefined) this.#lease.answer(id);
    if (id === this.#farewell) this.#farewell = "";
    if (isInSession(this.#phase) && this.#work.acked(ack)) this.#askFlush();
    this.#closeIfDone();
  }

  /** Frames of work come in order on a live socket: a repeat is acked again, a hole means that one of us has lost count. */
  #takeNumbered(envelope: Envelope): void {
    if (!isInSession(this.#phase)) return this.#ignore(envelope, `${envelope.type} came before the session was accepted`);
    const arrival = this.#inbox.arrive(envelope);
    if (arrival === "gap") return this.#hangUp(1002, `frame ${this.#inbox.expected} is missing: ${envelope.seq} came instead`);
    if (this.#inbox.isOwing) this.#askFlush();
    if (arrival === "repeat") return;

    const frame = readFrame("v2", envelope);
    if (frame instanceof Fault) this.#takeUnread(envelope, frame);
    else if (frame.type === "biz.exec.dispatch") this.#takeDispatch(frame.payload);
    else if (frame.type === "biz.exec.dispatch.batch") for (const item of frame.payload.items) this.#takeDispatch(item);
    else if (frame.type === "biz.exec.cancel") {
      this.#work.cancel(frame.payload);
      this.#closeIfDone();
    } else this.#ignore(envelope, `${envelope.type} is not handled by this worker`);
  }

  #takeDispatch(dispatch: Dispatch): void {
    if (this.#phase === "DRAINING") this.#work.turnAway(dispatch, "the worker is draining and takes no new work");
    else if (!this.#isHealthy) this.#work.turnAway(dispatch, "the worker cannot write results to its disk and takes no new work");
    else this.#work.takeDispatch(dispatch);
  }

  /** Whoever can be named is told; in a batch one bad item must not take the others with it. */
  #takeUnread(envelope: Envelope, problem: Fault): void {
    const { items } = envelope.payload;
    if (envelope.type === "biz.exec.dispatch.batch" && Array.isArray(items)) {
      for (const item of items) {
        const dispatch = readPayload("v2", "biz.exec.dispatch", item);
        if (!(dispatch instanceof Fault)) this.#takeDispatch(dispatch);
        else if (!this.#work.refuseUnread(asObject(item), dispatch)) this.#ignore(envelope, dispatch.message);
      }
    } else if (envelope.type !== "biz.exec.dispatch" || !this.#work.refuseUnread(envelope.payload, problem))
      this.#ignore(envelope, problem.message);
  }

  /** Never fatal: what is numbered is acked with its number, what asked by id is told. */
  #ignore(envelope: Envelope, message: string): void {
    this.#note("warn", "frame-ignored", message, { type: envelope.type, id: envelope.id });
    if (envelope.seq !== undefined || !envelope.ack?.request) return;
    this.#writer.control("control.ack", { ok: false, for: envelope.id, info: message }, { ackFor: envelope.id });
  }

  // ---- frames that go out

  #beat(now: number): string {
    const { occupied, unacked } = this.#work.counts;
    const metrics = { ...this.#ports.vitals(), inflight: occupied, unacked };
    const draining = this.#phase === "DRAINING" ? { draining: true } : {};
    const payload = { healthy: !this.#isLeaving && this.#isHealthy, metrics, held: this.#work.held(), ...draining };
    const id = this.#writer.control("control.heartbeat", payload, { ackRequest: true });
    this.#lease.ask(id, now);
    this.#beatAt = now + this.#heartbeatMs;
    return id;
  }

  get #isHealthy(): boolean {
    return this.#keeping === null || this.#keeping.isHealthy;
  }

  #askFlush(): void {
    if (this.#isFlushAsked) return;
    this.#isFlushAsked = true;
    this.#ports.soon();
  }

  /** Asks for a tick when the earliest due instant has come nearer; a tick that comes too early only asks again. */
  #arm(): void {
    if (this.#phase === "CLOSED") return;
    const at = Math.min(this.#phaseEndsAt, this.#beatAt, this.#retryAt, this.#lease.fenceAt, this.#work.waitEndsAt);
    if (at >= this.#armedAt) return;
    this.#armedAt = at;
    this.#ports.wake(at);
  }

  #note(level: LinkNote["level"], event: LinkNote["event"], message: string, details?: LinkNote["details"]): void {
    this.#ports.note(details === undefined ? { level, event, message } : { level, event, message, details });
  }
}

const asObject = (value: JsonValue): JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
