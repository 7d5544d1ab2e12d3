// A stand-in for workers of protocol v1, as a program of its own: handshake, register and heartbeat without waiting, acks by id alone, results
// that name the task and its number within the run, errors called command.error. It never reconnects: a broken socket ends it.

import {
  type DispatchPayload,
  type Envelope,
  Fault,
  type JsonObject,
  type NextResponsePayload,
  readEnvelope,
  readPayload,
} from "@astraflow/protocol";
import { WebSocket } from "ws";
import { Retransmitter } from "./retransmitter.ts";
import { executeJob, registrationPayload } from "./stand-in-handlers.ts";
import { exitWithParent, printLine, readStandInSettings, reportDroppedFrame } from "./stand-in-settings.ts";

const frameBytesMax = 1_048_576;
const pingMs = 20_000;

interface V1FrameOptions {
  readonly corr?: string;
  readonly seq?: number;
  readonly ack?: { readonly request?: boolean; readonly for?: string };
}

class V1Worker {
  readonly #settings = readStandInSettings(process.env);
  readonly #socket = new WebSocket(this.#settings.url, { maxPayload: frameBytesMax });
  readonly #resends = new Retransmitter((text) => this.#transmit(text));
  readonly #running = new Set<string>();
  readonly #nextRequests = new Map<string, (response: NextResponsePayload) => void>();
  #count = 0;

  start(): void {
    this.#socket.on("error", () => undefined); // "close" follows
    this.#socket.on("open", () => this.#sendHandshake());
    this.#socket.on("message", (data) => this.#handleMessage(String(data)));
    this.#socket.on("close", (code) => {
      printLine({ event: "cut", code });
      process.exit(1);
    });
    setInterval(() => this.#socket.ping(), pingMs);
  }

  /** All three at once: nobody waits for an answer. */
  #sendHandshake(): void {
    const { token, instance, hostname } = this.#settings;
    const worker = { id: instance, version: "0.0.9", hostname };
    this.#sendTracked("handshake", { protocol: 1, auth: { mode: "token", token }, worker });
    this.#sendTracked("register", registrationPayload(this.#settings), () => printLine({ ready: true, event: "ready" }));
    this.#sendHeartbeat();
  }

  #sendHeartbeat(): void {
    const { beatMs, beatJitterMs } = this.#settings;
    this.#sendFrame("heartbeat", { healthy: true, metrics: { inflight: this.#running.size } }, {});
    setTimeout(() => this.#sendHeartbeat(), beatMs + Math.random() * beatJitterMs);
  }

  #handleMessage(text: string): void {
    const envelope = readEnvelope(JSON.parse(text), "v1");
    if (envelope instanceof Fault) return reportDroppedFrame(envelope.message, text);
    const strange = Object.keys(JSON.parse(text)).find((field) => !Object.hasOwn(envelope, field));
    if (strange !== undefined) return reportDroppedFrame(`${strange} is not known`, text);
    if (envelope.type === "ack")
      return this.#resends.acknowledge(({ id }) => id === (envelope.ack?.for ?? envelope.payload["for"]));
    if (envelope.ack?.request === true) this.#sendFrame("ack", { for: envelope.id }, { ack: { for: envelope.id } });
    const payload = readPayload<string>("v1", envelope.type, envelope.payload);
    if (payload instanceof Fault) return reportDroppedFrame(payload.message, text);
    switch (envelope.type) {
      case "cmd.dispatch":
        return void this.#runDispatch(envelope, payload as unknown as DispatchPayload);
      case "cmd.drain":
        return printLine({ event: "draining" });
      case "middleware.next_response":
        return this.#nextRequests.get(String(envelope.payload["requestId"]))?.(payload as unknown as NextResponsePayload);
      case "error":
        return printLine({ event: "reset", code: String(envelope.payload["code"]) });
      default:
        return printLine({ event: "ignored", type: envelope.type });
    }
  }

  async #runDispatch({ seq }: Envelope, order: DispatchPayload): Promise<void> {
    const { run_id, task_id, node_id, concurrency_key: key = `${run_id}:${task_id}` } = order;
    const more = { corr: task_id, ...(seq !== undefined && { seq }) };
    const fail = (code: string, message: string, where: string): void =>
      this.#sendTracked(
        "command.error",
        { code, message, context: { where, details: { run_id, task_id, node_id } } },
        undefined,
        more,
      );
    if (this.#running.has(key)) {
      printLine({ event: "still", task: task_id });
      return fail("E.CMD.CONCURRENCY_VIOLATION", `concurrency key ${key} is held`, "worker.concurrency");
    }
    this.#running.add(key);
    try {
      const { status, result } = await executeJob(this.#settings.journal, order.node_type, {
        task: task_id,
        params: order.parameters,
        signal: new AbortController().signal,
        next: () => this.#callNext(order),
        sendUnknownFrame: () => this.#sendTracked("mystery", { of: "nothing" }, undefined, { corr: task_id }),
      });
      this.#sendTracked("result", { run_id, task_id, status, result, duration_ms: 1 }, undefined, more);
    } catch (problem) {
      fail("E.RUNNER.FAILURE", problem instanceof Error ? problem.message : String(problem), "worker.runner");
    } finally {
      this.#running.delete(key);
    }
  }

  async #callNext({ run_id, task_id, node_id }: DispatchPayload): Promise<JsonObject> {
    const requestId = `next-${this.#count++}`;
    const { promise, resolve } = Promise.withResolvers<NextResponsePayload>();
    this.#nextRequests.set(requestId, resolve);
    const request = { requestId, runId: run_id, nodeId: node_id, middlewareId: node_id };
    this.#sendTracked("middleware.next_request", request, undefined, { corr: task_id });
    const { result, error } = await promise;
    return { ...result, ...(error !== undefined && { error }) } as JsonObject;
  }

  #sendTracked(type: string, payload: object, acked: () => void = () => undefined, more: V1FrameOptions = {}): void {
    const id = `${type}-${this.#count++}`;
    const text = this.#encodeFrame(type, id, payload, { ...more, ack: { request: true } });
    const over = (isAcked: boolean): void => {
      if (isAcked) acked();
    };
    this.#resends.sendFirst({ id, text, number: null, requestsAck: true, onEnd: over });
  }

  #sendFrame(type: string, payload: object, more: V1FrameOptions): void {
    this.#transmit(this.#encodeFrame(type, `${type}-${this.#count++}`, payload, more));
  }

  #encodeFrame(type: string, id: string, payload: object, more: V1FrameOptions): string {
    const { tenant, instance } = this.#settings;
    const ts = new Date().toISOString();
    return JSON.stringify({ type, id, ts, tenant, sender: { role: "worker", id: instance }, ...more, payload });
  }

  #transmit(text: string): boolean {
    if (this.#socket.readyState !== WebSocket.OPEN) return false;
    this.#socket.send(text);
    return true;
  }
}

exitWithParent();
new V1Worker().start();
