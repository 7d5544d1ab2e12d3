// Encodes the frames that the scheduler sends, without intermediate objects on the hot path.

import type {
  PackageCommand,
  ResourceRef,
  SendDispatch,
  SendNextAnswer,
  SendStop,
  SendWorkerCommand,
  VendorFrame,
} from "@astraflow/engine";
import {
  type AckPayload,
  createEnvelopeTemplate,
  type Dialect,
  type EnvelopeTemplate,
  encodeFrame,
  omitUndefined,
  type OutgoingFrame,
  type SessionAcceptPayload,
} from "@astraflow/protocol";
import { fillerFrameType, type SentFrame } from "@astraflow/session";
import { type CarriedWork, type FramePeer, type FrameTrace, schedulerId } from "./frame-trace.ts";

type FrameNumberAndId = Pick<SentFrame<unknown>, "number" | "id">;

/** Encodes the frames of one session in the worker's dialect, and counts them for their ids. */
export class SchedulerFrameWriter {
  dialect: Dialect;
  /** The receiver, as a trace shows it. */
  peer: FramePeer;
  private readonly trace: FrameTrace | null;
  private end: EnvelopeTemplate;
  private readonly timestamp: () => string;
  private count = 0;

  constructor(peer: FramePeer, timestamp: () => string, trace: FrameTrace | null) {
    const { dialect, tenant } = peer;
    this.dialect = dialect;
    this.peer = peer;
    this.end = createEnvelopeTemplate({ dialect, tenant, sender: { role: "scheduler", id: schedulerId } });
    this.timestamp = timestamp;
    this.trace = trace;
  }

  /** The worker has shown its dialect: every later frame is in it. */
  changeDialect(peer: FramePeer): void {
    this.dialect = peer.dialect;
    this.peer = peer;
    this.end = { ...this.end, dialect: peer.dialect };
  }

  nextId(type: string): string {
    return `${type}-${this.count++}`;
  }

  encodeAck(ack: AckPayload): string {
    return this.encodeControl("control.ack", ack, ack.for === undefined ? {} : { ackFor: ack.for });
  }

  encodeAccept(accept: SessionAcceptPayload): string {
    return this.encodeControl("control.session.accept", accept, {});
  }

  /** Why a session ends or never begins; v1 has no reset frame and gets an error. */
  encodeRefusal(code: string, reason: string, more: { corr?: string | undefined; retryAfterMs?: number | undefined }): string {
    if (this.dialect === "v1") return this.encodeError(code, reason, more.corr);
    const payload = { code, reason, ...(more.retryAfterMs !== undefined && { retry_after_ms: more.retryAfterMs }) };
    return this.encodeControl("control.reset", payload, { corr: more.corr });
  }

  /** A fault in answer to one frame, for v1 only: the others get it in an ack. */
  encodeError(code: string, message: string, corr: string | undefined): string {
    return this.encodeControl("biz.exec.error", { code, message }, { corr });
  }

  /** `ackId`: id of the frame, which the worker then has to acknowledge. */
  encodeDrain(type: "control.drain" | "control.undrain", reason: string, ackId?: string): string {
    return this.encodeControl(type, { reason }, { ask: ackId });
  }

  /** One dispatch keeps its own id, the same for every repeat; several share a frame. */
  encodeDispatch(at: FrameNumberAndId, sends: readonly SendDispatch[], hasFence: boolean, runSeq: number | undefined): string {
    const first = sends[0];
    if (first !== undefined && sends.length === 1)
      return this.encodeNumbered(at, sends, {
        type: "biz.exec.dispatch",
        payload: this.dialect === "v2" ? dispatchPayload(first, hasFence) : olderDispatchPayload(first, this.dialect),
        corr: first.dispatch.task,
        runSeq,
      });
    const items = sends.map((send) => dispatchPayload(send, hasFence)).join(",");
    return this.encodeNumbered(at, sends, { type: "biz.exec.dispatch.batch", payload: `{"items":[${items}]}` });
  }

