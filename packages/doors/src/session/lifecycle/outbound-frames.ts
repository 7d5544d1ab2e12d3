// What the engine wants a worker to have, on its way through the session's stream: what is offered, withdrawn, sent and sent again.
// Numbers, windows and lanes are the stream's; the texts are in frame-writer.ts.

import type { AttemptRef, SendDispatch, SendNextAnswer, SendStop, SendVendorFrame, SendWorkerCommand } from "@astraflow/engine";
import { type Dialect, limits } from "@astraflow/protocol";
import type { OutgoingItem, ReliableStream, SentFrame } from "@astraflow/session";
import { chainAndResourceFields, type SchedulerFrameWriter } from "../frames/frame-writer.ts";
import type { SessionTransport } from "./session-context.ts";

export interface OutboundItem extends OutgoingItem {
  readonly send: SendDispatch | SendStop | SendVendorFrame | SendNextAnswer | SendWorkerCommand;
  /** Number within the run, for the older dialects. */
  readonly runSeq: number | undefined;
}

/** About what an envelope weighs. */
const envelopeBytes = 512;
/** Drains and their ends that are remembered until they are acknowledged. */
const unackedDrainsMax = 16;
/** Commands that are remembered as sent: more than a worker can owe an answer for. */
const sentCommandsMax = 64;

export class OutboundFrames {
  readonly #stream: ReliableStream<OutboundItem, unknown>;
  readonly #writer: SchedulerFrameWriter;
  readonly #features: ReadonlySet<string>;
  readonly #nextBatchId: () => string;
  /** Unacknowledged dispatches by attempt, mostly one, so that a stop for something never sent, as a worker may provoke them, costs nothing. */
  readonly #unackedDispatches = new Map<string, number>();
  /** Attempts whose dispatch waits for its resources, by task: the fence. */
  readonly #awaitingResources = new Map<string, number>();
  /** Attempts that the worker is being told to stop. */
  readonly #pendingStops = new Set<string>();
  /** Frames that said that a drain came or went, and of which the worker has not said that it heard them. */
  readonly #unackedDrains = new Map<string, boolean>();
  /** Commands that this session was given, the oldest first. */
  readonly #sentCommands = new Set<string>();

  constructor(stream: ReliableStream<OutboundItem, unknown>, writer: SchedulerFrameWriter, features: ReadonlySet<string>) {
    this.#stream = stream;
    this.#writer = writer;
    this.#features = features;
    this.#nextBatchId = () => writer.nextId("biz.exec.dispatch.batch");
  }

  /** Its dispatch is to leave once its resources are found, unless it is dropped before. */
  awaitResources({ task, fence }: AttemptRef): void {
    this.#awaitingResources.set(task, fence);
  }

  isAwaitingResources({ task, fence }: AttemptRef): boolean {
    return this.#awaitingResources.get(task) === fence;
  }

  /** Its resources are found. False: it is not to leave any more, or another lookup was faster. */
  finishAwaiting(attempt: AttemptRef): boolean {
    return this.isAwaitingResources(attempt) && this.#awaitingResources.delete(attempt.task);
  }

  /** The worker's last word about an attempt: a dispatch of it that has not left would be run once more. The older ones name no fence. */
  handleTaskEnd(task: string, fence: number | null): void {
    if (fence === null || this.isAwaitingResources({ task, fence })) this.#awaitingResources.delete(task);
  }

  /** False when no frame of this dialect can hold it. */
  enqueueDispatch(send: SendDispatch, runSeq: number | undefined): boolean {
    const { params, id } = send.dispatch;
    const { dialect } = this.#writer;
    const contextFields = chainAndResourceFields(send, dialect);
    const bytes = params.length + contextFields.length + envelopeBytes;
    if (isTooLarge(dialect, params, contextFields)) return false;
    const key = attemptKey(send.dispatch);
    this.#unackedDispatches.set(key, (this.#unackedDispatches.get(key) ?? 0) + 1);
    this.#stream.enqueue({ lane: "command", bytes, batch: this.#features.has("batch") ? "dispatch" : null, id, send, runSeq });
    return true;
  }

