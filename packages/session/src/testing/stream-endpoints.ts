// The two ends of the small world, as automata over real streams, with everything that must hold at one end alone checked on the way.
// Time stands still and a repeat may happen at any moment; the search decides when.

import assert from "node:assert";
import type { AckPayload } from "@astraflow/protocol";
import { bitmapPositions } from "../bitmap.ts";
import { type DialectRules, dialectRules } from "../dialect-rules.ts";
import { ReliableStream, type StreamSizes } from "../reliable-stream.ts";
import type { SentFrame } from "../send-window.ts";
import { MemoizedStateMachine, type MemoizedStep } from "./memoized-state-machine.ts";
import { command, frame, type TestItem, type TestStream } from "./stream-fixture.ts";

const resendAnytimeRules: DialectRules = {
  ...dialectRules.v2,
  resend: { firstMs: 0, factor: 1, capMs: 0, jitter: 0, sendsMax: Number.POSITIVE_INFINITY },
  gapTimeoutMs: Number.POSITIVE_INFINITY,
};

interface SenderState {
  readonly stream: TestStream;
  /** Labels in the order in which they were offered, which must be the order of their numbers. */
  readonly offered: readonly number[];
}

interface ReceiverState {
  readonly stream: TestStream;
  /** Labels that arrived, by number; how many were handed up, and which of them are settled. */
  readonly arrived: (number | undefined)[];
  deliveredCount: number;
  readonly settled: boolean[];
}

/** As bits: numbers that leave, labels that are acked. */
export interface SenderOutput {
  readonly sent: number;
  readonly acked: number;
}
const noOutput: SenderOutput = { sent: 0, acked: 0 };
const toBitSet = (numbers: readonly number[]): number => numbers.reduce((bits, number) => bits | (1 << number), 0);

/** Makes an end with a window of so many frames; a test of the search itself makes a wrong one. */
export type CreateStream = (rules: DialectRules, frames: number) => TestStream;

export const streamSizes = (frames: number): StreamSizes => ({
  sendFrames: frames,
  sendBytes: 1_000,
  recvFrames: frames,
  recvBytes: 1_000,
  batchMax: 1,
  batchBytesMax: 1_000,
});
const openCorrectStream: CreateStream = (rules, frames) => new ReliableStream<TestItem, string>(rules, streamSizes(frames));

/** How many acks a search can number in one small integer. */
const distinctAcksMax = 255;

export class StreamEndpoints {
  readonly acks: AckPayload[] = [];
  private readonly window: number;
  private readonly ackIds = new Map<string, number>();
  private readonly senders: MemoizedStateMachine<SenderState, SenderOutput>;
  private readonly receivers: MemoizedStateMachine<ReceiverState, number>;

  private readonly createStream: CreateStream;

  constructor(window: number, open: CreateStream = openCorrectStream) {
    this.window = window;
    this.createStream = open;
    this.senders = new MemoizedStateMachine([resendAnytimeRules], (_id, { stream }) => {
      assert(stream.counts.inFlight <= window, "more in flight than the window allows");
    });
    this.receivers = new MemoizedStateMachine([resendAnytimeRules], (id, node) => this.checkReceiver(id, node));
  }

  get sizes(): { senders: number; receivers: number } {
    return { senders: this.senders.size, receivers: this.receivers.size };
  }

  /** A sender that wants these labels delivered, in this order. */
  openSender(labels: readonly number[]): number {
    const stream = this.createStream(resendAnytimeRules, this.window);
    for (const label of labels) stream.enqueue(command(`${label}`));
    return this.senders.internState({ stream, offered: labels });
  }

  openReceiver(): number {
    return this.receivers.internState({
      stream: this.createStream(resendAnytimeRules, this.window),
      arrived: [],
      deliveredCount: 0,
      settled: [],
    });
  }

  send(sender: number): MemoizedStep<SenderOutput> {
    return this.senders.step(sender, 0, ({ stream, offered }) => {
      const sent = stream.takeNextFrame(0, () => "batch");
      return sent === null ? noOutput : { sent: sentNumbers([sent], offered), acked: 0 };
    });
  }

  resend(sender: number): MemoizedStep<SenderOutput> {
    return this.senders.step(sender, 1, ({ stream, offered }) => {
      const { resend: repeat, verdict } = stream.checkTimeouts(0, () => 0.5);
      assert.equal(verdict, "alive");
      return { sent: sentNumbers(repeat, offered), acked: 0 };
    });
  }

