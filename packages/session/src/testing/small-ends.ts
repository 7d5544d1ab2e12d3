// The two ends of the small world, as automata over real streams, with everything that must hold at one end alone checked on the way.
// Time stands still and a repeat may happen at any moment; the search decides when.

import assert from "node:assert";
import type { AckPayload } from "@astraflow/protocol";
import { bitsOf } from "../bitmap.ts";
import { type DialectRules, dialectRules } from "../dialect-rules.ts";
import type { Sent } from "../send-window.ts";
import { Stream, type StreamSizes } from "../stream.ts";
import { Automaton, type Step } from "./automaton.ts";
import { command, frame, type Parcel, type TestStream } from "./rig.ts";

const always: DialectRules = {
  ...dialectRules.v2,
  retry: { firstMs: 0, factor: 1, capMs: 0, jitter: 0, sendsMax: Number.POSITIVE_INFINITY },
  gapMs: Number.POSITIVE_INFINITY,
};

interface Sender {
  readonly stream: TestStream;
  /** Labels in the order in which they were offered, which must be the order of their numbers. */
  readonly offered: readonly number[];
}

interface Receiver {
  readonly stream: TestStream;
  /** Labels that arrived, by number; how many were handed up, and which of them are settled. */
  readonly arrived: (number | undefined)[];
  handed: number;
  readonly settled: boolean[];
}

/** As bits: numbers that leave, labels that are acked. */
export interface SenderOut {
  readonly leave: number;
  readonly acked: number;
}
const nothingOut: SenderOut = { leave: 0, acked: 0 };
const bitsFrom = (numbers: readonly number[]): number => numbers.reduce((bits, number) => bits | (1 << number), 0);

/** Makes an end with a window of so many frames; a test of the search itself makes a wrong one. */
export type OpenStream = (rules: DialectRules, frames: number) => TestStream;

export const sizesOf = (frames: number): StreamSizes => ({
  sendFrames: frames,
  sendBytes: 1_000,
  recvFrames: frames,
  recvBytes: 1_000,
  batchMax: 1,
  batchBytesMax: 1_000,
});
const openHonestly: OpenStream = (rules, frames) => new Stream<Parcel, string>(rules, sizesOf(frames));

/** What a search can tell apart in one small integer. */
const unlikeAcksMax = 255;

export class SmallEnds {
  readonly acks: AckPayload[] = [];
  private readonly window: number;
  private readonly ackIds = new Map<string, number>();
  private readonly senders: Automaton<Sender, SenderOut>;
  private readonly receivers: Automaton<Receiver, number>;

  private readonly open: OpenStream;

  constructor(window: number, open: OpenStream = openHonestly) {
    this.window = window;
    this.open = open;
    this.senders = new Automaton([always], (_id, { stream }) => {
      assert(stream.counts.inFlight <= window, "more in flight than the window allows");
    });
    this.receivers = new Automaton([always], (id, node) => this.lookAtReceiver(id, node));
  }

  get sizes(): { senders: number; receivers: number } {
    return { senders: this.senders.size, receivers: this.receivers.size };
  }

  /** A sender that wants these labels delivered, in this order. */
  openSender(labels: readonly number[]): number {
    const stream = this.open(always, this.window);
    for (const label of labels) stream.offer(command(`${label}`));
    return this.senders.intern({ stream, offered: labels });
  }

  openReceiver(): number {
    return this.receivers.intern({ stream: this.open(always, this.window), arrived: [], handed: 0, settled: [] });
  }

  send(sender: number): Step<SenderOut> {
    return this.senders.step(sender, 0, ({ stream, offered }) => {
      const sent = stream.take(0, () => "batch");
      return sent === null ? nothingOut : { leave: leaving([sent], offered), acked: 0 };
    });
  }

  repeat(sender: number): Step<SenderOut> {
    return this.senders.step(sender, 1, ({ stream, offered }) => {
      const { repeat, verdict } = stream.due(0, () => 0.5);
      assert.equal(verdict, "alive");
      return { leave: leaving(repeat, offered), acked: 0 };
    });
  }

  hear(sender: number, ack: number): Step<SenderOut> {
    return this.senders.step(sender, 32 + ack, ({ stream }) => {
      const items = stream.heardAck(this.acks[ack] ?? {}, undefined);
      assert(items !== "unsent", "an ack names what was never sent");
      return { leave: 0, acked: bitsFrom(items.map(({ label }) => Number(label))) };
    });
  }

  pauseSender(sender: number): number {
    return this.senders.step(sender, 2, ({ stream }) => {
      stream.pause();
      return nothingOut;
    }).next;
  }