  encodeStop(at: FrameNumberAndId, stop: SendStop): string {
    const payload = { run_id: stop.run, task_id: stop.task, fence: stop.fence, reason: `${stop.code}: ${stop.reason}` };
    return this.encodeNumbered(at, stop, { type: "biz.exec.cancel", payload, corr: stop.task });
  }

  /** The answer that a middleware waits for. The result is JSON text already and leaves as it was stored. */
  encodeNextResponse(at: FrameNumberAndId, next: SendNextAnswer): string {
    const payload = nextResponsePayload(next);
    return this.encodeNumbered(at, next, { type: "biz.exec.next.response", payload, corr: next.request });
  }

  /** The command's id goes along where the dialect has room for it; the others are answered by package and version. */
  encodeCommand(at: FrameNumberAndId, { id, order }: SendWorkerCommand): string {
    const payload = toPackagePayload(order, this.dialect);
    const own = this.dialect === "v2" ? { ...toInstallProof(order), command_id: id } : {};
    return this.encodeNumbered(at, null, { type: `biz.${order.type}`, payload: { ...payload, ...own }, corr: id });
  }

  encodeVendorFrame(at: FrameNumberAndId, frame: VendorFrame): string {
    const type = frame.type as `ext.vendor.${string}`;
    return this.encodeNumbered(at, null, { type, payload: frame.payload, corr: frame.corr ?? undefined });
  }

  /** In the place of a withdrawn frame: its number must come, or all that follows waits for it. */
  encodeFiller(at: FrameNumberAndId): string {
    return this.encodeNumbered(at, null, { type: fillerFrameType, payload: "{}" });
  }

  private encodeNumbered(
    at: FrameNumberAndId,
    work: CarriedWork,
    { type, payload, corr, runSeq }: Pick<OutgoingFrame, "type" | "payload" | "corr" | "runSeq">,
  ): string {
    const ts = this.timestamp();
    return this.encode({ type, id: at.id, ts, payload, corr, number: at.number, runSeq, ackRequest: true }, work);
  }

  private encodeControl(
    type: OutgoingFrame["type"],
    payload: object,
    { ask: ackId, ...more }: { corr?: string | undefined; ackFor?: string | undefined; ask?: string | undefined },
  ): string {
    const asking = ackId === undefined ? {} : { ackRequest: true };
    return this.encode({ type, id: ackId ?? this.nextId(type), ts: this.timestamp(), payload, ...more, ...asking }, null);
  }

  private encode(frame: OutgoingFrame, work: CarriedWork): string {
    const text = encodeFrame(this.end, frame);
    this.trace?.sent(frame, text, work, this.peer);
    return text;
  }
}

const json = JSON.stringify;

/** Parameters are JSON text already and leave as they were stored. */
function dispatchFields({ dispatch: d }: SendDispatch): string {
  const text = `{"run_id":${json(d.run)},"task_id":${json(d.task)},"node_id":${json(d.node)},"node_type":${json(d.nodeType)}`;
  const constraints = d.timeoutMs === null ? "{}" : `{"timeout_ms":${d.timeoutMs}}`;
  return `${text},"package_name":${json(d.packageName)},"package_version":${json(d.packageVersion)},"parameters":${d.params},"constraints":${constraints}`;
}

/** Fence and attempt only for workers that announced `fence`. */
function dispatchPayload(send: SendDispatch, hasFence: boolean): string {
  const d = send.dispatch;
  let text = dispatchFields(send);
  if (d.concurrencyKey !== "") text += `,"concurrency_key":${json(d.concurrencyKey)}`;
  text += `,"priority":${d.priority}`;
  if (hasFence) text += `,"fence":${d.fence},"attempt":${d.attempt}`;
  return `${text}${chainAndResourceFields(send, "v2")}}`;
}

