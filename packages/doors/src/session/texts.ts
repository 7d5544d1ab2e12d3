// The frames we send, as text, built once and without intermediate objects on the hot path. Which frame is sent when is decided elsewhere.

import type { ResourceRef, SendDispatch, SendNext, SendOrder, SendStop, VendorFrame } from "@astraflow/engine";
import {
  type AckPayload,
  createEnvelopeTemplate,
  type Dialect,
  type EnvelopeTemplate,
  encodeFrame,
  type OutgoingFrame,
  type SessionAcceptPayload,
} from "@astraflow/protocol";
import { voidType } from "@astraflow/session";
import type { Carried } from "./frame-log.ts";

export const schedulerId = "scheduler-control";

/** What a numbered frame carries besides its words. */
export interface Numbered {
  readonly number: number;
  readonly id: string;
}

/** Sees a frame, its text, and the work in it. */
export type Trace = (frame: OutgoingFrame, text: string, carried: Carried) => void;

/** The scheduler's end of one session: counts its messages and writes them in the worker's dialect. */
export class Writer {
  readonly dialect: Dialect;
  /** Sees every frame that is written; null where nobody looks. */
  trace: Trace | null = null;
  private readonly end: EnvelopeTemplate;
  private readonly stamp: () => string;
  private count = 0;

  constructor(dialect: Dialect, tenant: string, stamp: () => string) {
    this.dialect = dialect;
    this.end = createEnvelopeTemplate({ dialect, tenant, sender: { role: "scheduler", id: schedulerId } });
    this.stamp = stamp;
  }

  nextId(type: string): string {
    return `${type}-${this.count++}`;
  }

  ack(ack: AckPayload): string {
    return this.control("control.ack", ack, ack.for === undefined ? {} : { ackFor: ack.for });
  }

  accept(accept: SessionAcceptPayload): string {
    return this.control("control.session.accept", accept, {});
  }

  /** Why a session ends or never begins; v1 knows no reset and is told in an error. */
  refusal(code: string, reason: string, more: { corr?: string | undefined; retryAfterMs?: number | undefined }): string {
    if (this.dialect === "v1") return this.error(code, reason, more.corr);
    const payload = { code, reason, ...(more.retryAfterMs !== undefined && { retry_after_ms: more.retryAfterMs }) };
    return this.control("control.reset", payload, { corr: more.corr });
  }

  /** A fault in answer to one frame, for v1 only: the others hear of it in an ack. */
  error(code: string, message: string, corr: string | undefined): string {
    return this.control("biz.exec.error", { code, message }, { corr });
  }

  /** `ask`: the id under which the worker is to say that it has heard it. */
  drain(reason: string, ask?: string): string {
    return this.control("control.drain", { reason }, { ask });
  }

  undrain(reason: string, ask?: string): string {
    return this.control("control.undrain", { reason }, { ask });
  }

  /** One dispatch keeps its own id, the same for every repeat; several share a frame. */
  dispatch(at: Numbered, sends: readonly SendDispatch[], hasFence: boolean, runSeq: number | undefined): string {
    const first = sends[0];
    if (first !== undefined && sends.length === 1)
      return this.work(at, {
        type: "biz.exec.dispatch",
        payload: this.dialect === "v2" ? dispatchText(first, hasFence) : olderDispatchText(first, this.dialect),
        corr: first.dispatch.task,
        runSeq,
        carried: sends,
      });
    const items = sends.map((send) => dispatchText(send, hasFence)).join(",");
    return this.work(at, {
      type: "biz.exec.dispatch.batch",
      payload: `{"items":[${items}]}`,
      corr: undefined,
      runSeq: undefined,
      carried: sends,
    });
  }

  stop(at: Numbered, stop: SendStop): string {
    const payload = { run_id: stop.run, task_id: stop.task, fence: stop.fence, reason: `${stop.code}: ${stop.reason}` };
    return this.work(at, { type: "biz.exec.cancel", payload, corr: stop.task, runSeq: undefined, carried: stop });
  }

  /** What a middleware waits for. The result is JSON text already and leaves as it was stored. */
  next(at: Numbered, next: SendNext): string {
    const words = { payload: nextText(next), corr: next.request, runSeq: undefined };
    return this.work(at, { type: "biz.exec.next.response", ...words, carried: next });
  }

  /** The command's id goes along where the dialect has room for it; the others are answered by package and version. */
  order(at: Numbered, { id, order }: SendOrder): string {
    const { type, ...words } = order;
    const said = Object.fromEntries(Object.entries(words).filter(([, value]) => value !== null && value !== undefined));
    const payload = this.dialect === "v2" ? { ...said, command_id: id } : said;
    return this.work(at, { type: `biz.${type}`, payload, corr: id, runSeq: undefined, carried: null });
  }

  vendor(at: Numbered, frame: VendorFrame): string {
    const type = frame.type as `ext.vendor.${string}`;
    return this.work(at, { type, payload: frame.payload, corr: frame.corr ?? undefined, runSeq: undefined, carried: null });
  }

