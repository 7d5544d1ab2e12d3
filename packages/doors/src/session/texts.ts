// The frames we send, as text, built once and without intermediate objects on the hot path. Which frame is sent when is decided elsewhere.

import type { SendDispatch, SendStop } from "@astraflow/engine";
import { encodeEnvelope, type SessionAccept, type WireEnd, wireEnd } from "@astraflow/protocol";

const schedulerId = "scheduler-control";

/** The scheduler's end of one connection: counts its messages and writes them. */
export class Writer {
  private readonly end: WireEnd;
  private readonly stamp: () => string;
  private count = 0;

  constructor(tenant: string, stamp: () => string) {
    this.end = wireEnd({ dialect: "v2", tenant, sender: { role: "scheduler", id: schedulerId } });
    this.stamp = stamp;
  }

  /** `body` holds the fields of the window, or nothing while there is none. */
  ack(of: { id: string | null; ok: boolean; info?: string }, body: string): string {
    const words = [`"ok":${of.ok}`];
    if (of.id !== null) words.push(`"for":${JSON.stringify(of.id)}`);
    if (of.info !== undefined) words.push(`"info":${JSON.stringify(of.info)}`);
    if (body !== "") words.push(body);
    return this.write("control.ack", `{${words.join(",")}}`, of.id === null ? {} : { ackFor: of.id });
  }

  accept(accept: SessionAccept): string {
    return this.write("control.session.accept", accept, {});
  }

  reset(code: string, reason: string, more: { corr?: string | undefined; retryAfterMs?: number | undefined }): string {
    const payload = { code, reason, ...(more.retryAfterMs !== undefined && { retry_after_ms: more.retryAfterMs }) };
    return this.write("control.reset", payload, { corr: more.corr });
  }

  drain(reason: string): string {
    return this.write("control.drain", { reason }, {});
  }

  /** One dispatch keeps its own id, the same for every repeat; several share a frame. */
  dispatch(seq: number, sends: readonly SendDispatch[], hasFence: boolean): string {
    const first = sends[0];
    if (first !== undefined && sends.length === 1) {
      const { id, task } = first.dispatch;
      return encodeEnvelope(this.end, {
        type: "biz.exec.dispatch",
        id,
        ts: this.stamp(),
        payload: dispatchText(first, hasFence),
        corr: task,
        number: seq,
        ackRequest: true,
      });
    }
    const items = sends.map((send) => dispatchText(send, hasFence)).join(",");
    return this.write("biz.exec.dispatch.batch", `{"items":[${items}]}`, { number: seq, ackRequest: true });
  }

  stop(seq: number, stop: SendStop): string {
    const payload = { run_id: stop.run, task_id: stop.task, fence: stop.fence, reason: `${stop.code}: ${stop.reason}` };
    return this.write("biz.exec.cancel", payload, { corr: stop.task, number: seq, ackRequest: true });
  }

  private write(
    type: Parameters<typeof encodeEnvelope>[1]["type"],
    payload: object | string,
    more: { corr?: string | undefined; number?: number; ackFor?: string; ackRequest?: boolean },
  ): string {
    return encodeEnvelope(this.end, { type, id: `${type}-${this.count++}`, ts: this.stamp(), payload, ...more });
  }
}

const q = JSON.stringify;

/** Parameters are JSON text already and leave as they were stored. Fence and attempt only for those who announced that they read them. */
function dispatchText(send: SendDispatch, hasFence: boolean): string {
  const d = send.dispatch;
  let text = `{"run_id":${q(d.run)},"task_id":${q(d.task)},"node_id":${q(d.node)},"node_type":${q(d.nodeType)}`;
  text += `,"package_name":${q(d.packageName)},"package_version":${q(d.packageVersion)},"parameters":${d.params}`;
  text += d.timeoutMs === null ? `,"constraints":{}` : `,"constraints":{"timeout_ms":${d.timeoutMs}}`;
  if (d.concurrencyKey !== "") text += `,"concurrency_key":${q(d.concurrencyKey)}`;
  text += `,"priority":${d.priority}`;
  if (hasFence) text += `,"fence":${d.fence},"attempt":${d.attempt}`;
  return `${text}}`;
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
