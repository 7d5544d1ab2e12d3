// Joins a session to the engine, and again after a resume: the command, its answer, the accept frame and the session token.

import type { AnswerBody, AttemptRef, FaultData, JoinWorkerCommand } from "@astraflow/engine";
import { type Dialect, fault, type SessionAcceptPayload } from "@astraflow/protocol";
import type { LostResource } from "@astraflow/services";
import type { DeliveryTag } from "@astraflow/session";
import type { IssuedSessionToken } from "../../auth/worker-session-tokens.ts";
import { isRetryable } from "../../engine-client/public-fault.ts";
import type { SessionConnection } from "../connection/session-connection.ts";
import { noTag } from "../frames/work-frames.ts";
import { changeDialect } from "./dialect-change.ts";
import type { Session } from "./session.ts";

type JoinAnswer = Extract<AnswerBody, { of: "join" }>;

/** State of the session's join, its resumes and its token. */
export class JoinProgress {
  /** Id of the token that can resume the session; every accept replaces it. */
  jti: string | null = null;
  /** When that token was issued, by the monotonic clock. */
  issuedAt = 0;
  answer: JoinAnswer | null = null;
  /** Ids of frames that may be repeated until they are acked. */
  registerFrameId: string | null = null;
  resumeFrameId: string | null = null;
  /** Last number that the worker has seen, from its resume. */
  lastSeen: number | null = null;
  /** Frames that are acknowledged once the engine has stored the join. */
  readonly tagsToSettle: DeliveryTag[] = [];
  /** The dialect that the last join named; the worker may have shown it only since. */
  dialect: Dialect | null = null;
  attempts = 0;
  /** The attempt whose answer counts; null where none does. A resume makes the answer to the one before worthless. */
  pendingAttempt: number | null = null;
  retryAt = Number.POSITIVE_INFINITY;
  renewTokenAt = Number.POSITIVE_INFINITY;

  tokenAgeMs(now: number): number {
    return now - this.issuedAt;
  }

  /** No answer counts any more. */
  cancel(): void {
    this.pendingAttempt = null;
    this.retryAt = Number.POSITIVE_INFINITY;
  }
}

/** Capabilities suffice: what the worker has installed and runs may follow. */
export function startJoin(session: Session): void {
  const why = session.registration.sizeFault(session.identity);
  if (why !== null) return session.reset(why);
  session.beginJoin();
  postJoin(session, session.registration.buildJoin(session.identity, session.id));
}

/** The engine decides whether the session goes on: it may have given the worker's attempts to others. */
export function startRejoin(session: Session, resume: { readonly id: string; readonly lastSeen: number | null }): void {
  const { join, registration, identity, id } = session;
  join.resumeFrameId = resume.id;
  join.lastSeen = resume.lastSeen;
  const unacked: AttemptRef[] = [];
  session.stream.forEachUnacked(({ send }) => {
    if (send.type === "dispatch") unacked.push({ task: send.dispatch.task, fence: send.dispatch.fence });
  });
  postJoin(session, registration.buildRejoin(identity, id, unacked));
}

function postJoin(session: Session, command: JoinWorkerCommand): void {
  const { join } = session;
  join.attempts += 1;
  join.retryAt = Number.POSITIVE_INFINITY;
  join.dialect = session.identity.dialect;
  const attempt = join.attempts;
  join.pendingAttempt = attempt;
  session.post(command, (body, why) => {
    if (join.pendingAttempt === attempt) handleJoinAnswer(session, body, why);
  });
}

function handleJoinAnswer(session: Session, body: AnswerBody | null, why: FaultData | null): void {
  if (body?.of !== "join") return handleRefusedJoin(session, why);
  session.join.answer = body;
  const { connection } = session;
  if (connection === null) return;
  if (session.phase === "resuming") completeResume(session, connection, body);
  else completeJoin(session, connection, body);
}

/** Older workers exit on a reset during their first handshake, so what can be retried is retried for them. */
function handleRefusedJoin(session: Session, why: FaultData | null): void {
  const { joinAttemptsMax, retryAfterMs } = session.context.limits;
  const isOlder = session.identity.dialect !== "v2";
  const canRetry = isOlder && why !== null && isRetryable(why) && !why.code.startsWith("E.SESSION.");
  if (!canRetry || session.join.attempts >= joinAttemptsMax) return session.resetWithFault(why);
  session.join.retryAt = session.now() + retryAfterMs;
}

function completeJoin(session: Session, connection: SessionConnection, body: JoinAnswer): void {
  const { join, registration, stream } = session;
  session.markLive();
  registration.markJoined();
  for (const tag of join.tagsToSettle) stream.settle(tag);
  join.tagsToSettle.length = 0;
  sendOpening(session, connection, body, false);
  rememberDialect(session, body);
  const { dialect } = session.identity;
  session.log("info", "session.open", { epoch: body.epoch, dialect, features: [...registration.features] });
  if (join.dialect !== dialect) postDialectChange(session);
  reconcileResources(session);
  connection.replayBuffered();
}

/** A process that has shown its dialect in an earlier session need not show it again. A new process may be another program. */
function rememberDialect(session: Session, { formerDialect }: JoinAnswer): void {
  const { dialect, freshBootId, isProcessUnknown } = session.identity;
  const isSameProcess = freshBootId === null && !isProcessUnknown;
  if (dialect === "undecided" && isSameProcess && formerDialect === "first") changeDialect(session, formerDialect);
}

