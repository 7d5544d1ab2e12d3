// Known bugs of the session server that can be switched on. Each one wraps the session server's sockets or its connection to the engine and imitates
// that bug. A checker that misses it is too weak.

import type { WorkerSocket, WorkerSocketEvents } from "@astraflow/doors";
import type { CommandRequest } from "@astraflow/engine";
import { getOrCreate } from "../kernel/get-or-create.ts";

/** Where each of them sits. */
export const sessionMutants = {
  /** After a resume, what was in flight is not sent again, and its numbers are given to what comes next. */
  "resume-forgets-unacked": "session",
  /** After a resume, the last piece of feedback is handled a second time. */
  "duplicate-after-resume": "session",
  /** A result is acked when it arrives. */
  "ack-unsettled": "session",
  /** A socket that another has taken the place of is still heard. */
  "old-socket-read": "session",
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

/** One socket, and what the session server hears of it. */
interface MutatedSocket {
  readonly socket: WorkerSocket;
  readonly handlers: WorkerSocketEvents;
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
    const close = (code: number, reason: string): void => {
      if (this.#mutant !== "old-socket-read" || !reason.includes("superseded")) socket.close(code, reason);
    };
    const handlers = openSession(
      Object.create(socket, {
        send: { value: (text: string) => this.#send(text, mutated) },
        close: { value: close },
      }) as WorkerSocket,
    );
    const mutated: MutatedSocket = { socket, handlers, session: new MutatedSession(), isAccepted: false, isRepeatDue: false };
    return {
      message: (data, isBinary) => this.#handleMessage(data, isBinary, mutated),
      ping: (data) => handlers.ping(data),
      pong: () => handlers.pong(),
      drained: () => handlers.drained(),
      bytesReceived: (bytes) => handlers.bytesReceived(bytes),
      refuse: (why) => handlers.refuse(why),
      closed: (code) => handlers.closed(code),
    };
  }

  #send(text: string, mutated: MutatedSocket): void {
    const frame = parseFrame(text);
    const { type, seq, payload } = frame;
    if (type === "control.session.accept") this.#handleAccept(frame, mutated);
    const { socket, session } = mutated;
    const isEarlier = type === "control.ack" && numberOrMinusOne(payload["ack_seq"]) < session.earlyAck;
    if (this.#mutant === "ack-unsettled" && isEarlier)
      return socket.send(JSON.stringify({ ...frame, payload: { ...payload, ack_seq: session.earlyAck, ack_bitmap: 0 } }));
    if (this.#mutant !== "resume-forgets-unacked" || seq === undefined) return socket.send(text);
    session.highestSent = Math.max(session.highestSent, seq);
    if (session.forgotten.some(({ from, to }) => seq >= from && seq <= to)) return;
    socket.send(JSON.stringify({ ...frame, seq: seq - session.numberShift }));
  }

  #handleAccept({ payload }: MutatedFrame, mutated: MutatedSocket): void {
    if (mutated.isAccepted) return;
    mutated.isAccepted = true;
    const session = getOrCreate(this.#sessions, String(payload["session_id"]), () => mutated.session);
    mutated.session = session;
    session.handlers = mutated.handlers;
    if (payload["resumed"] !== true) return;
    mutated.isRepeatDue = true;
    if (this.#mutant !== "resume-forgets-unacked" || session.highestSent <= session.highestAcked) return;
    session.forgotten.push({ from: session.highestAcked + 1, to: session.highestSent });
    session.numberShift += session.highestSent - session.highestAcked;
    session.highestAcked = session.highestSent;
  }

  #handleMessage(data: Buffer, isBinary: boolean, mutated: MutatedSocket): void {
    const frame = parseFrame(data.toString("utf8"));
    const { socket, handlers, session } = mutated;
    const pass = (text: string): void => handlers.message(Buffer.from(text, "utf8"), isBinary);
    switch (this.#mutant) {
      case "resume-forgets-unacked":
        return pass(this.#shiftAcks(frame, session));
      case "duplicate-after-resume": {
        const { seq: _, ack: __, ...unnumbered } = { ...frame, ack: null };
        if (frame.type === "biz.exec.feedback") session.lastFeedback = JSON.stringify(unnumbered);
        handlers.message(data, isBinary);
        if (!mutated.isRepeatDue || session.lastFeedback === null) return;
        mutated.isRepeatDue = false;
        return pass(session.lastFeedback);
      }
      case "ack-unsettled": {
        const isNext = frame.seq !== undefined && frame.seq === session.earlyAck + 1 && mutated.isAccepted;
        if (isNext) session.earlyAck = frame.seq;
        if (isNext && frame.type.startsWith("biz.exec.result")) socket.send(createEarlyAck(frame, session.earlyAck));
        return handlers.message(data, isBinary);
      }
      case "old-socket-read":
        return (session.handlers ?? handlers).message(data, isBinary);
      case "resumed-join-forgets":
        return handlers.message(data, isBinary);
    }
  }

  /** The worker counts without what was forgotten; the session server must not notice. */
  #shiftAcks(frame: MutatedFrame, session: MutatedSession): string {
    const { payload, type } = frame;
    if (type === "control.resume") {
      const resumed = this.#sessions.get(String(payload["session_id"]));
      const seen = numberOrMinusOne(payload["last_seen_seq"]) + (resumed?.numberShift ?? 0);
      if (resumed !== undefined) resumed.highestAcked = Math.max(resumed.highestAcked, seen);
      return JSON.stringify({ ...frame, payload: { ...payload, last_seen_seq: seen } });
    }
    if (type !== "control.ack" || typeof payload["ack_seq"] !== "number") return JSON.stringify(frame);
    const acked = payload["ack_seq"] + session.numberShift;
    session.highestAcked = Math.max(session.highestAcked, acked);
    return JSON.stringify({ ...frame, payload: { ...payload, ack_seq: acked } });
  }
}

function createEarlyAck(frame: MutatedFrame, upTo: number): string {
  const payload = { ok: true, ack_seq: upTo, ack_bitmap: 0 };
  const sender = { role: "scheduler", id: "scheduler-control" };
  return JSON.stringify({ ...frame, type: "control.ack", id: `early-${upTo}`, sender, seq: undefined, ack: undefined, payload });
}
