// I20: no end has more numbered frames in flight than the windows that were announced to it allow. In flight is what it has sent and no ack
// that reached it has covered; what an end may not know yet is not held against it.

import type { Bench, Checker } from "./checker.ts";
import { ackIn, type WireFrame } from "./wire.ts";

interface Sender {
  readonly inFlight: Set<number>;
  /** The highest number it has used. */
  top: number;
  /** What it was told by the accept, and by the last ack. */
  own: number;
  peer: number;
}

export function window({ fail, scene }: Bench): Checker {
  const senders = new Map<string, Sender>();
  let saw = 0;

  const senderOf = (stream: string, toward: string): Sender => {
    const name = `${stream} ${toward}`;
    let sender = senders.get(name);
    if (sender === undefined) {
      const unbounded = Number.POSITIVE_INFINITY;
      senders.set(name, (sender = { inFlight: new Set(), top: Number.NEGATIVE_INFINITY, own: unbounded, peer: unbounded }));
    }
    return sender;
  };

  const judge = (frame: WireFrame, seq: number): void => {
    const { stream, seen } = frame;
    const sender = senderOf(stream, seen.toward);
    if (seq <= sender.top) return;
    sender.top = seq;
    sender.inFlight.add(seq);
    const limit = Math.min(sender.own, sender.peer);
    saw++;
    if (sender.inFlight.size > limit)
      fail(`${sender.inFlight.size} frames are in flight on ${stream} towards the ${seen.toward}, whose window is ${limit}`, [
        seen.worker,
        seen.connection,
      ]);
  };

  const hearAccept = ({ payload, seen, stream }: WireFrame): void => {
    const { send_window: down, recv_window: up } = payload;
    if (seen.event === "sent" && typeof down === "number") senderOf(stream, "worker").own = down;
    if (seen.event === "delivered" && typeof up === "number") senderOf(stream, "scheduler").own = up;
  };

  const hearAck = (frame: WireFrame): void => {
    const said = ackIn(frame);
    const sender = senderOf(frame.stream, frame.seen.toward === "worker" ? "scheduler" : "worker");
    const { recv_window: peer } = frame.payload;
    if (typeof peer === "number") sender.peer = Math.max(1, peer);
    if (said !== null) free(sender, said.upTo, said.beyond);
  };

  const free = ({ inFlight }: Sender, upTo: number, beyond: readonly number[]): void => {
    for (const seq of inFlight) if (seq <= upTo) inFlight.delete(seq);
    for (const seq of beyond) inFlight.delete(seq);
  };

  return {
    get saw() {
      return saw;
    },
    frame(frame) {
      const { seen, seq, type, payload } = frame;
      if (type === "control.session.accept") hearAccept(frame);
      if (seen.event === "delivered" && type === "control.ack") hearAck(frame);
      // Asking to resume also says what was seen.
      if (seen.event === "delivered" && type === "control.resume" && typeof payload["last_seen_seq"] === "number")
        free(senderOf(frame.stream, "worker"), payload["last_seen_seq"], []);
      // The first generation has a window of its own and reads no other.
      const isDeaf = seen.toward === "scheduler" && scene.isOlder(`${seen.tenant}/${seen.instance}`);
      if (seen.event === "sent" && seq !== null && !isDeaf) judge(frame, seq);
    },
  };
}
