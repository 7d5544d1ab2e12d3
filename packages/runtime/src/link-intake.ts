// What the scheduler's frames of work mean to this worker: dispatches, cancels, vendor frames, and what to say to those it cannot read.
// They come here in order and once (packages/session); that they are acked afterwards is the link's business.

import {
  type CancelPayload,
  type DispatchPayload,
  type Envelope,
  Fault,
  type JsonObject,
  type JsonValue,
  readFrame,
  readPayload,
} from "@astraflow/protocol";
import type { ExtEar } from "./link-ext.ts";
import type { Work } from "./work.ts";

export interface IntakePorts {
  readonly work: Work;
  readonly ext: ExtEar;
  /** Why no new work is taken just now; null: it is. */
  refusal(): string | null;
}

export class Intake {
  readonly #ports: IntakePorts;

  constructor(ports: IntakePorts) {
    this.#ports = ports;
  }

  /** Null: understood, or answered by a word of its own. Else why not, for whoever asked. Never fatal. */
  take(envelope: Envelope): string | null {
    const frame = readFrame("v2", envelope);
    if (frame instanceof Fault) return this.#takeUnread(envelope, frame);
    switch (frame.type) {
      case "biz.exec.dispatch":
        this.#takeDispatch(frame.payload);
        return null;
      case "biz.exec.dispatch.batch":
        for (const item of frame.payload.items) this.#takeDispatch(item);
        return null;
      case "biz.exec.cancel":
        this.#takeCancel(frame.payload);
        return null;
      case "biz.exec.next.response":
        this.#ports.work.calls.answered(frame.payload);
        return null;
      case "ext":
        return this.#ports.ext.take(envelope);
      case "biz.pkg.install":
      case "biz.pkg.uninstall":
        // By a word that is said until it is acked: an ack that says no may be lost with its socket, and the next ack covers it.
        this.#ports.work.refusePackage(frame.payload, `${envelope.type} is not handled by this worker`);
        return null;
      default:
        return `${envelope.type} is not handled by this worker`;
    }
  }

  #takeDispatch(dispatch: DispatchPayload): void {
    const refusal = this.#ports.refusal();
    if (refusal === null) this.#ports.work.takeDispatch(dispatch);
    else this.#ports.work.turnAway(dispatch, refusal);
  }

  #takeCancel(cancel: CancelPayload): void {
    this.#ports.work.cancel(cancel);
  }

  /** Whoever can be named is told; in a batch one bad item must not take the others with it. */
  #takeUnread(envelope: Envelope, problem: Fault): string | null {
    const { items } = envelope.payload;
    if (envelope.type === "biz.exec.dispatch.batch" && Array.isArray(items)) return this.#takeItems(items);
    const isTold = envelope.type === "biz.exec.dispatch" && this.#ports.work.refuseUnread(envelope.payload, problem);
    return isTold ? null : problem.message;
  }

  #takeItems(items: readonly JsonValue[]): string | null {
    let untold: string | null = null;
    for (const item of items) {
      const dispatch = readPayload("v2", "biz.exec.dispatch", item);
      if (!(dispatch instanceof Fault)) this.#takeDispatch(dispatch);
      else if (!this.#ports.work.refuseUnread(asObject(item), dispatch)) untold = dispatch.message;
    }
    return untold;
  }
}

const asObject = (value: JsonValue): JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