/** The key keeps such a worker from running a task twice, and makes it report that it still runs it. The engine enforces the user's key. */
function olderDispatchPayload(send: SendDispatch, dialect: Dialect): string {
  const d = send.dispatch;
  const key = json(`${d.run}:${d.task}`);
  return `${dispatchFields(send)},"concurrency_key":${key},"priority":${d.priority}${chainAndResourceFields(send, dialect)}}`;
}

/** Fields of chains and resources, which most tasks do not have. */
export function chainAndResourceFields({ dispatch: d }: SendDispatch, dialect: Dialect): string {
  let text = "";
  if (d.hostNode !== undefined) text += `,"host_node_id":${json(d.hostNode)}`;
  if (d.chain !== undefined) text += `,"middleware_chain":${json(d.chain)}`;
  if (d.chainIndex !== undefined) text += `,"chain_index":${d.chainIndex}`;
  // The specifications write null for the host itself; the first generation knows only numbers here.
  else if (d.chain !== undefined && (dialect === "v1" || dialect === "basic")) text += ',"chain_index":null';
  if (d.resourceRefs !== undefined)
    text += `,"resource_refs":${json(d.resourceRefs.map((ref) => resourceRefFields(ref, dialect)))}`;
  if (d.affinity !== undefined) {
    const { key, mode, expiresAt } = d.affinity;
    text += `,"affinity":${json({ key, mode, ...expiryField(expiresAt) })}`;
  }
  return text;
}

/** v1 calls by `worker_id` what the others call `worker_name`. */
function resourceRefFields({ resource, workerName, type, scope, expiresAt, metadata }: ResourceRef, dialect: Dialect): object {
  return {
    resource_id: resource,
    ...(dialect === "v1" ? { worker_id: workerName } : { worker_name: workerName }),
    type,
    ...(scope !== undefined && { scope }),
    ...expiryField(expiresAt),
    ...(metadata !== undefined && { metadata }),
  };
}

const expiryField = (at: number | undefined) => (at === undefined ? {} : { expires_at: new Date(at).toISOString() });

/** The caller knows its question by `requestId`; `nodeIdParam` and `middlewareId` are its own node. */
function nextResponsePayload({ request, run, node, result, error, trace }: SendNextAnswer): string {
  const names = `{"requestId":${json(request)},"runId":${json(run)},"nodeId":${json(node)},"middlewareId":${json(node)}`;
  const outcome = error === null ? `"result":${result ?? "{}"}` : `"error":${json(error)}`;
  return `${names},${outcome},"trace":${json(trace)}}`;
}

/** ISO time, formatted at most once a millisecond. */
export function createTimestamp(now: () => number): () => string {
  let at = Number.NaN;
  let text = "";
  return () => {
    const ms = now();
    if (ms !== at) {
      at = ms;
      text = new Date(ms).toISOString();
    }
    return text;
  };
}

/** What every dialect knows of a command about a package. */
function toPackagePayload(order: PackageCommand, dialect: Dialect) {
  const { name, version } = order;
  if (order.type === "pkg.uninstall") return { name, ...(version !== null && { version }) };
  // Workers of v2 find the repository at the scheduler that they are connected to, and show their token there alone.
  const url = order.fromRepository === true && dialect === "v2" ? undefined : order.url;
  return { name, version, ...omitUndefined({ url, sha256: order.sha256 }) };
}

/** What lets a worker of our own trust an archive; the older schemas are strict and have no room for it. */
function toInstallProof(order: PackageCommand) {
  if (order.type !== "pkg.install") return {};
  const { signature, allowOlder } = order;
  return {
    ...(signature !== undefined && {
      signature: {
        key_id: signature.keyId,
        ed25519: signature.ed25519,
        signed_at: signature.signedAt,
        signed_by: signature.signedBy,
        tenant: signature.tenant,
      },
    }),
    ...(allowOlder === true && { allow_older: true }),
  };
}
