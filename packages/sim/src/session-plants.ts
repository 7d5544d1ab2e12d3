// Known bugs of the session door that can be switched on: each sits around the hall's sockets or its way to the engine and makes it look as if
// the hall had that bug. A judge that does not find them is too weak.

import type { WorkerSocket, WorkerSocketEvents } from "@astraflow/doors";
import type { CommandRequest } from "@astraflow/engine";

/** Where each of them sits. */
export const sessionPlants = {
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
export type SessionPlant = keyof typeof sessionPlants;

interface Frame {
  readonly type: string;
  readonly seq?: number;
  readonly payload: Readonly<Record<string, unknown>>;
}
const read = (text: string): Frame => JSON.parse(text) as Frame;
const numberIn = (value: unknown): number => (typeof value === "number" ? value : -1);

/** One session as the bugs remember it, over all its sockets. */
class Memory {
  /** The highest number sent, and the last one the worker has acked. */
  top = -1;
  acked = -1;
  /** Numbers from `from` to `to` were forgotten; what follows is sent under numbers lower by `shift`. */
  readonly forgotten: { readonly from: number; readonly to: number }[] = [];
  shift = 0;
  feedback: string | null = null;
  earlyAck = -1;
  ears: WorkerSocketEvents | null = null;
}

interface Seat {
  memory: Memory;
  isAccepted: boolean;
  isEchoDue: boolean;
}

export class PlantedPeers {
  readonly #plant: SessionPlant;
  readonly #sessions = new Map<string, Memory>();

  constructor(plant: SessionPlant) {
    this.#plant = plant;
  }

  commands(items: readonly CommandRequest[]): readonly CommandRequest[] {
    if (this.#plant !== "resumed-join-forgets") return items;
    return items.map((item) => {
      if (item.command.type !== "worker.join" || item.command.resumed === undefined) return item;
      const { resumed: _, ...command } = item.command;
      return { ...item, command: { ...command, running: [] } };
    });
  }

  /** Stands between the hall and one socket. */
  welcome(socket: WorkerSocket, welcome: (socket: WorkerSocket) => WorkerSocketEvents): WorkerSocketEvents {
    const seat: Seat = { memory: new Memory(), isAccepted: false, isEchoDue: false };
    const planted: WorkerSocket = Object.create(socket, {
      send: { value: (text: string) => this.#send(text, seat, ears, socket) },
      close: {
        value: (code: number, reason: string) => {
          if (this.#plant !== "old-socket-heard" || !reason.includes("superseded")) socket.close(code, reason);
        },
      },
    }) as WorkerSocket;
    const ears = welcome(planted);
    return { ...ears, message: (data, isBinary) => this.#hear(data, isBinary, seat, ears, socket) };
  }

  #send(text: string, seat: Seat, ears: WorkerSocketEvents, socket: WorkerSocket): void {
    const frame = read(text);
    if (frame.type === "control.session.accept") this.#accept(frame, seat, ears);
    const { memory } = seat;
    if (this.#plant === "ack-unsettled" && frame.type === "control.ack" && numberIn(frame.payload["ack_seq"]) < memory.earlyAck)
      return socket.send(JSON.stringify({ ...frame, payload: { ...frame.payload, ack_seq: memory.earlyAck, ack_bitmap: 0 } }));
    const { seq } = frame;
    if (this.#plant !== "resume-forgets-unacked" || seq === undefined) return socket.send(text);
    memory.top = Math.max(memory.top, seq);
    if (memory.forgotten.some(({ from, to }) => seq >= from && seq <= to)) return;
    socket.send(JSON.stringify({ ...frame, seq: seq - memory.shift }));
  }

  #accept({ payload }: Frame, seat: Seat, ears: WorkerSocketEvents): void {
    if (seat.isAccepted) return;
    seat.isAccepted = true;
    const session = String(payload["session_id"]);
    const memory = this.#sessions.get(session) ?? seat.memory;
    this.#sessions.set(session, memory);
    seat.memory = memory;
    memory.ears = ears;
    if (payload["resumed"] !== true) return;
    seat.isEchoDue = true;
    if (this.#plant !== "resume-forgets-unacked" || memory.top <= memory.acked) return;
    memory.forgotten.push({ from: memory.acked + 1, to: memory.top });
    memory.shift += memory.top - memory.acked;
    memory.acked = memory.top;
  }

  #hear(data: Buffer, isBinary: boolean, seat: Seat, ears: WorkerSocketEvents, socket: WorkerSocket): void {
    const frame = read(data.toString("utf8"));
    const { memory } = seat;
    const pass = (text: string, to: WorkerSocketEvents = ears): void => to.message(Buffer.from(text, "utf8"), isBinary);
    switch (this.#plant) {
      case "resume-forgets-unacked":
        return pass(this.#shiftAcks(frame, seat));
      case "duplicate-after-resume": {
        const { seq: _, ack: __, ...unnumbered } = { ...frame, ack: null };
        if (frame.type === "biz.exec.feedback") memory.feedback = JSON.stringify(unnumbered);
        ears.message(data, isBinary);
        if (!seat.isEchoDue || memory.feedback === null) return;
        seat.isEchoDue = false;
        return pass(memory.feedback);
      }
      case "ack-unsettled": {
        const isNext = frame.seq !== undefined && frame.seq === memory.earlyAck + 1 && seat.isAccepted;
        if (isNext) memory.earlyAck = frame.seq;
        if (isNext && frame.type.startsWith("biz.exec.result")) socket.send(earlyAck(frame, memory.earlyAck));
        return ears.message(data, isBinary);
      }
      case "old-socket-heard":
        return (memory.ears ?? ears).message(data, isBinary);
      case "resumed-join-forgets":
        return ears.message(data, isBinary);
    }
  }

  /** The worker counts without what was forgotten; the hall must not notice. */
  #shiftAcks(frame: Frame, seat: Seat): string {
    const { payload, type } = frame;
    if (type === "control.resume") {
      const memory = this.#sessions.get(String(payload["session_id"]));
      const seen = numberIn(payload["last_seen_seq"]) + (memory?.shift ?? 0);
      if (memory !== undefined) memory.acked = Math.max(memory.acked, seen);
      return JSON.stringify({ ...frame, payload: { ...payload, last_seen_seq: seen } });
    }
    if (type !== "control.ack" || typeof payload["ack_seq"] !== "number") return JSON.stringify(frame);
    const { memory } = seat;
    const acked = payload["ack_seq"] + memory.shift;
    memory.acked = Math.max(memory.acked, acked);
    return JSON.stringify({ ...frame, payload: { ...payload, ack_seq: acked } });
  }
}

function earlyAck(frame: Frame, upTo: number): string {
  const payload = { ok: true, ack_seq: upTo, ack_bitmap: 0 };
  const sender = { role: "scheduler", id: "scheduler-control" };
  return JSON.stringify({ ...frame, type: "control.ack", id: `early-${upTo}`, sender, seq: undefined, ack: undefined, payload });
}
