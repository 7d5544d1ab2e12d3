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
import type { AttemptManager } from "./attempt-manager.ts";
import type { VendorFrameReceiver } from "./vendor-frame-receiver.ts";

export interface WorkFrameDispatcherPorts {
  readonly attempts: AttemptManager;
  readonly vendorFrames: VendorFrameReceiver;
  /** Why no new work is taken just now; null: it is. */
  refusalReason(): string | null;
}

export class WorkFrameDispatcher {
  readonly #ports: WorkFrameDispatcherPorts;

  constructor(ports: WorkFrameDispatcherPorts) {
    this.#ports = ports;
  }

  /** Null: understood, or answered by a word of its own. Else why not, for whoever asked. Never fatal. */
  handleFrame(envelope: Envelope): string | null {
    const frame = readFrame("v2", envelope);
    if (frame instanceof Fault) return this.#handleUnreadable(envelope, frame);
    switch (frame.type) {
      case "biz.exec.dispatch":
        this.#handleDispatch(frame.payload);
        return null;
      case "biz.exec.dispatch.batch":
        for (const item of frame.payload.items) this.#handleDispatch(item);
        return null;
      case "biz.exec.cancel":
        this.#handleCancel(frame.payload);
        return null;
      case "biz.exec.next.response":
        this.#ports.attempts.nextCalls.handleResponse(frame.payload);
        return null;
      case "ext":
        return this.#ports.vendorFrames.handleFrame(envelope);
      case "biz.pkg.install":
      case "biz.pkg.uninstall":
        // By a word that is said until it is acked: an ack that says no may be lost with its socket, and the next ack covers it.
        this.#ports.attempts.refusePackageCommand(frame.payload, `${envelope.type} is not handled by this worker`);
        return null;
      default:
        return `${envelope.type} is not handled by this worker`;
    }
  }

  #handleDispatch(dispatch: DispatchPayload): void {
    const refusal = this.#ports.refusalReason();
    if (refusal === null) this.#ports.attempts.handleDispatch(dispatch);
    else this.#ports.attempts.refuseDispatch(dispatch, refusal);
  }

  #handleCancel(cancel: CancelPayload): void {
    this.#ports.attempts.handleCancel(cancel);
  }

  /** Whoever can be named is told; in a batch one bad item must not take the others with it. */
  #handleUnreadable(envelope: Envelope, problem: Fault): string | null {
    const { items } = envelope.payload;
    if (envelope.type === "biz.exec.dispatch.batch" && Array.isArray(items)) return this.#handleBatchItems(items);
    const isTold =
      envelope.type === "biz.exec.dispatch" && this.#ports.attempts.refuseUnreadableDispatch(envelope.payload, problem);
    return isTold ? null : problem.message;
  }

  #handleBatchItems(items: readonly JsonValue[]): string | null {
    let untold: string | null = null;
    for (const item of items) {
      const dispatch = readPayload("v2", "biz.exec.dispatch", item);
      if (!(dispatch instanceof Fault)) this.#handleDispatch(dispatch);
      else if (!this.#ports.attempts.refuseUnreadableDispatch(asObject(item), dispatch)) untold = dispatch.message;
    }
    return untold;
  }
}

const asObject = (value: JsonValue): JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
