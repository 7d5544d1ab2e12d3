// The frames that the engine wants a worker to get: queued in the session's stream, withdrawn, sent and resent.

import type { AttemptRef, SendDispatch, SendNextAnswer, SendStop, SendVendorFrame, SendWorkerCommand } from "@astraflow/engine";
import { type Dialect, LruMap, limits } from "@astraflow/protocol";
import { dialectRules, type OutgoingItem, type ReliableStream, type SentFrame } from "@astraflow/session";
import type { SessionConnection } from "../connection/session-connection.ts";
import { chainAndResourceFields, type SchedulerFrameWriter } from "../frames/frame-writer.ts";

export interface OutboundItem extends OutgoingItem {
  readonly send: SendDispatch | SendStop | SendVendorFrame | SendNextAnswer | SendWorkerCommand;
  /** Number within the run, for the older dialects. */
  readonly runSeq: number | undefined;
}

/** About what an envelope weighs. */
const envelopeBytes = 512;
/** Drain and undrain frames that are remembered until they are acknowledged; a worker that acknowledges none is told at its next join. */
const unackedDrainsMax = 16;
/** Commands that are remembered as sent: more than a worker can have open. */
const sentCommandsMax = 64;

export class OutboundFrames {
  readonly #stream: ReliableStream<OutboundItem, unknown>;
  readonly #writer: SchedulerFrameWriter;
  readonly #repeatedDispatches = new Set<string>();
  readonly #features: ReadonlySet<string>;
  readonly #nextBatchId: () => string;
  /** Unacknowledged dispatches by attempt, mostly one: a worker may provoke stops for attempts it never got, and those must cost nothing. */
  readonly #unackedDispatches = new Map<string, number>();
  /** Attempts whose dispatch waits for its resources, by task: the fence. */
  readonly #awaitingResources = new Map<string, number>();
  /** Attempts with an unacknowledged stop. */
  readonly #pendingStops = new Set<string>();
  /** Unacknowledged drain (true) and undrain (false) frames by id. */
  readonly #unackedDrains = new LruMap<string, boolean>({ entriesMax: unackedDrainsMax, touchOnGet: false });
  readonly #sentCommands = new LruMap<string, true>({ entriesMax: sentCommandsMax, touchOnGet: false });

  constructor(stream: ReliableStream<OutboundItem, unknown>, writer: SchedulerFrameWriter, features: ReadonlySet<string>) {
    this.#stream = stream;
    this.#writer = writer;
    this.#features = features;
    this.#nextBatchId = () => writer.nextId("biz.exec.dispatch.batch");
  }

  /** Its dispatch leaves once its resources are found, unless it is withdrawn before. */
  awaitResources({ task, fence }: AttemptRef): void {
    this.#awaitingResources.set(task, fence);
  }

  isAwaitingResources({ task, fence }: AttemptRef): boolean {
    return this.#awaitingResources.get(task) === fence;
  }

  /** Its resources are found. False: it was withdrawn, or another lookup was faster. */
  finishAwaiting(attempt: AttemptRef): boolean {
    return this.isAwaitingResources(attempt) && this.#awaitingResources.delete(attempt.task);
  }

