// How a link comes to a session and loses it: phases, dialling and its pauses, greeting, accept, resume, reset. What is said within a
// session, and when a worker leaves for good, is link.ts.

import type { AckPayload, ResetPayload, SessionAcceptPayload } from "@astraflow/protocol";
import type { Greeting } from "./link-greeting.ts";
import type { DialHint, LinkNote, LinkPorts, LinkSettings } from "./link-ports.ts";
import type { Pulse } from "./link-pulse.ts";
import { LinkSession, type SessionParts } from "./link-session.ts";
import { backoffMs, isInSession, type LinkMove, type LinkPhase, stepPhase } from "./phase.ts";
import type { Work } from "./work.ts";

const never = Number.POSITIVE_INFINITY;
/** Another process has this identity. */
const rivalCodes: ReadonlySet<string> = new Set(["E.SESSION.SUPERSEDED", "E.SESSION.DENIED"]);

export interface CourseParts {
  readonly ports: LinkPorts;
  readonly settings: LinkSettings;
  readonly instance: string;
  readonly greeting: Greeting;
  readonly pulse: Pulse;
  readonly work: Work;
  readonly session: SessionParts;
  /** Whether the worker is on its way out, and takes no new work in any session. */
  isLeaving(): boolean;
  /** A session is there, new or resumed. */
  arrived(): void;
  /** The socket is gone; a new one will be dialled unless somebody closes the link. */
  departed(): void;
  note(level: LinkNote["level"], event: LinkNote["event"], message: string, details?: LinkNote["details"]): void;
}

interface Loss {
  readonly event: "lost" | "reset" | "refused";
  readonly reason: string;
  readonly code?: string;
  readonly pauseMs?: number;
  /** Where a session that can go on is asked for first. */
  readonly hint?: DialHint;
  /** Whoever refused a resume is alive: it is no failure, and a new session is asked for there, at once. */
  readonly isRefusedResume?: boolean;
}

export class Course {
  readonly #parts: CourseParts;
  #phase: LinkPhase = "NEW";
  #session: LinkSession | null = null;
  /** Dials in a row that led to nothing that proved itself. */
  #failures = 0;
  #hint: DialHint = "next";
  #readyAt = never;
  /** When waiting for the other end is over, and when the pause before the next dial is. */
  #phaseEndsAt = never;
  #retryAt = never;

  constructor(parts: CourseParts) {
    this.#parts = parts;
  }

  get phase(): LinkPhase {
    return this.#phase;
  }

  /** The session that was accepted and not ended since. Without a socket it waits to be resumed. */
  get session(): LinkSession | null {
    return this.#session;
  }