  /** In the place of what was taken back: the number must come, or all that follows waits for it. */
  filler(at: Numbered): string {
    return this.work(at, { type: voidType, payload: "{}", corr: undefined, runSeq: undefined, carried: null });
  }

  private work(
    at: Numbered,
    frame: Pick<OutgoingFrame, "type" | "payload" | "corr" | "runSeq"> & { readonly carried: Carried },
  ): string {
    const words: OutgoingFrame = {
      type: frame.type,
      id: at.id,
      ts: this.stamp(),
      payload: frame.payload,
      corr: frame.corr,
      number: at.number,
      runSeq: frame.runSeq,
      ackRequest: true,
    };
    return this.write(words, frame.carried);
  }

  private control(
    type: OutgoingFrame["type"],
    payload: object,
    { ask, ...more }: { corr?: string | undefined; ackFor?: string | undefined; ask?: string | undefined },
  ): string {
    const asking = ask === undefined ? {} : { ackRequest: true };
    return this.write({ type, id: ask ?? this.nextId(type), ts: this.stamp(), payload, ...more, ...asking }, null);
  }

  private write(frame: OutgoingFrame, carried: Carried): string {
    const text = encodeFrame(this.end, frame);
    this.trace?.(frame, text, carried);
    return text;
  }
}

const q = JSON.stringify;

/** Parameters are JSON text already and leave as they were stored. */
function dispatchHead({ dispatch: d }: SendDispatch): string {
  const text = `{"run_id":${q(d.run)},"task_id":${q(d.task)},"node_id":${q(d.node)},"node_type":${q(d.nodeType)}`;
  const constraints = d.timeoutMs === null ? "{}" : `{"timeout_ms":${d.timeoutMs}}`;
  return `${text},"package_name":${q(d.packageName)},"package_version":${q(d.packageVersion)},"parameters":${d.params},"constraints":${constraints}`;
}

/** Fence and attempt only for those who announced that they read them. */
function dispatchText(send: SendDispatch, hasFence: boolean): string {
  const d = send.dispatch;
  let text = dispatchHead(send);
  if (d.concurrencyKey !== "") text += `,"concurrency_key":${q(d.concurrencyKey)}`;
  text += `,"priority":${d.priority}`;
  if (hasFence) text += `,"fence":${d.fence},"attempt":${d.attempt}`;
  return `${text}${companyText(send, "v2")}}`;
}

/**
 * The key is the task's own: it keeps such a worker from running a task twice, and makes it say that it still runs it.
 * Keys of users are kept by the engine for all workers alike.
 */
function olderDispatchText(send: SendDispatch, dialect: Dialect): string {
  const d = send.dispatch;
  const key = q(`${d.run}:${d.task}`);
  return `${dispatchHead(send)},"concurrency_key":${key},"priority":${d.priority}${companyText(send, dialect)}}`;
}

/** With whom a task runs and what it needs there: nothing for most, so nothing is built for them. */
export function companyText({ dispatch: d }: SendDispatch, dialect: Dialect): string {
  let text = "";
  if (d.hostNode !== undefined) text += `,"host_node_id":${q(d.hostNode)}`;
  if (d.chain !== undefined) text += `,"middleware_chain":${q(d.chain)}`;
  if (d.chainIndex !== undefined) text += `,"chain_index":${d.chainIndex}`;
  if (d.resourceRefs !== undefined) text += `,"resource_refs":${q(d.resourceRefs.map((ref) => refWords(ref, dialect)))}`;
  if (d.affinity !== undefined) {
    const { key, mode, expiresAt } = d.affinity;
    text += `,"affinity":${q({ key, mode, ...until(expiresAt) })}`;
  }
  return text;
}

/** v1 calls by `worker_id` what the others call `worker_name`. */
function refWords({ resource, workerName, type, scope, expiresAt, metadata }: ResourceRef, dialect: Dialect): object {
  return {
    resource_id: resource,
    ...(dialect === "v1" ? { worker_id: workerName } : { worker_name: workerName }),
    type,
    ...(scope !== undefined && { scope }),
    ...until(expiresAt),
    ...(metadata !== undefined && { metadata }),
  };
}

const until = (at: number | undefined) => (at === undefined ? {} : { expires_at: new Date(at).toISOString() });

/** The caller knows its question by `requestId`; `nodeId` and `middlewareId` are its own node. */
function nextText({ request, run, node, result, error, trace }: SendNext): string {
  const names = `{"requestId":${q(request)},"runId":${q(run)},"nodeId":${q(node)},"middlewareId":${q(node)}`;
  const outcome = error === null ? `"result":${result ?? "{}"}` : `"error":${q(error)}`;
  return `${names},${outcome},"trace":${q(trace)}}`;
}

/** ISO time, written anew at most once a millisecond. */
export function createStamp(now: () => number): () => string {
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