  resumeSender(sender: number, peerSaw: number): Step<SenderOut> {
    return this.senders.step(sender, 8 + peerSaw, ({ stream, offered }) => {
      const again = stream.resume(peerSaw, 0);
      assert(again !== "unsent", "an honest peer cannot resume");
      return { leave: leaving(again, offered), acked: 0 };
    });
  }

  /** Labels that were not acked, in the order in which a new session sends them. */
  leftOf(sender: number): number[] {
    const left: number[] = [];
    this.senders.at(sender).stream.unacked(({ label }) => left.push(Number(label)));
    return left;
  }

  /** The frame under that number, as it is in this sender's session. */
  arrive(receiver: number, sender: number, number: number): number {
    return this.arriveAs(receiver, number, this.senders.at(sender).offered[number] ?? -1);
  }

  settle(receiver: number, number: number): { next: number; label: number } {
    const { next } = this.receivers.step(receiver, 32 + number, (node) => {
      node.stream.settle({ number, id: `in-${number}`, isAsked: false, bytes: 10 });
      node.settled[number] = true;
      return 0;
    });
    return { next, label: this.receivers.at(receiver).arrived[number] ?? -1 };
  }

  unsettled(receiver: number): number[] {
    const { handed, settled } = this.receivers.at(receiver);
    return Array.from({ length: handed }, (_, number) => number).filter((number) => settled[number] !== true);
  }

  isOwing(receiver: number): boolean {
    return this.receivers.at(receiver).stream.isOwing;
  }

  lastSeen(receiver: number): number {
    return this.receivers.at(receiver).stream.lastSeen;
  }

  /** The ack it owes; never one that covers a frame that is not settled. */
  ack(receiver: number): Step<number> {
    return this.receivers.step(receiver, 0, (node) => {
      const [ack, ...more] = node.stream.takeAcks();
      assert(ack !== undefined && more.length === 0, "acks are not merged");
      return this.internAck(ack, node);
    });
  }

  pauseReceiver(receiver: number): number {
    return this.receivers.step(receiver, 1, ({ stream }) => {
      stream.pause();
      return 0;
    }).next;
  }

  /** Back on a socket, and the ack that answers the resume. */
  resumeReceiver(receiver: number): Step<number> {
    return this.receivers.step(receiver, 2, (node) => {
      assert.deepEqual(node.stream.resume(null, 0), []);
      return this.internAck(node.stream.windowAck(undefined), node);
    });
  }

  /** Whether this number was here before; a further copy of it can do nothing but make an ack owed. */
  hasSeen(receiver: number, number: number): boolean {
    return this.receivers.at(receiver).arrived[number] !== undefined;
  }

  private arriveAs(receiver: number, number: number, label: number): number {
    return this.receivers.step(receiver, 64 + number * 8 + label, (node) => {
      const { verdict, deliver } = node.stream.arrive(frame(number), `${label}`, 0);
      assert(verdict !== "outside", "an honest sender is outside the window");
      assert.equal(verdict === "repeat", node.arrived[number] !== undefined, "a repeat was taken, or a new frame was not");
      node.arrived[number] = label;
      for (const { ticket, item } of deliver) {
        assert.equal(ticket.number, node.handed, "not handed up in order, once");
        assert.equal(Number(item), node.arrived[node.handed], "handed up under another number");
        node.handed += 1;
      }
      return 0;
    }).next;
  }

  private internAck(ack: AckPayload, { settled }: Receiver): number {
    for (let number = 0; number <= (ack.ack_seq ?? -1); number += 1) assert(settled[number], "acked before it was settled");
    for (const bit of bitsOf(ack.ack_bitmap)) assert(settled[(ack.ack_seq ?? -1) + 1 + bit], "acked before it was settled");
    const print = JSON.stringify(ack);
    const id = this.ackIds.get(print) ?? this.acks.push(ack) - 1;
    this.ackIds.set(print, id);
    assert(id < unlikeAcksMax, "too many unlike acks for the keys of the search");
    return id;
  }

  private lookAtReceiver(id: number, { stream, arrived }: Receiver): void {
    const { buffered, unsettled } = stream.counts;
    assert(buffered + unsettled <= this.window, "more is kept than the window allows");
    // What lets the search keep a single copy of all numbers that were here before.
    const after = arrived.flatMap((label, number) => (label === undefined ? [] : [this.arriveAs(id, number, label)]));
    assert(new Set(after).size <= 1, "repeats differ in what they do");
  }
}

/** The numbers of frames, which must be those of the order in which their items were offered. */
function leaving(sent: readonly Sent<Parcel>[], offered: readonly number[]): number {
  for (const { number, items } of sent)
    assert.deepEqual(
      items.map(({ label }) => Number(label)),
      [offered[number]],
    );
  return bitsFrom(sent.map(({ number }) => number));
}
