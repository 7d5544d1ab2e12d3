// What the engine wants a worker to have, on its way through the session's stream: what is offered, withdrawn, sent and sent again.
// Numbers, windows and lanes are the stream's; the texts are in texts.ts.

import type { Held, SendDispatch, SendNext, SendOrder, SendStop, SendTell } from "@astraflow/engine";
import { type Dialect, limits } from "@astraflow/protocol";
import type { Outgoing, Sent, Stream } from "@astraflow/session";
import type { Line } from "./surroundings.ts";
import { companyText, type Writer } from "./texts.ts";

export interface Item extends Outgoing {
  readonly send: SendDispatch | SendStop | SendTell | SendNext | SendOrder;
  /** Number within the run, for the older dialects. */
  readonly runSeq: number | undefined;
}

/** About what an envelope weighs. */
const envelopeBytes = 512;
/** Drains and their ends that are remembered until they are acknowledged. */
const drainsMax = 16;
/** Commands that are remembered as sent: more than a worker can owe an answer for. */
const ordersMax = 64;

export class Outbound {
  readonly #stream: Stream<Item, unknown>;
  readonly #writer: Writer;
  readonly #features: ReadonlySet<string>;
  readonly #nameBatch: () => string;
  /** Unacknowledged dispatches by attempt, mostly one, so that a stop for something never sent, as a worker may provoke them, costs nothing. */
  readonly #dispatched = new Map<string, number>();
  /** Attempts whose dispatch waits for its resources, by task: the fence. */
  readonly #unbound = new Map<string, number>();
  /** Attempts that the worker is being told to stop. */
  readonly #stopping = new Set<string>();
  /** Frames that said that a drain came or went, and of which the worker has not said that it heard them. */
  readonly #drains = new Map<string, boolean>();
  /** Commands that this session was given, the oldest first. */
  readonly #orders = new Set<string>();

  constructor(stream: Stream<Item, unknown>, writer: Writer, features: ReadonlySet<string>) {
    this.#stream = stream;
    this.#writer = writer;
    this.#features = features;
    this.#nameBatch = () => writer.nextId("biz.exec.dispatch.batch");
  }

  /** Its dispatch is to leave once its resources are found, unless it is dropped before. */
  awaitBinding({ task, fence }: Held): void {
    this.#unbound.set(task, fence);
  }

  isUnbound({ task, fence }: Held): boolean {
    return this.#unbound.get(task) === fence;
  }

  /** Its resources are found. False: it is not to leave any more, or another lookup was faster. */
  endBinding(attempt: Held): boolean {
    return this.isUnbound(attempt) && this.#unbound.delete(attempt.task);
  }

  /** The worker's last word about an attempt: a dispatch of it that has not left would be run once more. The older ones name no fence. */
  heardEnd(task: string, fence: number | null): void {
    if (fence === null || this.isUnbound({ task, fence })) this.#unbound.delete(task);
  }

  /** False when no frame of this dialect can hold it. */
  offerDispatch(send: SendDispatch, runSeq: number | undefined): boolean {
    const { params, id } = send.dispatch;
    const { dialect } = this.#writer;
    const company = companyText(send, dialect);
    const bytes = params.length + company.length + envelopeBytes;
    if (isTooLarge(dialect, params, company)) return false;
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
    if (this.#stopping.has(key) || this.#stopping.size >= limits.heldTasksMax) return;
    this.#stopping.add(key);
    this.#put(stop, this.#writer.nextId("biz.exec.cancel"), "command", 0);
  }

  /** Whatever of it is still to be sent, or sent again, is not. */
  drop(attempt: Held): void {
    this.endBinding(attempt);
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

  /** The answer that a middleware waits for; one that no frame of its dialect can hold becomes an error that it can hear. */
  offerNext(next: SendNext): void {
    const { dialect } = this.#writer;
    const fits = next.result === null || !isTooLarge(dialect, next.result, JSON.stringify(next.trace));
    const message = "the result of what was called is larger than a frame to this worker may be; let it hand out an artifact";
    const send = fits ? next : { ...next, result: null, error: { code: "E.FRAME.TOO_LARGE", message } };
    this.#put(send, this.#writer.nextId("biz.exec.next.response"), "command", send.result?.length ?? 0);
  }

  /** Those who know the end of a drain are asked to say that they have heard of it, or of its beginning; the others never do. */
  tellDrain(line: Line, on: boolean, reason: string): void {
    const ask = this.#features.has("undrain") ? this.#writer.nextId(on ? "control.drain" : "control.undrain") : undefined;
    if (ask !== undefined) this.#drains.set(ask, on);
    // Who answers none of them is told at its next join.
    const [oldest] = this.#drains.keys();
    if (this.#drains.size > drainsMax && oldest !== undefined) this.#drains.delete(oldest);
    line.send(on ? this.#writer.drain(reason, ask) : this.#writer.undrain(reason, ask));
  }

  /** Whether the acknowledged frame said that a drain came (`on`) or went, and whether another that says the same is out; null: it said neither. */
  heardDrain(id: string | undefined): { readonly on: boolean; readonly isToldAgain: boolean } | null {
    const on = id === undefined ? undefined : this.#drains.get(id);
    if (id === undefined || on === undefined) return null;
    this.#drains.delete(id);
    return { on, isToldAgain: [...this.#drains.values()].includes(on) };
  }

  /**
   * The frame has the command's own id, so that a refusal of it tells which command was refused. What is open is told again with every join,
   * also of a session that goes on; what it was given once it still has.
   */
  offerOrder(order: SendOrder): void {
    if (this.#orders.has(order.id)) return;
    this.#orders.add(order.id);
    const [oldest] = this.#orders;
    if (this.#orders.size > ordersMax && oldest !== undefined) this.#orders.delete(oldest);
    this.#put(order, order.id, "command", 0);
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
      case "next":
        return this.#writer.next(sent, send);
      case "order":
        return this.#writer.order(sent, send);
    }
  }
}

const keyOf = ({ task, fence }: Held): string => `${task}#${fence}`;

const isDispatchOf = (send: Item["send"], { task, fence }: Held): boolean =>
  send.type === "dispatch" && send.dispatch.task === task && send.dispatch.fence === fence;

/** Older workers' libraries close the socket above a mebibyte, ours above 16; the rest of the frame gets 16 KiB of that. */
function isTooLarge(dialect: Dialect, body: string, beside: string): boolean {
  const bytesMax = (dialect === "v2" ? limits.frameBytesMax : limits.legacyFrameBytesMax) - 16 * 1024;
  const chars = body.length + beside.length;
  return chars > bytesMax || (chars > bytesMax / 3 && Buffer.byteLength(body) + Buffer.byteLength(beside) > bytesMax);
}