  /** The worker has finished an attempt: a dispatch of it that has not left would run it once more. The older dialects name no fence. */
  handleAttemptEnd(task: string, fence: number | null): void {
    if (fence === null || this.isAwaitingResources({ task, fence })) this.#awaitingResources.delete(task);
    if (fence !== null) this.#repeatedDispatches.delete(attemptKey({ task, fence }));
    const { dialect } = this.#writer;
    if (this.#unackedDispatches.size > 0 && dialect !== "v2" && dialect !== "basic") this.#markReceived(task);
  }

  /** A report shows that the dispatch has arrived: sent again, without a number that the worker knows, it would run once more. */
  #markReceived(task: string): void {
    const ids: string[] = [];
    this.#stream.forEachUnacked(({ send, id }) => {
      if (send.type === "dispatch" && send.dispatch.task === task) ids.push(id);
    });
    for (const id of ids) for (const { send } of this.#stream.markReceived(id)) this.handleAcked(send);
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

  /** Withdraws the dispatch where it is not acknowledged, and sends a cancel to workers that announced it, as they may have it already. */
  enqueueStop(stop: SendStop): void {
    this.withdrawDispatch(stop);
    // Late results of the others are stale and change nothing.
    if (!this.#features.has("cancel")) return;
    const key = attemptKey(stop);
    // A worker that holds more than it can name at once reports the rest with its next heartbeat.
    if (this.#pendingStops.has(key) || this.#pendingStops.size >= limits.heldTasksMax) return;
    this.#pendingStops.add(key);
    this.#enqueue(stop, this.#writer.nextId("biz.exec.cancel"), "command", 0);
  }

  /** Its dispatch is neither sent nor resent any more. */
  withdrawDispatch(attempt: AttemptRef): void {
    this.#repeatedDispatches.delete(attemptKey(attempt));
    this.finishAwaiting(attempt);
    if (this.#unackedDispatches.delete(attemptKey(attempt))) this.#stream.withdraw(({ send }) => isDispatchOf(send, attempt));
  }

  /** The worker has received it. */
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

  /** The answer that a middleware waits for; one that no frame of its dialect can hold becomes an error. */
  enqueueNextResponse(next: SendNextAnswer): void {
    const { dialect } = this.#writer;
    const fits = next.result === null || !isTooLarge(dialect, next.result, JSON.stringify(next.trace));
    const message = "the result is too large for a frame to this worker; return it as an artifact";
    const send = fits ? next : { ...next, result: null, error: { code: "E.FRAME.TOO_LARGE", message } };
    this.#enqueue(send, this.#writer.nextId("biz.exec.next.response"), "command", send.result?.length ?? 0);
  }

  /** Only workers that announced `undrain` acknowledge these frames. */
  sendDrain(connection: SessionConnection, on: boolean, reason: string): void {
    const type = on ? "control.drain" : "control.undrain";
    const ackId = this.#features.has("undrain") ? this.#writer.nextId(type) : undefined;
    if (ackId !== undefined) this.#unackedDrains.set(ackId, on);
    connection.send(this.#writer.encodeDrain(type, reason, ackId));
  }

  /** Whether the acknowledged frame was a drain (`on`) or an undrain, and whether another of the same kind is unacked; null: it was neither. */
  takeAckedDrain(id: string | undefined): { readonly on: boolean; readonly isAnotherUnacked: boolean } | null {
    if (id === undefined) return null;
    const on = this.#unackedDrains.get(id);
    if (on === undefined) return null;
    this.#unackedDrains.delete(id);
    return { on, isAnotherUnacked: [...this.#unackedDrains.values()].includes(on) };
  }

  /** The frame has the command's own id, so that a refusal names the command. The engine sends open commands again with every resume. */
  enqueueCommand(command: SendWorkerCommand): void {
    if (this.#sentCommands.has(command.id)) return;
    this.#sentCommands.set(command.id, true);
    this.#enqueue(command, command.id, "command", 0);
  }

  #enqueue(send: OutboundItem["send"], id: string, lane: OutboundItem["lane"], bytes: number): void {
    this.#stream.enqueue({ lane, bytes: bytes + envelopeBytes, batch: null, id, send, runSeq: undefined });
  }

  /** Sends as much as window and socket take. */
  flush(connection: SessionConnection, roomBytes: number, now: number): void {
    for (let room = roomBytes; room > 0; ) {
      const sent = this.#stream.takeNextFrame(now, this.#nextBatchId);
      if (sent === null) return;
      const text = this.#encode(sent);
      room -= text.length;
      connection.send(text);
    }
  }

  resend(connection: SessionConnection, frames: readonly SentFrame<OutboundItem>[]): void {
    for (const sent of frames) {
      connection.send(this.#encode(sent));
      // An undecided worker may be of the first generation, which does not recognise the number.
      if (sent.number === undefined || !dialectRules[this.#writer.dialect].isWindowAcked) this.#noteRepeated(sent);
    }
  }

  #noteRepeated({ items }: SentFrame<OutboundItem>): void {
    for (const { send } of items) if (send.type === "dispatch") this.#repeatedDispatches.add(attemptKey(send.dispatch));
  }

  /** Whether its dispatch was sent more than once without a number the worker knows: it may run the first and refuse the repeat. */
  isRepeated(attempt: AttemptRef): boolean {
    return this.#repeatedDispatches.has(attemptKey(attempt));
  }

  /** Encoded anew each time: a resend is rare, and stored texts would double the memory of a session. */
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

export const frameBytesMaxOf = (dialect: Dialect): number =>
  dialect === "v2" ? limits.frameToWorkerBytesMax : limits.legacyFrameBytesMax;

/** The libraries of older workers close the socket above 1 MiB, ours above 16 MiB; 16 KiB of that are left for the rest of the frame. */
function isTooLarge(dialect: Dialect, body: string, otherFields: string): boolean {
  const bytesMax = frameBytesMaxOf(dialect) - 16 * 1024;
  const chars = body.length + otherFields.length;
  return chars > bytesMax || (chars > bytesMax / 3 && Buffer.byteLength(body) + Buffer.byteLength(otherFields) > bytesMax);
}