function completeResume(session: Session, connection: SessionConnection, body: JoinAnswer): void {
  const { join, stream } = session;
  const resend = stream.resume(join.lastSeen, session.now());
  if (resend === "unsent")
    return session.reset(fault("E.SESSION.ACK_UNSENT", "last_seen_seq does not match the frames of this session"));
  session.markLive();
  if (join.resumeFrameId !== null) stream.queueNamedAck(join.resumeFrameId);
  sendOpening(session, connection, body, true);
  session.resendLater(resend);
  session.context.metrics.resumed(session.identity.tenant);
  session.log("info", "session.resumed", { epoch: body.epoch, again: resend.length });
  connection.replayBuffered();
}

function sendOpening(session: Session, connection: SessionConnection, body: JoinAnswer, isResumed: boolean): void {
  session.flushAcks(connection);
  sendAccept(session, connection, isResumed);
  // Sent with every accept: the frame on an earlier socket may be lost.
  if (body.draining) connection.send(session.writer.encodeDrain("control.drain", "this worker is being drained"));
}

/** Protocol extensions that are used with workers that announce them. */
const supportedFeatures = ["fence", "cancel", "held", "batch", "wide", "undrain", "renew", "resources", "pkg.install"];

function buildAccept(session: Session, answer: JoinAnswer, token: IssuedSessionToken, isResumed: boolean): SessionAcceptPayload {
  const announced = supportedFeatures.filter((feature) => session.registration.features.has(feature));
  // A worker announces this one by the key in its handshake.
  const features = session.identity.sessionKey === null ? announced : [...announced, "proof"];
  return {
    session_id: session.id,
    session_token: token.token,
    worker_instance_id: session.identity.instance,
    expires_at: new Date(token.expiresAt).toISOString(),
    resumed: isResumed,
    heartbeat_interval_ms: answer.heartbeatMs,
    lease_ms: answer.leaseMs,
    send_window: session.windows.send,
    recv_window: session.windows.recv,
    drain_mem_pct: answer.drainMemPct,
    drain_disk_pct: answer.drainDiskPct,
    // Workers that announced no features do not know this field.
    ...(features.length > 0 && { features }),
  };
}

/** v1 has no accept: its session begins with the ack of its register. */
function sendAccept(session: Session, connection: SessionConnection, isResumed: boolean): void {
  const { identity, id, join, context, writer } = session;
  const { answer } = join;
  const { tenant, instance: wid, dialect, authenticated } = identity;
  if (dialect === "v1" || answer === null) return;
  const { thumbprint } = authenticated;
  const token = context.authenticator.issueSessionToken({ sid: id, wid, tenant, dialect, thumbprint });
  const { clock } = context.environment;
  const canRenew = session.registration.features.has("renew");
  join.jti = token.jti;
  join.issuedAt = clock.monotonic();
  join.renewTokenAt = canRenew ? clock.monotonic() + (token.expiresAt - clock.now()) / 2 : Number.POSITIVE_INFINITY;
  connection.send(writer.encodeAccept(buildAccept(session, answer, token, isResumed)));
}

export function checkJoinTimers(session: Session, now: number): void {
  const { phase, connection, join, registration, identity, id } = session;
  if (phase === "joining" && now >= join.retryAt) postJoin(session, registration.buildJoin(identity, id));
  else if (phase === "live" && connection !== null && now >= join.renewTokenAt) sendAccept(session, connection, true);
}

/** Compares the resources that a register reports with those that results have left at the worker, and reports the missing ones. Work goes on meanwhile; what results add in that time is not lost. */
export function reconcileResources(session: Session): void {
  const { findLostResources } = session.context;
  const { tenant, worker, displayInfo, dialect } = session.identity;
  const reported = session.registration.takeReportedResources();
  if (findLostResources === undefined || reported === null || dialect !== "v2") return;
  const present = new Set(reported);
  session.presentResources = present;
  findLostResources({ tenant, worker, name: displayInfo.name, present }).then(
    (missing) => session.run(() => reportLost(session, present, missing)),
    (problem: unknown) => {
      session.log("warn", "session.uncompared", { why: String(problem) });
      reportLost(session, present, []);
    },
  );
}

function reportLost(session: Session, present: ReadonlySet<string>, missing: readonly LostResource[]): void {
  if (session.presentResources === present) session.presentResources = null;
  const lost = missing.filter(({ resource }) => !present.has(resource));
  if (session.isEnded || lost.length === 0) return;
  session.log("info", "session.resources.lost", { count: lost.length });
  for (const { resource, seenAt } of lost)
    session.notify({ type: "resource.removed", ...session.sender, resource, reason: "lost", seenAt });
}

export const postDialectChange = (session: Session): void =>
  postDescription(session, noTag, session.registration.buildDialectChange(session.identity, session.origin));

/** The frame is acknowledged once the engine has stored the description. */
export function postDescription(
  session: Session,
  tag: DeliveryTag,
  command = session.registration.buildDescribe(session.identity, session.origin),
): void {
  if (session.hasTooManyUnanswered("descriptions")) return;
  const why = session.registration.sizeFault(session.identity);
  if (why !== null) return session.reset(why);
  session.countUnanswered(tag, 1);
  session.post(command, (_body, refusal) => {
    session.countUnanswered(tag, -1);
    if (session.isEnded) return;
    if (refusal === null) return session.stream.settle(tag);
    session.context.metrics.refused(session.identity.tenant, refusal.code);
    session.resetWithFault(refusal);
  });
}
