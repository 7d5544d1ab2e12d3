// How a session gets into the engine, and back into it over a new socket: its join, its resume, the accept and the token that go with them.
// Which socket asks is connection.ts; what happens once it is live, and its end, session.ts.

import type { AnswerBody, FaultData, Held, JoinWorker } from "@astraflow/engine";
import { fault } from "@astraflow/protocol";
import type { Ticket } from "@astraflow/session";
import { isRetryable } from "../plain-fault.ts";
import { acceptance } from "./greeting.ts";
import type { Note } from "./notes.ts";
import type { Session } from "./session.ts";
import type { Line, Surroundings } from "./surroundings.ts";

type Granted = Extract<AnswerBody, { of: "join" }>;

const noTicket: Ticket = { number: null, id: "", isAsked: false, bytes: 0 };

export class Entrance {
  /** Of the token that can resume the session; every accept ends the one before. */
  jti: string | null = null;
  /** Id of the last resume's frame, which may be repeated until it is acked. */
  resumeId: string | null = null;
  readonly #session: Session;
  readonly #around: Surroundings;
  /** Frames that are answered for by the join. */
  readonly #tickets: Ticket[] = [];
  #granted: Granted | null = null;
  #renewAt = Number.POSITIVE_INFINITY;
  #joinAgainAt = Number.POSITIVE_INFINITY;
  #joins = 0;
  /** The join whose answer counts; a resume that overtakes another makes that one's answer worthless. */
  #awaited: Note | null = null;
  #lastSeen: number | null = null;

  constructor(session: Session, around: Surroundings) {
    this.#session = session;
    this.#around = around;
  }

  /** Settled once the engine has stored the join. How many wait for that. */
  answerFor(ticket: Ticket): number {
    return this.#tickets.push(ticket);
  }

  join(): void {
    const { introduction, bound, id } = this.#session;
    this.#post(introduction.join(bound, id));
  }

  /** Whether the session goes on is the engine's word: it may have given its seat and its attempts away. */
  resume(resume: { readonly id: string; readonly lastSeen: number | null }): void {
    const { introduction, bound, id, stream } = this.#session;
    this.resumeId = resume.id;
    this.#lastSeen = resume.lastSeen;
    const unacked: Held[] = [];
    stream.unacked(({ send }) => {
      if (send.type === "dispatch") unacked.push({ task: send.dispatch.task, fence: send.dispatch.fence });
    });
    this.#post(introduction.rejoin(bound, id, unacked));
  }

  #post(join: JoinWorker): void {
    this.#joins += 1;
    this.#joinAgainAt = Number.POSITIVE_INFINITY;
    this.#awaited = { what: "join", ticket: noTicket, left: 1 };
    this.#session.post(join, this.#awaited);
  }

  /** No answer counts any more. */
  giveUp(): void {
    this.#awaited = null;
    this.#joinAgainAt = Number.POSITIVE_INFINITY;
  }

  answered(note: Note, body: AnswerBody | null, why: FaultData | null): void {
    const session = this.#session;
    if (note !== this.#awaited) return;
    if (body?.of !== "join") return this.#refused(why);
    this.#granted = body;
    session.idleMs = body.leaseMs * this.#around.limits.idleLeasesMax;
    const { line } = session;
    if (line === null) return;
    if (session.phase === "resuming") this.#resumed(line, body);
    else this.#joined(line, body);
  }

  /** The older workers die of a reset at their first handshake: what can be tried again is tried again in their stead. */
  #refused(why: FaultData | null): void {
    const { joinsMax, retryAfterMs } = this.#around.limits;
    const isOlder = this.#session.bound.dialect !== "v2";
    const canWait = isOlder && why !== null && isRetryable(why) && !why.code.startsWith("E.SESSION.");
    if (!canWait || this.#joins >= joinsMax) return this.#session.sendAway(why);
    this.#joinAgainAt = this.#around.outside.clock.ticks() + retryAfterMs;
  }

  #joined(line: Line, body: Granted): void {
    const session = this.#session;
    session.opened();
    session.introduction.joined();
    for (const ticket of this.#tickets) session.stream.settle(ticket);
    this.#tickets.length = 0;
    this.#welcome(line, body, false);
    session.log("info", "session.open", {
      epoch: body.epoch,
      dialect: session.bound.dialect,
      features: [...session.introduction.features],
    });
    session.kept.compare();
    line.opened();
  }

  #resumed(line: Line, body: Granted): void {
    const session = this.#session;
    const again = session.stream.resume(this.#lastSeen, this.#around.outside.clock.ticks());
    if (again === "unsent")
      return session.reset(
        fault("E.SESSION.ACK_UNSENT", "the resume names a frame that was never sent, or forgets one that was acked"),
      );
    session.opened();
    if (this.resumeId !== null) session.stream.name(this.resumeId);
    this.#welcome(line, body, true);
    session.sendAgain(again);
    this.#around.meter.resumed(session.bound.tenant);
    session.log("info", "session.resumed", { epoch: body.epoch, again: again.length });
    line.opened();
  }

  #welcome(line: Line, body: Granted, isResumed: boolean): void {
    const session = this.#session;
    session.flushAcks(line);
    this.#accept(line, isResumed);
    // Told with every accept: the frame of an earlier socket may be lost.
    if (body.draining) line.send(session.writer.drain("this worker is being drained"));
  }

  /** v1 knows no accept: its session has begun with the ack of its register. */
  #accept(line: Line, isResumed: boolean): void {
    const { bound, id, windows, introduction, writer } = this.#session;
    const granted = this.#granted;
    if (bound.dialect === "v1" || granted === null) return;
    const { tenant, instance: wid, dialect, admitted } = bound;
    const token = this.#around.gate.issue({ sid: id, wid, tenant, dialect, thumbprint: admitted.thumbprint });
    this.jti = token.jti;
    const { clock } = this.#around.outside;
    const canRenew = dialect === "v2" && introduction.features.has("renew");
    this.#renewAt = canRenew ? clock.ticks() + (token.expiresAt - clock.now()) / 2 : Number.POSITIVE_INFINITY;
    const announced = introduction.features;
    line.send(writer.accept(acceptance({ bound, session: id, token, isResumed, granted, announced, windows })));
  }

  tick(now: number): void {
    const { phase, line } = this.#session;
    if (phase === "joining" && now >= this.#joinAgainAt) this.join();
    if (phase === "live" && line !== null && now >= this.#renewAt) this.#accept(line, true);
  }
}
