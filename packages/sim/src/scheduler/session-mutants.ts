// Known bugs of the session server that can be switched on. Each one wraps the session server's sockets or its connection to the engine and imitates
// that bug. A checker that misses it is too weak.

import type { WorkerSocket, WorkerSocketEvents } from "@astraflow/doors";
import type { CommandRequest } from "@astraflow/engine";

/** Where each of them sits. */
export const sessionMutants = {
  /** After a resume, what was in flight is not sent again, and its numbers are given to what comes next. */
  "resume-forgets-unacked": "session",
  /** After a resume, the last piece of feedback is handled a second time. */
  "duplicate-after-resume": "session",
  /** A result is acked when it arrives. */
  "ack-unsettled": "session",
  /** A socket that another has taken the place of is still heard. */
  "old-socket-heard": "session",
  /** A worker that resumes is taken for one that holds nothing. */
  "resumed-join-forgets": "session",
} as const;
export type SessionMutant = keyof typeof sessionMutants;

interface MutatedFrame {
  readonly type: string;
  readonly seq?: number;
  readonly payload: Readonly<Record<string, unknown>>;
}
const parseFrame = (text: string): MutatedFrame => JSON.parse(text) as MutatedFrame;
const numberOrMinusOne = (value: unknown): number => (typeof value === "number" ? value : -1);

/** One session as the bugs remember it, over all its sockets. */
class MutatedSession {
  /** The highest number sent, and the last one the worker has acked. */
  highestSent = -1;
  highestAcked = -1;
  /** Numbers from `from` to `to` were forgotten; what follows is sent under numbers lower by `shift`. */
  readonly forgotten: { readonly from: number; readonly to: number }[] = [];
  numberShift = 0;
  lastFeedback: string | null = null;
  earlyAck = -1;
  handlers: WorkerSocketEvents | null = null;
}

interface MutatedSocket {
  session: MutatedSession;
  isAccepted: boolean;
  isRepeatDue: boolean;
}

export class SessionMutator {
  readonly #mutant: SessionMutant;
  readonly #sessions = new Map<string, MutatedSession>();

  constructor(mutant: SessionMutant) {
    this.#mutant = mutant;
  }

