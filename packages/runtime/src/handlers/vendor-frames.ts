// Vendor frames (`ext.vendor.*`) as package code sees them: who listens to which type, and how one is sent.

import { Fault, fault, isRecord, limits } from "@astraflow/protocol";
import type { HandlerVendorFrames, IncomingVendorFrame } from "@astraflow/sdk";
import { checkReportText } from "../attempts/report-limits.ts";

export interface OutgoingVendorFrame {
  /** Begins with `ext.vendor.` */
  readonly type: string;
  /** By which the receiver recognises a repeat; the link makes one where it is absent. */
  readonly id?: string | undefined;
  readonly corr?: string | undefined;
  /** Text of a JSON object. */
  readonly payload: string;
}

export interface VendorFramePorts {
  sendFrame(draft: OutgoingVendorFrame): Promise<boolean>;
  /** All types that have a listener now; called after each change. */
  listenedTypesChanged(types: readonly string[]): void;
  reportProblem(problem: { message: string; cause: unknown }): void;
}

const vendorTypePattern = /^ext\.vendor\.[^\p{Cc}]+$/u;

export class VendorFrameHub {
  readonly #listeners = new Map<string, Set<(frame: IncomingVendorFrame) => void>>();
  #ports: VendorFramePorts | null = null;

  readonly handlerApi: HandlerVendorFrames = {
    send: async (type, payload, { corr } = {}) => {
      const draft = validateDraft(type, payload, corr);
      if (draft instanceof Fault) throw draft;
      return this.#ports === null ? false : await this.#ports.sendFrame(draft);
    },
    on: (type, listener) => {
      const problem = validateFrameType(type);
      if (problem !== null) throw problem;
      return this.#addListener(type, listener);
    },
  };

  connect(ports: VendorFramePorts): void {
    this.#ports = ports;
    if (this.#listeners.size > 0) this.#publishListenedTypes();
  }

  get listenedTypes(): readonly string[] {
    return [...this.#listeners.keys()];
  }

  /** Gives false where nobody listens. Listeners that throw, or whose promise fails, are reported and disturb nobody else. */
  deliver(frame: IncomingVendorFrame): boolean {
    const listeners = this.#listeners.get(frame.type);
    if (listeners === undefined) return false;
    for (const listener of [...listeners]) void this.#callListener(listener, frame);
    return true;
  }

  async #callListener(listener: (frame: IncomingVendorFrame) => unknown, frame: IncomingVendorFrame): Promise<void> {
    try {
      await listener(frame);
    } catch (cause) {
      this.#ports?.reportProblem({ message: `a listener to ${frame.type} failed on frame ${frame.id}`, cause });
    }
  }

  #addListener(type: string, listener: (frame: IncomingVendorFrame) => void): () => void {
    const listeners = this.#listeners.get(type) ?? new Set();
    const isNew = listeners.size === 0;
    // Wrapped, so that the same function may listen twice and be taken back one by one.
    const one = (frame: IncomingVendorFrame): unknown => listener(frame);
    listeners.add(one);
    this.#listeners.set(type, listeners);
    if (isNew) this.#publishListenedTypes();
    return () => {
      if (!listeners.delete(one) || listeners.size > 0) return;
      this.#listeners.delete(type);
      this.#publishListenedTypes();
    };
  }

  #publishListenedTypes(): void {
    this.#ports?.listenedTypesChanged(this.listenedTypes);
  }
}

function validateDraft(type: string, payload: unknown, corr: string | undefined): OutgoingVendorFrame | Fault {
  const problem = validateFrameType(type);
  if (problem !== null) return problem;
  if (corr !== undefined && (typeof corr !== "string" || corr === "" || corr.length > limits.idCharsMax || /\p{Cc}/u.test(corr)))
    return fault("E.FRAME.INVALID", `corr must be a text of 1 to ${limits.idCharsMax} characters without control characters`);
  if (!isRecord(payload)) return fault("E.FRAME.INVALID", `the payload of ${type} must be an object`);
  let text: string | undefined;
  try {
    text = JSON.stringify(payload);
  } catch (cause) {
    return fault("E.FRAME.INVALID", `the payload of ${type} cannot be written as JSON`, undefined, cause);
  }
  // An object may write itself as something else (toJSON).
  if (text?.startsWith("{") !== true) return fault("E.FRAME.INVALID", `the payload of ${type} must be an object`);
  const bytes = Buffer.byteLength(text);
  if (bytes > limits.resultInlineBytesMax)
    return fault("E.FRAME.TOO_LARGE", `${bytes} bytes of ${type} are more than the ${limits.resultInlineBytesMax} it may have`);
  return checkReportText(`the payload of ${type}`, text) ?? { type, corr, payload: text };
}

function validateFrameType(type: unknown): Fault | null {
  if (typeof type === "string" && vendorTypePattern.test(type) && type.length <= limits.idCharsMax) return null;
  const problem = `the type of a vendor's frame begins with ext.vendor. and has at most ${limits.idCharsMax} characters`;
  return fault("E.FRAME.INVALID", problem);
}
