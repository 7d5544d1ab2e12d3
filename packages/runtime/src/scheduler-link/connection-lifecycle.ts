// How a link gets a session and loses it: phases, dialling and its pauses, handshake, accept, resume, reset.

import { type AckPayload, type HeldTaskRef, limits, type ResetPayload, type SessionAcceptPayload } from "@astraflow/protocol";
import type { AttemptManager } from "./attempt-manager.ts";
import type { Heartbeats } from "./heartbeats.ts";
import type { LinkContext } from "./link-context.ts";
import { computeBackoffMs, isInSession, type LinkPhase, type LinkTransition, nextPhase } from "./link-phase.ts";
import {
  linkFeatures,
  linkPayloadTypes,
  packageFeature,
  packagePayloadTypes,
  type WorkerCapabilities,
  type WorkerIdentity,
} from "./link-ports.ts";
import { SchedulerSession } from "./scheduler-session.ts";
import { SessionKey } from "./session-key.ts";
import type { DialTarget } from "./websocket-dialer.ts";
import type { WorkFrameDispatcher } from "./work-frame-dispatcher.ts";

const noDeadline = Number.POSITIVE_INFINITY;
const identityTakenCodes: ReadonlySet<string> = new Set(["E.SESSION.SUPERSEDED", "E.SESSION.DENIED"]);

export interface ConnectionLifecycleParts {
  readonly attempts: AttemptManager;
  readonly heartbeats: Heartbeats;
  readonly dispatcher: WorkFrameDispatcher;
  /** Whether the worker is leaving, and takes no new work in any session. */
  isLeaving(): boolean;
  sessionReady(): void;
  /** The socket is gone; a new one will be dialled unless the link is closed. */
  disconnected(): void;
}

interface ConnectionLoss {
  readonly event: "lost" | "reset" | "refused";
  readonly reason: string;
  readonly code?: string;
  readonly delayMs?: number;
  readonly level?: "info" | "warn";
  /** Where a session that can go on is asked for first. */
  readonly dialTarget?: DialTarget;
  /** Whoever refused a resume is alive: it is no failure, and a new session is asked for there, at once. */
  readonly isRefusedResume?: boolean;
}

export class ConnectionLifecycle {
  readonly #context: LinkContext;
  readonly #parts: ConnectionLifecycleParts;
  #phase: LinkPhase = "NEW";
  #session: SchedulerSession | null = null;
  /** Of the last handshake. */
  #sessionKey: SessionKey | null = null;
  /** Dials in a row that led to nothing that proved itself. */
  #failureCount = 0;
  #dialTarget: DialTarget = "next";
  #readyAt = noDeadline;
  /** When waiting for the other end is over, and when the pause before the next dial is. */
  #phaseDeadline = noDeadline;
  #retryAt = noDeadline;
  /** The last request that opens or resumes a session; an accept counts as the answer to a renewal sent at this time. */
  #awaitedAckId = "";
  #sentAt = 0;
  /** The state of the scheduler's window, from its answer to the resume. */
  #resumeAck: AckPayload | null = null;

  constructor(context: LinkContext, parts: ConnectionLifecycleParts) {
    this.#context = context;
    this.#parts = parts;
  }

  get phase(): LinkPhase {
    return this.#phase;
  }

  /** The session that was accepted and not ended since. Without a socket it waits to be resumed. */
  get session(): SchedulerSession | null {
    return this.#session;
  }

