// How a session gets into the engine, and back into it over a new socket: its join, its resume, the accept and the token that go with them.
// Which socket asks is connection.ts; what happens once it is live, and its end, session.ts.

import type { AnswerBody, AttemptRef, FaultData, JoinWorker } from "@astraflow/engine";
import { fault } from "@astraflow/protocol";
import type { DeliveryTag } from "@astraflow/session";
import { isRetryable } from "../../engine-client/public-fault.ts";
import type { UnansweredFrame } from "../frames/unanswered-frames.ts";
import { buildAccept } from "../registration/worker-handshake.ts";
import type { Session } from "./session.ts";
import type { SessionContext, SessionTransport } from "./session-context.ts";

type JoinAnswer = Extract<AnswerBody, { of: "join" }>;

const noTag: DeliveryTag = { number: null, id: "", isAsked: false, bytes: 0 };

export class JoinHandshake {
  /** Of the token that can resume the session; every accept ends the one before. */
  jti: string | null = null;
  /** Id of the last resume's frame, which may be repeated until it is acked. */
  resumeFrameId: string | null = null;
  readonly #session: Session;
  readonly #context: SessionContext;
  /** Frames that are answered for by the join. */
  readonly #tagsToSettle: DeliveryTag[] = [];
  #joinAnswer: JoinAnswer | null = null;
  #renewTokenAt = Number.POSITIVE_INFINITY;
  #retryJoinAt = Number.POSITIVE_INFINITY;
  #joinAttempts = 0;
  /** The join whose answer counts; a resume that overtakes another makes that one's answer worthless. */
  #pendingJoin: UnansweredFrame | null = null;
  #lastSeen: number | null = null;

  constructor(session: Session, context: SessionContext) {
    this.#session = session;
    this.#context = context;
  }

  /** Settled once the engine has stored the join. How many wait for that. */
  settleAfterJoin(tag: DeliveryTag): number {
    return this.#tagsToSettle.push(tag);
  }

  sendJoin(): void {
    const { registration, identity, id } = this.#session;
    this.#postJoin(registration.buildJoin(identity, id));
  }

  /** Whether the session goes on is the engine's word: it may have given its seat and its attempts away. */
  sendRejoin(resume: { readonly id: string; readonly lastSeen: number | null }): void {
    const { registration, identity, id, stream } = this.#session;
    this.resumeFrameId = resume.id;
    this.#lastSeen = resume.lastSeen;
    const unacked: AttemptRef[] = [];
    stream.forEachUnacked(({ send }) => {
      if (send.type === "dispatch") unacked.push({ task: send.dispatch.task, fence: send.dispatch.fence });
    });
    this.#postJoin(registration.buildRejoin(identity, id, unacked));
  }

  #postJoin(join: JoinWorker): void {
    this.#joinAttempts += 1;
    this.#retryJoinAt = Number.POSITIVE_INFINITY;
    this.#pendingJoin = { kind: "join", tag: noTag, answersLeft: 1 };
    this.#session.postCommand(join, this.#pendingJoin);
  }

  /** No answer counts any more. */
  cancel(): void {
    this.#pendingJoin = null;
    this.#retryJoinAt = Number.POSITIVE_INFINITY;
  }

  handleAnswer(frame: UnansweredFrame, body: AnswerBody | null, why: FaultData | null): void {
    const session = this.#session;
    if (frame !== this.#pendingJoin) return;
    if (body?.of !== "join") return this.#handleRefusal(why);
    this.#joinAnswer = body;
    session.idleTimeoutMs = body.leaseMs * this.#context.limits.idleLeasesMax;
    const { connection } = session;
    if (connection === null) return;
    if (session.phase === "resuming") this.#handleResumed(connection, body);
    else this.#handleJoined(connection, body);
  }

  /** The older workers die of a reset at their first handshake: what can be tried again is tried again in their stead. */
  #handleRefusal(why: FaultData | null): void {
    const { joinAttemptsMax, retryAfterMs } = this.#context.limits;
    const isOlder = this.#session.identity.dialect !== "v2";
    const canWait = isOlder && why !== null && isRetryable(why) && !why.code.startsWith("E.SESSION.");
    if (!canWait || this.#joinAttempts >= joinAttemptsMax) return this.#session.resetWithFault(why);
    this.#retryJoinAt = this.#context.environment.clock.monotonic() + retryAfterMs;
  }

  #handleJoined(connection: SessionTransport, body: JoinAnswer): void {
    const session = this.#session;
    session.markLive();
    session.registration.markJoined();
    for (const tag of this.#tagsToSettle) session.stream.settle(tag);
    this.#tagsToSettle.length = 0;
    this.#sendOpening(connection, body, false);
    session.log("info", "session.open", {
      epoch: body.epoch,
      dialect: session.identity.dialect,
      features: [...session.registration.features],
    });
    session.resources.reconcile();
    connection.markLive();
  }

  #handleResumed(connection: SessionTransport, body: JoinAnswer): void {
    const session = this.#session;
    const resend = session.stream.resume(this.#lastSeen, this.#context.environment.clock.monotonic());
    if (resend === "unsent")
      return session.reset(
        fault("E.SESSION.ACK_UNSENT", "the resume names a frame that was never sent, or forgets one that was acked"),
      );
    session.markLive();
    if (this.resumeFrameId !== null) session.stream.queueNamedAck(this.resumeFrameId);
    this.#sendOpening(connection, body, true);
    session.resendLater(resend);
    this.#context.metrics.resumed(session.identity.tenant);
    session.log("info", "session.resumed", { epoch: body.epoch, again: resend.length });
    connection.markLive();
  }

  #sendOpening(connection: SessionTransport, body: JoinAnswer, isResumed: boolean): void {
    const session = this.#session;
    session.flushAcks(connection);
    this.#sendAccept(connection, isResumed);
    // Told with every accept: the frame of an earlier socket may be lost.
    if (body.draining) connection.send(session.writer.encodeDrain("this worker is being drained"));
  }

  /** v1 knows no accept: its session has begun with the ack of its register. */
  #sendAccept(connection: SessionTransport, isResumed: boolean): void {
    const { identity, id, windows, registration, writer } = this.#session;
    const joinAnswer = this.#joinAnswer;
    if (identity.dialect === "v1" || joinAnswer === null) return;
    const { tenant, instance: wid, dialect, authenticated: admitted } = identity;
    const token = this.#context.authenticator.issueSessionToken({
      sid: id,
      wid,
      tenant,
      dialect,
      thumbprint: admitted.thumbprint,
    });
    this.jti = token.jti;
    const { clock } = this.#context.environment;
    const canRenew = dialect === "v2" && registration.features.has("renew");
    this.#renewTokenAt = canRenew ? clock.monotonic() + (token.expiresAt - clock.now()) / 2 : Number.POSITIVE_INFINITY;
    const announced = registration.features;
    connection.send(
      writer.encodeAccept(buildAccept({ identity, session: id, token, isResumed, joinAnswer, announced, windows })),
    );
  }

  checkTimers(now: number): void {
    const { phase, connection } = this.#session;
    if (phase === "joining" && now >= this.#retryJoinAt) this.sendJoin();
    if (phase === "live" && connection !== null && now >= this.#renewTokenAt) this.#sendAccept(connection, true);
  }
}
