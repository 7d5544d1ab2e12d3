// What the engine wants a worker to have, on its way through the session's stream: what is offered, withdrawn, sent and sent again.
// Numbers, windows and lanes are the stream's; the texts are in texts.ts.

import type { Held, SendDispatch, SendStop, SendTell } from "@astraflow/engine";
import { type FrameType, limits } from "@astraflow/protocol";
import type { Outgoing, Sent, Stream } from "@astraflow/session";
import type { Line } from "./surroundings.ts";
import type { Writer } from "./texts.ts";

/** A word of the door itself that must arrive. */
export interface SendWord {
  readonly type: "word";
  readonly frame: FrameType;
  readonly payload: object;
  readonly corr: string;
}

export interface Item extends Outgoing {
  readonly send: SendDispatch | SendStop | SendTell | SendWord;
  /** Number within the run, for the older dialects. */
  readonly runSeq: number | undefined;
}

/** About what an envelope weighs. */
const envelopeBytes = 512;

export class Outbound {
  readonly #stream: Stream<Item, unknown>;
  readonly #writer: Writer;
  readonly #features: ReadonlySet<string>;
  readonly #nameBatch: () => string;
  /** Unacknowledged dispatches by attempt, mostly one, so that a stop for something never sent, as a worker may provoke them, costs nothing. */
  readonly #dispatched = new Map<string, number>();
  /** Attempts that the worker is being told to stop. */
  readonly #stopping = new Set<string>();

  constructor(stream: Stream<Item, unknown>, writer: Writer, features: ReadonlySet<string>) {
    this.#stream = stream;
    this.#writer = writer;
    this.#features = features;
    this.#nameBatch = () => writer.nextId("biz.exec.dispatch.batch");
  }

  /** False when no frame of this dialect can hold it. */
  offerDispatch(send: SendDispatch, runSeq: number | undefined): boolean {
    const { params, id } = send.dispatch;
    const bytes = params.length + envelopeBytes;
    if (this.#writer.dialect !== "v2" && isTooLarge(params)) return false;
    const key = keyOf(send.dispatch);
    this.#dispatched.set(key, (this.#dispatched.get(key) ?? 0) + 1);
    this.#stream.offer({ lane: "command", bytes, batch: this.#features.has("batch") ? "dispatch" : null, id, send, runSeq });
    return true;
  }

  /** Takes the dispatch back where it is not acknowledged; tells those who announced `cancel`, as they may have it already. */
  offerStop(stop: SendStop): void {
    this.drop(stop);
    // Only those who announced it understand a cancel; the others' late results are stale and change nothing.
    if (!this.#features.has("cancel")) return;
    const key = keyOf(stop);
    // More than a worker can name at once is no work of ours; what it still holds its next heartbeat says again.
    if (this.#stopping.has(key) || this.#stopping.size >= limits.heldMax) return;
    this.#stopping.add(key);
    this.#put(stop, this.#writer.nextId("biz.exec.cancel"), "command", 0);
  }

  /** Whatever of it is still to be sent, or sent again, is not. */
  drop(attempt: Held): void {
    if (this.#dispatched.delete(keyOf(attempt))) this.#stream.withdraw(({ send }) => isDispatchOf(send, attempt));
  }

  /** The worker has it. */
  acked(send: Item["send"]): void {
    if (send.type === "stop") this.#stopping.delete(keyOf(send));
    if (send.type !== "dispatch") return;
    const key = keyOf(send.dispatch);
    const left = (this.#dispatched.get(key) ?? 0) - 1;
    if (left > 0) this.#dispatched.set(key, left);
    else this.#dispatched.delete(key);
  }

  offerTell(tell: SendTell): void {
    this.#put(tell, tell.frame.id, "feedback", tell.frame.payload.length);
  }

  say(frame: FrameType, payload: object, corr: string): void {
    this.#put({ type: "word", frame, payload, corr }, this.#writer.nextId(frame), "command", 0);
  }

  #put(send: Item["send"], id: string, lane: Item["lane"], bytes: number): void {
    this.#stream.offer({ lane, bytes: bytes + envelopeBytes, batch: null, id, send, runSeq: undefined });
  }

  /** As much as window and socket take. */
  flush(line: Line, roomBytes: number, now: number): void {
    for (let room = roomBytes; room > 0; ) {
      const sent = this.#stream.take(now, this.#nameBatch);
      if (sent === null) return;
      const text = this.#textOf(sent);
      room -= text.length;
      line.send(text);
    }
  }

  again(line: Line, frames: readonly Sent<Item>[]): void {
    for (const sent of frames) line.send(this.#textOf(sent));
  }

  /** Written anew each time: a repeat is rare, and kept texts would double what a session weighs. */
  #textOf(sent: Sent<Item>): string {
    const [first] = sent.items;
    if (first === undefined) return this.#writer.filler(sent);
    const { send } = first;
    switch (send.type) {
      case "dispatch": {
        const sends = sent.items.map((item) => item.send as SendDispatch);
        return this.#writer.dispatch(sent, sends, this.#features.has("fence"), first.runSeq);
      }
      case "stop":
        return this.#writer.stop(sent, send);
      case "tell":
        return this.#writer.vendor(sent, send.frame);
      case "word":
        return this.#writer.say(sent, send.frame, send.payload, send.corr);
    }
  }
}

const keyOf = ({ task, fence }: Held): string => `${task}#${fence}`;

const isDispatchOf = (send: Item["send"], { task, fence }: Held): boolean =>
  send.type === "dispatch" && send.dispatch.task === task && send.dispatch.fence === fence;

/** Older workers' libraries close the socket above a mebibyte; the rest of the frame gets 16 KiB of that. */
function isTooLarge(params: string): boolean {
  const bytesMax = limits.fieldFrameBytesMax - 16 * 1024;
  return params.length > bytesMax || (params.length > bytesMax / 3 && Buffer.byteLength(params) > bytesMax);
}
