// What the scheduler's work frames mean to this worker, and how those that cannot be read are refused. Each comes once, in order.

import {
  type DispatchPayload,
  type Envelope,
  Fault,
  isRecord,
  type JsonValue,
  LruMap,
  omitUndefined,
  type PkgInstallPayload,
  type PkgUninstallPayload,
  readFrame,
  readPayload,
} from "@astraflow/protocol";
import { fillerFrameType } from "@astraflow/session";
import type { DispatchFrame } from "../attempts/attempt.ts";
import type { AttemptManager } from "./attempt-manager.ts";
import type { LinkContext } from "./link-context.ts";

type PackageCommandDraft =
  | { readonly type: "install"; readonly payload: PkgInstallPayload }
  | { readonly type: "uninstall"; readonly payload: PkgUninstallPayload };

const rememberedVendorIdsMax = 1_024;

export class WorkFrameDispatcher {
  readonly #context: LinkContext;
  readonly #attempts: AttemptManager;
  readonly #refusalReason: (dispatch: DispatchPayload) => string | null;
  /** After a reset the scheduler may repeat the latest vendor frames, so their ids are remembered across sessions. */
  readonly #seenVendorIds = new LruMap<string, true>({ entriesMax: rememberedVendorIdsMax, touchOnGet: false });

  /** `refusalReason`: why no new work is taken just now; null: it is. */
  constructor(context: LinkContext, attempts: AttemptManager, refusalReason: (dispatch: DispatchPayload) => string | null) {
    this.#context = context;
    this.#attempts = attempts;
    this.#refusalReason = refusalReason;
  }

  /**
   * Null: understood, or answered by a frame of its own. Else the reason for a negative ack, or the promise that it can be acked. Never
   * fatal.
   */
  handleFrame(envelope: Envelope): string | null | Promise<void> {
    const frame = readFrame("v2", envelope);
    if (frame instanceof Fault) return this.#handleUnreadable(envelope, frame);
    switch (frame.type) {
      case "biz.exec.dispatch":
        this.#handleDispatch(frame.payload, nameFrame(envelope));
        return null;
      case "biz.exec.dispatch.batch":
        this.#handleBatch(frame.payload.items, nameFrame(envelope));
        return null;
      case "biz.exec.cancel":
        this.#attempts.handleCancel(frame.payload);
        return null;
      case "biz.exec.next.response":
        this.#attempts.nextCalls.handleResponse(frame.payload);
        return null;
      case "ext":
        return this.#handleVendorFrame(envelope);
      case "biz.pkg.install":
        return this.#handlePackageCommand(envelope, { type: "install", payload: frame.payload });
      case "biz.pkg.uninstall":
        return this.#handlePackageCommand(envelope, { type: "uninstall", payload: frame.payload });
      default:
        return `${envelope.type} is not handled by this worker`;
    }
  }

  #handlePackageCommand(envelope: Envelope, command: PackageCommandDraft): Promise<void> | null {
    const { packageCommands } = this.#context.ports;
    const { type, id, corr, seq } = envelope;
    if (packageCommands === undefined) {
      // By a frame that is sent until it is acked: a negative ack may be lost with its socket, and the next ack covers it.
      this.#attempts.refusePackageCommand(command.payload, nameFrame(envelope));
      return null;
    }
    const taken = command.payload.command_id ?? id;
    const frame = { type, id, corr: corr ?? taken, ...omitUndefined({ seq }) };
    return packageCommands.take({ ...command, id: taken, frame });
  }

  #handleBatch(items: readonly DispatchPayload[], frame: DispatchFrame): void {
    for (const item of items) this.#handleDispatch(item, frame);
  }

  #handleDispatch(dispatch: DispatchPayload, frame: DispatchFrame): void {
    const refusal = this.#refusalReason(dispatch);
    if (refusal === null) this.#attempts.handleDispatch(dispatch, frame);
    else this.#attempts.refuseDispatch(dispatch, frame, refusal);
  }

  #handleVendorFrame({ type, id, corr, payload }: Envelope): string | null {
    // A filler only uses up the number of a frame whose content was taken back.
    if (type === fillerFrameType || this.#seenVendorIds.has(id)) return null;
    if (!this.#context.ports.deliverVendorFrame({ type, id, corr, payload }))
      return `E.CMD.UNKNOWN: nobody on this worker listens to ${type}`;
    this.#seenVendorIds.set(id, true);
    return null;
  }

  /** A dispatch that names its task is refused by a result; in a batch one bad item must not take the others with it. */
  #handleUnreadable(envelope: Envelope, problem: Fault): string | null {
    const { items } = envelope.payload;
    if (envelope.type === "biz.exec.dispatch.batch" && Array.isArray(items))
      return this.#handleBatchItems(items, nameFrame(envelope));
    const isRefused =
      envelope.type === "biz.exec.dispatch" &&
      this.#attempts.refuseUnreadableDispatch(envelope.payload, nameFrame(envelope), problem);
    return isRefused ? null : problem.message;
  }

  #handleBatchItems(items: readonly JsonValue[], frame: DispatchFrame): string | null {
    let unreported: string | null = null;
    for (const item of items) {
      const dispatch = readPayload("v2", "biz.exec.dispatch", item);
      if (!(dispatch instanceof Fault)) this.#handleDispatch(dispatch, frame);
      else if (!this.#attempts.refuseUnreadableDispatch(isRecord(item) ? item : {}, frame, dispatch))
        unreported = dispatch.message;
    }
    return unreported;
  }
}

/** Not the frame itself, which would be kept with all its payload for as long as one of its attempts. */
const nameFrame = ({ type, id, seq }: Envelope): DispatchFrame => ({ type, id, seq });