  mutateCommands(items: readonly CommandRequest[]): readonly CommandRequest[] {
    if (this.#mutant !== "resumed-join-forgets") return items;
    return items.map((item) => {
      if (item.command.type !== "worker.join" || item.command.resumed === undefined) return item;
      const { resumed: _, ...command } = item.command;
      return { ...item, command: { ...command, running: [] } };
    });
  }

  /** Stands between the session server and one socket. */
  wrapSocket(socket: WorkerSocket, openSession: (socket: WorkerSocket) => WorkerSocketEvents): WorkerSocketEvents {
    const mutatedSocket: MutatedSocket = { session: new MutatedSession(), isAccepted: false, isRepeatDue: false };
    const mutated: WorkerSocket = Object.create(socket, {
      send: { value: (text: string) => this.#send(text, mutatedSocket, handlers, socket) },
      close: {
        value: (code: number, reason: string) => {
          if (this.#mutant !== "old-socket-heard" || !reason.includes("superseded")) socket.close(code, reason);
        },
      },
    }) as WorkerSocket;
    const handlers = openSession(mutated);
    return {
      message: (data, isBinary) => this.#handleMessage(data, isBinary, mutatedSocket, handlers, socket),
      ping: (data) => handlers.ping(data),
      pong: () => handlers.pong(),
      drained: () => handlers.drained(),
      bytesReceived: (bytes) => handlers.bytesReceived(bytes),
      closed: (code) => handlers.closed(code),
    };
  }

  #send(text: string, mutatedSocket: MutatedSocket, handlers: WorkerSocketEvents, socket: WorkerSocket): void {
    const frame = parseFrame(text);
    if (frame.type === "control.session.accept") this.#handleAccept(frame, mutatedSocket, handlers);
    const { session: mutatedSession } = mutatedSocket;
    if (
      this.#mutant === "ack-unsettled" &&
      frame.type === "control.ack" &&
      numberOrMinusOne(frame.payload["ack_seq"]) < mutatedSession.earlyAck
    )
      return socket.send(
        JSON.stringify({ ...frame, payload: { ...frame.payload, ack_seq: mutatedSession.earlyAck, ack_bitmap: 0 } }),
      );
    const { seq } = frame;
    if (this.#mutant !== "resume-forgets-unacked" || seq === undefined) return socket.send(text);
    mutatedSession.highestSent = Math.max(mutatedSession.highestSent, seq);
    if (mutatedSession.forgotten.some(({ from, to }) => seq >= from && seq <= to)) return;
    socket.send(JSON.stringify({ ...frame, seq: seq - mutatedSession.numberShift }));
  }

  #handleAccept({ payload }: MutatedFrame, mutatedSocket: MutatedSocket, handlers: WorkerSocketEvents): void {
    if (mutatedSocket.isAccepted) return;
    mutatedSocket.isAccepted = true;
    const session = String(payload["session_id"]);
    const mutatedSession = this.#sessions.get(session) ?? mutatedSocket.session;
    this.#sessions.set(session, mutatedSession);
    mutatedSocket.session = mutatedSession;
    mutatedSession.handlers = handlers;
    if (payload["resumed"] !== true) return;
    mutatedSocket.isRepeatDue = true;
    if (this.#mutant !== "resume-forgets-unacked" || mutatedSession.highestSent <= mutatedSession.highestAcked) return;
    mutatedSession.forgotten.push({ from: mutatedSession.highestAcked + 1, to: mutatedSession.highestSent });
    mutatedSession.numberShift += mutatedSession.highestSent - mutatedSession.highestAcked;
    mutatedSession.highestAcked = mutatedSession.highestSent;
  }

  #handleMessage(
    data: Buffer,
    isBinary: boolean,
    mutatedSocket: MutatedSocket,
    handlers: WorkerSocketEvents,
    socket: WorkerSocket,
  ): void {
    const frame = parseFrame(data.toString("utf8"));
    const { session: mutatedSession } = mutatedSocket;
    const pass = (text: string, to: WorkerSocketEvents = handlers): void => to.message(Buffer.from(text, "utf8"), isBinary);
    switch (this.#mutant) {
      case "resume-forgets-unacked":
        return pass(this.#shiftAcks(frame, mutatedSocket));
      case "duplicate-after-resume": {
        const { seq: _, ack: __, ...unnumbered } = { ...frame, ack: null };
        if (frame.type === "biz.exec.feedback") mutatedSession.lastFeedback = JSON.stringify(unnumbered);
        handlers.message(data, isBinary);
        if (!mutatedSocket.isRepeatDue || mutatedSession.lastFeedback === null) return;
        mutatedSocket.isRepeatDue = false;
        return pass(mutatedSession.lastFeedback);
      }
      case "ack-unsettled": {
        const isNext = frame.seq !== undefined && frame.seq === mutatedSession.earlyAck + 1 && mutatedSocket.isAccepted;
        if (isNext) mutatedSession.earlyAck = frame.seq;
        if (isNext && frame.type.startsWith("biz.exec.result")) socket.send(createEarlyAck(frame, mutatedSession.earlyAck));
        return handlers.message(data, isBinary);
      }
      case "old-socket-heard":
        return (mutatedSession.handlers ?? handlers).message(data, isBinary);
      case "resumed-join-forgets":
        return handlers.message(data, isBinary);
    }
  }

  /** The worker counts without what was forgotten; the session server must not notice. */
  #shiftAcks(frame: MutatedFrame, mutatedSocket: MutatedSocket): string {
    const { payload, type } = frame;
    if (type === "control.resume") {
      const mutatedSession = this.#sessions.get(String(payload["session_id"]));
      const seen = numberOrMinusOne(payload["last_seen_seq"]) + (mutatedSession?.numberShift ?? 0);
      if (mutatedSession !== undefined) mutatedSession.highestAcked = Math.max(mutatedSession.highestAcked, seen);
      return JSON.stringify({ ...frame, payload: { ...payload, last_seen_seq: seen } });
    }
    if (type !== "control.ack" || typeof payload["ack_seq"] !== "number") return JSON.stringify(frame);
    const { session: mutatedSession } = mutatedSocket;
    const acked = payload["ack_seq"] + mutatedSession.numberShift;
    mutatedSession.highestAcked = Math.max(mutatedSession.highestAcked, acked);
    return JSON.stringify({ ...frame, payload: { ...payload, ack_seq: acked } });
  }
}

function createEarlyAck(frame: MutatedFrame, upTo: number): string {
  const payload = { ok: true, ack_seq: upTo, ack_bitmap: 0 };
  const sender = { role: "scheduler", id: "scheduler-control" };
  return JSON.stringify({ ...frame, type: "control.ack", id: `early-${upTo}`, sender, seq: undefined, ack: undefined, payload });
}