  /** Takes the dispatch back where it is not acknowledged; tells those who announced `cancel`, as they may have it already. */
  enqueueStop(stop: SendStop): void {
    this.withdrawDispatch(stop);
    // Only those who announced it understand a cancel; the others' late results are stale and change nothing.
    if (!this.#features.has("cancel")) return;
    const key = attemptKey(stop);
    // More than a worker can name at once is no work of ours; what it still holds its next heartbeat says again.
    if (this.#pendingStops.has(key) || this.#pendingStops.size >= limits.heldTasksMax) return;
    this.#pendingStops.add(key);
    this.#enqueue(stop, this.#writer.nextId("biz.exec.cancel"), "command", 0);
  }

  /** Whatever of it is still to be sent, or sent again, is not. */
  withdrawDispatch(attempt: AttemptRef): void {
    this.finishAwaiting(attempt);
    if (this.#unackedDispatches.delete(attemptKey(attempt))) this.#stream.withdraw(({ send }) => isDispatchOf(send, attempt));
  }

  /** The worker has it. */
  handleAcked(send: OutboundItem["send"]): void {
    if (send.type === "stop") this.#pendingStops.delete(attemptKey(send));
    if (send.type !== "dispatch") return;
    const key = attemptKey(send.dispatch);
    const left = (this.#unackedDispatches.get(key) ?? 0) - 1;
    if (left > 0) this.#unackedDispatches.set(key, left);
    else this.#unackedDispatches.delete(key);
  }

  enqueueVendorFrame(vendorFrame: SendVendorFrame): void {
    this.#enqueue(vendorFrame, vendorFrame.frame.id, "feedback", vendorFrame.frame.payload.length);
  }

  /** The answer that a middleware waits for; one that no frame of its dialect can hold becomes an error that it can hear. */
  enqueueNextResponse(next: SendNextAnswer): void {
    const { dialect } = this.#writer;
    const fits = next.result === null || !isTooLarge(dialect, next.result, JSON.stringify(next.trace));
    const message = "the result of what was called is larger than a frame to this worker may be; let it hand out an artifact";
    const send = fits ? next : { ...next, result: null, error: { code: "E.FRAME.TOO_LARGE", message } };
    this.#enqueue(send, this.#writer.nextId("biz.exec.next.response"), "command", send.result?.length ?? 0);
  }

  /** Those who know the end of a drain are asked to say that they have heard of it, or of its beginning; the others never do. */
  sendDrain(connection: SessionTransport, on: boolean, reason: string): void {
    const ackId = this.#features.has("undrain") ? this.#writer.nextId(on ? "control.drain" : "control.undrain") : undefined;
    if (ackId !== undefined) this.#unackedDrains.set(ackId, on);
    // Who answers none of them is told at its next join.
    const [oldest] = this.#unackedDrains.keys();
    if (this.#unackedDrains.size > unackedDrainsMax && oldest !== undefined) this.#unackedDrains.delete(oldest);
    connection.send(on ? this.#writer.encodeDrain(reason, ackId) : this.#writer.encodeUndrain(reason, ackId));
  }

  /** Whether the acknowledged frame said that a drain came (`on`) or went, and whether another that says the same is out; null: it said neither. */
  takeAckedDrain(id: string | undefined): { readonly on: boolean; readonly isToldAgain: boolean } | null {
    const on = id === undefined ? undefined : this.#unackedDrains.get(id);
    if (id === undefined || on === undefined) return null;
    this.#unackedDrains.delete(id);
    return { on, isToldAgain: [...this.#unackedDrains.values()].includes(on) };
  }

  /**
   * The frame has the command's own id, so that a refusal of it tells which command was refused. What is open is told again with every join,
   * also of a session that goes on; what it was given once it still has.
   */
  enqueueCommand(command: SendWorkerCommand): void {
    if (this.#sentCommands.has(command.id)) return;
    this.#sentCommands.add(command.id);
    const [oldest] = this.#sentCommands;
    if (this.#sentCommands.size > sentCommandsMax && oldest !== undefined) this.#sentCommands.delete(oldest);
    this.#enqueue(command, command.id, "command", 0);
  }

  #enqueue(send: OutboundItem["send"], id: string, lane: OutboundItem["lane"], bytes: number): void {
    this.#stream.enqueue({ lane, bytes: bytes + envelopeBytes, batch: null, id, send, runSeq: undefined });
  }

  /** As much as window and socket take. */
  flush(connection: SessionTransport, roomBytes: number, now: number): void {
    for (let room = roomBytes; room > 0; ) {
      const sent = this.#stream.takeNextFrame(now, this.#nextBatchId);
      if (sent === null) return;
      const text = this.#encode(sent);
      room -= text.length;
      connection.send(text);
    }
  }

  resend(connection: SessionTransport, frames: readonly SentFrame<OutboundItem>[]): void {
    for (const sent of frames) connection.send(this.#encode(sent));
  }

  /** Written anew each time: a repeat is rare, and kept texts would double what a session weighs. */
  #encode(sent: SentFrame<OutboundItem>): string {
    const [first] = sent.items;
    if (first === undefined) return this.#writer.encodeFiller(sent);
    const { send } = first;
    switch (send.type) {
      case "dispatch": {
        const sends = sent.items.map((item) => item.send as SendDispatch);
        return this.#writer.encodeDispatch(sent, sends, this.#features.has("fence"), first.runSeq);
      }
      case "stop":
        return this.#writer.encodeStop(sent, send);
      case "tell":
        return this.#writer.encodeVendorFrame(sent, send.frame);
      case "next":
        return this.#writer.encodeNextResponse(sent, send);
      case "order":
        return this.#writer.encodeCommand(sent, send);
    }
  }
}

const attemptKey = ({ task, fence }: AttemptRef): string => `${task}#${fence}`;

const isDispatchOf = (send: OutboundItem["send"], { task, fence }: AttemptRef): boolean =>
  send.type === "dispatch" && send.dispatch.task === task && send.dispatch.fence === fence;

/** Older workers' libraries close the socket above a mebibyte, ours above 16; the rest of the frame gets 16 KiB of that. */
function isTooLarge(dialect: Dialect, body: string, otherFields: string): boolean {
  const bytesMax = (dialect === "v2" ? limits.frameBytesMax : limits.legacyFrameBytesMax) - 16 * 1024;
  const chars = body.length + otherFields.length;
  return chars > bytesMax || (chars > bytesMax / 3 && Buffer.byteLength(body) + Buffer.byteLength(otherFields) > bytesMax);
}