  handleAck(sender: number, ack: number): MemoizedStep<SenderOutput> {
    return this.senders.step(sender, 32 + ack, ({ stream }) => {
      const items = stream.handleAck(this.acks[ack] ?? {}, undefined);
      assert(items !== "unsent", "an ack names what was never sent");
      return { sent: 0, acked: toBitSet(items.map(({ label }) => Number(label))) };
    });
  }

  pauseSender(sender: number): number {
    return this.senders.step(sender, 2, ({ stream }) => {
      stream.pause();
      return noOutput;
    }).next;
  }

  resumeSender(sender: number, peerLastSeen: number): MemoizedStep<SenderOutput> {
    return this.senders.step(sender, 8 + peerLastSeen, ({ stream, offered }) => {
      const again = stream.resume(peerLastSeen, 0);
      assert(again !== "unsent", "an honest peer cannot resume");
      return { sent: sentNumbers(again, offered), acked: 0 };
    });
  }

  /** Labels that were not acked, in the order in which a new session sends them. */
  unackedLabels(sender: number): number[] {
    const left: number[] = [];
    this.senders.at(sender).stream.forEachUnacked(({ label }) => left.push(Number(label)));
    return left;
  }

  /** The frame under that number, as it is in this sender's session. */
  receive(receiver: number, sender: number, number: number): number {
    return this.receiveAs(receiver, number, this.senders.at(sender).offered[number] ?? -1);
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
    const { deliveredCount: handed, settled } = this.receivers.at(receiver);
    return Array.from({ length: handed }, (_, number) => number).filter((number) => settled[number] !== true);
  }

  hasPendingAcks(receiver: number): boolean {
    return this.receivers.at(receiver).stream.hasPendingAcks;
  }

  lastSeen(receiver: number): number {
    return this.receivers.at(receiver).stream.lastSeen;
  }

  /** The ack it owes; never one that covers a frame that is not settled. */
  ack(receiver: number): MemoizedStep<number> {
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
  resumeReceiver(receiver: number): MemoizedStep<number> {
    return this.receivers.step(receiver, 2, (node) => {
      assert.deepEqual(node.stream.resume(null, 0), []);
      return this.internAck(node.stream.buildWindowAck(undefined), node);
    });
  }

  /** Whether this number was here before; a further copy of it can do nothing but make an ack owed. */
  hasSeen(receiver: number, number: number): boolean {
    return this.receivers.at(receiver).arrived[number] !== undefined;
  }

  private receiveAs(receiver: number, number: number, label: number): number {
    return this.receivers.step(receiver, 64 + number * 8 + label, (node) => {
      const { verdict, deliver } = node.stream.receive(frame(number), `${label}`, 0);
      assert(verdict !== "outside", "an honest sender is outside the window");
      assert.equal(verdict === "repeat", node.arrived[number] !== undefined, "a repeat was taken, or a new frame was not");
      node.arrived[number] = label;
      for (const { tag, item } of deliver) {
        assert.equal(tag.number, node.deliveredCount, "not handed up in order, once");
        assert.equal(Number(item), node.arrived[node.deliveredCount], "handed up under another number");
        node.deliveredCount += 1;
      }
      return 0;
    }).next;
  }

  private internAck(ack: AckPayload, { settled }: ReceiverState): number {
    for (let number = 0; number <= (ack.ack_seq ?? -1); number += 1) assert(settled[number], "acked before it was settled");
    for (const bit of bitmapPositions(ack.ack_bitmap))
      assert(settled[(ack.ack_seq ?? -1) + 1 + bit], "acked before it was settled");
    const print = JSON.stringify(ack);
    const id = this.ackIds.get(print) ?? this.acks.push(ack) - 1;
    this.ackIds.set(print, id);
    assert(id < distinctAcksMax, "too many unlike acks for the keys of the search");
    return id;
  }

  private checkReceiver(id: number, { stream, arrived }: ReceiverState): void {
    const { buffered, unsettled } = stream.counts;
    assert(buffered + unsettled <= this.window, "more is kept than the window allows");
    // What lets the search keep a single copy of all numbers that were here before.
    const after = arrived.flatMap((label, number) => (label === undefined ? [] : [this.receiveAs(id, number, label)]));
    assert(new Set(after).size <= 1, "repeats differ in what they do");
  }
}

/** The numbers of frames, which must be those of the order in which their items were offered. */
function sentNumbers(sent: readonly SentFrame<TestItem>[], offered: readonly number[]): number {
  const numbers = sent.map(({ number = Number.NaN }) => number);
  for (const [index, { items }] of sent.entries())
    assert.deepEqual(
      items.map(({ label }) => Number(label)),
      [offered[numbers[index] ?? Number.NaN]],
    );
  return toBitSet(numbers);
}