  /** The session, where frames of work may travel in it now. */
  get activeSession(): SchedulerSession | null {
    return isInSession(this.#phase) ? this.#session : null;
  }

  get isResuming(): boolean {
    return this.#phase === "HANDSHAKING" && this.#session !== null;
  }

  get nextDueAt(): number {
    return Math.min(this.#phaseDeadline, this.#retryAt, this.#session?.stream.nextTimeoutAt ?? noDeadline);
  }

  /** The only place that changes the phase. */
  transition(transition: LinkTransition): boolean {
    const next = nextPhase(this.#phase, transition);
    if (next === undefined) return false;
    this.#context.log("debug", "phase", `${this.#phase} -> ${next}`, { from: this.#phase, to: next, move: transition });
    this.#phase = next;
    this.#phaseDeadline = noDeadline;
    this.#retryAt = noDeadline;
    return true;
  }

  dial(): void {
    const { ports, settings } = this.#context;
    this.#phaseDeadline = ports.now() + settings.handshakeTimeoutMs;
    ports.dial(this.#dialTarget);
  }

  handleOpen(): void {
    if (!this.transition("open")) return;
    const { identity, settings, ports } = this.#context;
    if (this.#session !== null)
      return this.#sendRequest("control.resume", this.#session.buildResume(identity.boot), settings.acceptTimeoutMs);
    this.#sessionKey = new SessionKey(ports.randomBytes(32));
    this.#sendRequest("control.handshake", buildHandshake(identity, this.#sessionKey), settings.handshakeTimeoutMs);
  }

  #sendRequest(type: "control.handshake" | "control.register" | "control.resume", payload: object, timeoutMs: number): void {
    this.#sentAt = this.#context.ports.now();
    this.#resumeAck = null;
    this.#awaitedAckId = this.#context.writer.sendControl(type, payload, { ackRequest: true });
    this.#phaseDeadline = this.#sentAt + timeoutMs;
  }

  tick(now: number): boolean {
    if (this.#phaseDeadline <= now) {
      const reason = `no answer from the scheduler while ${this.#phase}`;
      if (this.isResuming) this.endSession(1002, reason);
      else this.disconnect(1002, reason);
    } else if (this.#retryAt <= now && this.transition("retry")) this.dial();
    else return false;
    return true;
  }

  /** An ack outside a session: of a handshake, a register or a resume. After the latter two the accept must follow. */
  handleHandshakeAck(id: string | undefined, ack: AckPayload): void {
    if (id === undefined || id !== this.#awaitedAckId) return;
    if (ack.ok === false) this.endSession(1002, ack.info ?? "the scheduler refused");
    else if (this.isResuming) this.#resumeAck = ack;
    else if (this.transition("welcome")) this.#sendRegister();
  }

  #sendRegister(): void {
    const { identity, settings } = this.#context;
    const { attempts, heartbeats } = this.#parts;
    const capabilities = this.#context.capabilities();
    this.#sendRequest("control.register", buildRegister(identity, capabilities, attempts.held()), settings.acceptTimeoutMs);
    heartbeats.packagesRegistered(capabilities.packages);
  }

  /** Null: taken. Else why it means nothing here. */
  handleAccept(accept: SessionAcceptPayload): string | null {
    const { session_id: id, worker_instance_id: instance = this.#context.identity.instance } = accept;
    const session = this.#session;
    if (instance !== this.#context.identity.instance)
      this.endSession(1002, `the scheduler accepted ${instance}, but this worker is ${this.#context.identity.instance}`);
    else if (this.#phase === "REGISTERED") this.#openSession(accept);
    else if (session === null) return "an accept came before the register";
    else if (this.#phase === "HANDSHAKING") this.#resumeSession(session, accept);
    // Within a session an accept renews its token.
    else if (id === session.id) session.setToken(accept.session_token);
    else return `an accept of session ${id} came in session ${session.id}`;
    return null;
  }

  handleReset({ code, reason, retry_after_ms }: ResetPayload): void {
    const { ports, settings } = this.#context;
    const isRefusedResume = this.isResuming;
    const event = isInSession(this.#phase) || isRefusedResume ? "reset" : "refused";
    if (isInSession(this.#phase) && code.startsWith("E.FRAME.")) this.#parts.attempts.isolateRejectedMessage({ code, reason });
    this.discardSession();
    ports.closeConnection(1000, "reset");
    // Two processes with one identity must not throw each other out in a loop.
    const pauseMs = retry_after_ms ?? (identityTakenCodes.has(code) ? settings.supersededDelayMs : 0);
    // A scheduler that does not know undrain ends a drain by a fresh session: that was asked for, so it is no warning.
    const isExpected = isRefusedResume || (this.#phase === "DRAINING" && code === "E.SESSION.UNKNOWN");
    this.#enterBackoff({ event, reason, code, delayMs: pauseMs, isRefusedResume, level: isExpected ? "info" : "warn" });
  }

  /** The two ends do not mean the same session any more. */
  endInconsistentSession(): void {
    this.endSession(1002, "the scheduler's acknowledgements do not match what this worker has sent");
  }

  /** Nothing of the session can go on but what it did not deliver: that goes into the next. */
  endSession(code: number, reason: string): void {
    this.discardSession();
    this.disconnect(code, reason);
  }

  discardSession(): void {
    if (this.#session !== null) this.#parts.attempts.detachStream();
    this.#session = null;
  }

  /** The session, if there still is one, will be resumed, where it was or elsewhere. */
  disconnect(code: number, reason: string, target: DialTarget = "same"): void {
    this.#context.ports.closeConnection(code, reason);
    this.handleConnectionLost(reason, target);
  }

  handleConnectionLost(reason: string, target: DialTarget): void {
    this.#enterBackoff({ event: "lost", reason, dialTarget: target });
  }

  #openSession(accept: SessionAcceptPayload): void {
    const { heartbeats, attempts, dispatcher, isLeaving } = this.#parts;
    this.transition("accept");
    this.#session = new SchedulerSession(accept, this.#sessionKey, this.#context, attempts, dispatcher);
    heartbeats.startSession(accept, this.#sentAt);
    this.#context.log("info", "ready", `session ${accept.session_id} is open`, {
      session: accept.session_id,
      ...attempts.counts,
    });
    if (isLeaving()) this.transition("drain");
    this.#markReady();
  }

  /** The session goes on over a new socket. Nothing is registered again: what both ends hold is what it was. */
  #resumeSession(session: SchedulerSession, accept: SessionAcceptPayload): void {
    const { heartbeats, attempts, isLeaving } = this.#parts;
    if (accept.resumed !== true || accept.session_id !== session.id)
      return this.endSession(1000, "the scheduler opened another session instead of resuming the old one");
    const again = session.resume(this.#resumeAck);
    if (again === null) return this.endInconsistentSession();
    this.transition(isLeaving() ? "resumeDraining" : "resume");
    session.setToken(accept.session_token);
    heartbeats.resumeSession(accept, this.#sentAt);
    const details = { session: session.id, again: again.length, ...attempts.counts };
    this.#context.log("info", "resumed", `session ${session.id} is resumed`, details);
    session.resend(again);
    this.#markReady();
  }

  #markReady(): void {
    this.#readyAt = this.#context.ports.now();
    this.#parts.sessionReady();
  }

  #enterBackoff(loss: ConnectionLoss): void {
    const { event, reason, code, isRefusedResume = false, level = "warn" } = loss;
    const { ports, settings, log } = this.#context;
    const { heartbeats, attempts, disconnected } = this.#parts;
    const isSessionKept = this.activeSession !== null;
    if (!this.transition("lose")) return;
    const now = ports.now();
    if (now - this.#readyAt >= settings.stableSessionMs) this.#failureCount = 0;
    this.#readyAt = noDeadline;
    this.#awaitedAckId = "";
    this.#resumeAck = null;
    heartbeats.pause();
    this.#session?.stream.pause();
    this.#dialTarget = isRefusedResume ? "same" : ((isSessionKept ? loss.dialTarget : null) ?? "next");
    const backoff = isRefusedResume ? 0 : computeBackoffMs(settings.backoff, this.#failureCount++, ports.random());
    const delayMs = Math.max(loss.delayMs ?? 0, backoff);
    this.#retryAt = now + delayMs;
    const details = { ...attempts.counts, retryInMs: Math.round(delayMs), ...(code !== undefined && { code }) };
    log(level, event, reason, details);
    disconnected();
  }
}

export function buildHandshake({ auth, name, instance, version, hostname }: WorkerIdentity, { publicKey }: SessionKey): object {
  const worker = { worker_name: name, worker_instance_id: instance, version, hostname };
  return { protocol: 2, auth, worker, session_key: publicKey };
}

function buildRegister({ boot }: WorkerIdentity, capabilities: WorkerCapabilities, running: readonly HeldTaskRef[]): object {
  const { maxParallel, perNodeLimits, runtimes, pool, tags, packages, manifests, resources } = capabilities;
  const concurrency = { max_parallel: maxParallel, per_node_limits: perNodeLimits };
  const features = [...new Set([...linkFeatures, ...capabilities.features])];
  return {
    capabilities: { concurrency, runtimes, features, pool, tags },
    payload_types: features.includes(packageFeature) ? [...linkPayloadTypes, ...packagePayloadTypes] : linkPayloadTypes,
    packages,
    manifests,
    boot_id: boot,
    running,
    ...resourcesField(resources),
  };
}

/** All resources or no list: what a list leaves out counts as gone. */
function resourcesField(resources: Iterable<string> = []): { resources?: string[] } {
  const ids = [...resources];
  const chars = ids.reduce((sum, id) => sum + id.length, 0);
  return ids.length > limits.registeredResourcesMax || chars > resourceCharsMax ? {} : { resources: ids };
}

/** Leaves room in the register frame for everything else. */
const resourceCharsMax = 256 * 1024;