  /** The session, where frames of work may travel in it now. */
  get openSession(): LinkSession | null {
    return isInSession(this.#phase) ? this.#session : null;
  }

  get isResuming(): boolean {
    return this.#phase === "HANDSHAKING" && this.#session !== null;
  }

  get nextAt(): number {
    return Math.min(this.#phaseEndsAt, this.#retryAt, this.#session?.nextDue ?? never);
  }

  /** The only place that changes the phase. */
  move(move: LinkMove): boolean {
    const next = stepPhase(this.#phase, move);
    if (next === undefined) return false;
    this.#parts.note("debug", "phase", `${this.#phase} -> ${next}`, { from: this.#phase, to: next, move });
    this.#phase = next;
    this.#phaseEndsAt = never;
    this.#retryAt = never;
    return true;
  }

  dial(): void {
    const { ports, settings } = this.#parts;
    this.#phaseEndsAt = ports.now() + settings.handshakeWaitMs;
    ports.dial(this.#hint);
  }

  opened(): void {
    if (!this.move("open")) return;
    const { greeting, settings } = this.#parts;
    if (this.#session === null) greeting.handshake();
    else greeting.resume(this.#session);
    this.#phaseEndsAt = greeting.askedAt + (this.#session === null ? settings.handshakeWaitMs : settings.acceptWaitMs);
  }

  /** Does what is due; true if anything was. */
  tick(now: number): boolean {
    if (this.#phaseEndsAt <= now) {
      const reason = `no answer from the scheduler while ${this.#phase}`;
      if (this.isResuming) this.endSession(1002, reason);
      else this.hangUp(1002, reason);
    } else if (this.#retryAt <= now && this.move("retry")) this.dial();
    else return false;
    return true;
  }

  /** An ack outside a session: of a handshake, a register or a resume. What must follow to the latter two is the accept. */
  takeVerdict(ack: AckPayload): void {
    const { greeting, pulse, work, settings } = this.#parts;
    if (ack.ok === false) this.endSession(1002, ack.info ?? "the scheduler refused");
    else if (this.isResuming) greeting.resumeAck = ack;
    else if (this.move("welcome")) {
      pulse.registered(greeting.register(work.held()));
      this.#phaseEndsAt = greeting.askedAt + settings.acceptWaitMs;
    }
  }

  /** Null: taken. Else why it means nothing here. */
  takeAccept(accept: SessionAcceptPayload): string | null {
    const { session_id: id, worker_instance_id: instance = this.#parts.instance } = accept;
    const session = this.#session;
    if (instance !== this.#parts.instance)
      this.endSession(1002, `the scheduler accepted ${instance}, but this worker is ${this.#parts.instance}`);
    else if (this.#phase === "REGISTERED") this.#open(accept);
    else if (session === null) return "an accept came before the register";
    else if (this.#phase === "HANDSHAKING") this.#resume(session, accept);
    // Within a session an accept renews its token.
    else if (id === session.id) session.token = accept.session_token;
    else return `an accept of session ${id} came in session ${session.id}`;
    return null;
  }

  obeyReset({ code, reason, retry_after_ms }: ResetPayload): void {
    const { ports, settings, work } = this.#parts;
    const isRefusedResume = this.isResuming;
    const event = isInSession(this.#phase) || isRefusedResume ? "reset" : "refused";
    if (isInSession(this.#phase) && code.startsWith("E.FRAME.")) work.distrust({ code, reason });
    this.forget();
    ports.hangUp(1000, "reset");
    // Two processes with one identity must not throw each other out in a loop.
    const pauseMs = retry_after_ms ?? (rivalCodes.has(code) ? settings.supersededMs : 0);
    this.#lose({ event, reason, code, pauseMs, isRefusedResume });
  }

  /** The two ends do not mean the same session any more. */
  disagree(): void {
    this.endSession(1002, "the scheduler acked what was never sent, or forgot what it had acked");
  }

  /** Nothing of the session can go on but what it did not deliver: that goes into the next. */
  endSession(code: number, reason: string): void {
    this.forget();
    this.hangUp(code, reason);
  }

  forget(): void {
    if (this.#session !== null) this.#parts.work.detach();
    this.#session = null;
  }

  /** The session, if there still is one, will be resumed, where it was or elsewhere. */
  hangUp(code: number, reason: string, hint: DialHint = "same"): void {
    this.#parts.ports.hangUp(code, reason);
    this.lost(reason, hint);
  }

  lost(reason: string, hint: DialHint): void {
    this.#lose({ event: "lost", reason, hint });
  }

  #open(accept: SessionAcceptPayload): void {
    const { pulse, greeting, work, note, isLeaving } = this.#parts;
    this.move("accept");
    this.#session = new LinkSession(accept, this.#parts.session);
    pulse.begin(accept, greeting.askedAt);
    note("info", "ready", `session ${accept.session_id} is open`, { session: accept.session_id, ...work.counts });
    if (isLeaving()) this.move("drain");
    this.#arrive();
  }

  /** The session goes on over a new socket. Nothing is registered again: what both ends hold is what it was. */
  #resume(session: LinkSession, accept: SessionAcceptPayload): void {
    const { pulse, greeting, work, note, isLeaving } = this.#parts;
    if (accept.resumed !== true || accept.session_id !== session.id)
      return this.endSession(1000, "the scheduler opened another session instead of resuming the old one");
    const again = session.resume(greeting.resumeAck);
    if (again === null) return this.disagree();
    this.move(isLeaving() ? "resumeDraining" : "resume");
    session.token = accept.session_token;
    pulse.goOn(accept, greeting.askedAt);
    note("info", "resumed", `session ${session.id} goes on`, { session: session.id, again: again.length, ...work.counts });
    session.send(again);
    this.#arrive();
  }

  #arrive(): void {
    this.#readyAt = this.#parts.ports.now();
    this.#parts.arrived();
  }

  #lose({ event, reason, code, pauseMs = 0, hint = "next", isRefusedResume = false }: Loss): void {
    const { ports, settings, greeting, pulse, work, note, departed } = this.#parts;
    const isSessionKept = this.openSession !== null;
    if (!this.move("lose")) return;
    const now = ports.now();
    if (now - this.#readyAt >= settings.provenMs) this.#failures = 0;
    this.#readyAt = never;
    greeting.forget();
    pulse.pause();
    this.#session?.pause();
    this.#hint = isRefusedResume ? "same" : isSessionKept ? hint : "next";
    const backoff = isRefusedResume ? 0 : backoffMs(settings.backoff, this.#failures++, ports.roll());
    const delayMs = Math.max(pauseMs, backoff);
    this.#retryAt = now + delayMs;
    const details = { ...work.counts, retryInMs: Math.round(delayMs), ...(code !== undefined && { code }) };
    note(isRefusedResume ? "info" : "warn", event, reason, details);
    departed();
  }
}
