// The connection of a first-generation worker, with its faults: it drops frames with unknown fields, acks everything at once, repeats too soon,
// loses results that end while it has no socket, sends before its session is accepted, and ends when its first handshake is refused.
// What it executes is in first-worker.ts.

import {
  type AckPayload,
  type DispatchPayload,
  type Envelope,
  Fault,
  type NextResponsePayload,
  readEnvelope,
  readPayload,
  type SessionAcceptPayload,
} from "@astraflow/protocol";
import { type RawData, WebSocket } from "ws";
import { FirstReceiveWindow, isAckedBy, receiveWindowSize } from "./first-receive-window.ts";
import { Retransmitter } from "./retransmitter.ts";
import { printLine, reportDroppedFrame, type StandInSettings } from "./stand-in-settings.ts";

export interface FirstWorkerLinkOptions {
  readonly settings: StandInSettings;
  readonly register: object;
  readonly inflight: () => number;
  readonly onDispatch: (envelope: Envelope, order: DispatchPayload) => void;
  readonly onNextResponse: (response: NextResponsePayload) => void;
  /** Nobody will answer what was asked on the socket that is gone. */
  readonly onDisconnect: () => void;
}

interface FrameOptions {
  readonly corr?: string;
  readonly seq?: number;
  readonly requestsAck: boolean;
}

const frameBytesMax = 1_048_576;
const pingMs = 20_000;
const acceptMs = 10_000;

export class FirstWorkerLink {
  readonly #options: FirstWorkerLinkOptions;
  readonly #window = new FirstReceiveWindow();
  readonly #resends = new Retransmitter((text) => this.#transmit(text));
  readonly #credits: (() => void)[] = [];
  #socket: WebSocket | null = null;
  #session: { readonly id: string; readonly token: string } | null = null;
  #accepted: () => void = () => undefined;
  #handshakeId = "";
  #hasEverJoined = false;
  #resets = 0;
  #sent = 0;
  #count = 0;
  #connects = 0;

  constructor(options: FirstWorkerLinkOptions) {
    this.#options = options;
  }

  /** One counter for everything that this process names. */
  nextCount(): number {
    return this.#count++;
  }

  /** A work frame. One that cannot leave now is lost, and its number with it. */
  async send(type: string, payload: object, { requestsAck: isAsked, ...more }: FrameOptions): Promise<boolean> {
    while (this.#resends.numbered >= receiveWindowSize) await new Promise<void>((resolve) => this.#credits.push(resolve));
    const number = ++this.#sent;
    return this.#sendTracked(
      type,
      payload,
      { ...more, session_seq: number, ...(isAsked && { ack: { request: true } }) },
      number,
      () => {
        this.#credits.shift()?.();
      },
    );
  }

  /** Closed as by the worker's own wish. */
  close(then: () => void): void {
    const socket = this.#socket;
    this.#socket = null;
    if (socket === null) return then();
    socket.once("close", then);
    socket.close(1000);
  }

  // ---- the socket

  connect(): void {
    const socket = new WebSocket(this.#options.settings.url, { maxPayload: frameBytesMax });
    this.#socket = socket;
    const timers: NodeJS.Timeout[] = [];
    socket.on("error", () => undefined); // "close" follows and is handled
    socket.on("open", () => {
      if (this.#socket !== socket) return socket.close();
      this.#connects = 0;
      this.#keepAlive(socket, timers);
      void this.#join(socket);
    });
    socket.on("message", (data) => {
      if (this.#socket === socket) this.#handleMessage(data);
    });
    socket.on("close", (code, reason) => {
      for (const timer of timers) clearTimeout(timer);
      if (this.#socket === socket) this.#handleDisconnect(code, String(reason));
    });
  }

  #keepAlive(socket: WebSocket, timers: NodeJS.Timeout[]): void {
    const { beatMs, beatJitterMs } = this.#options.settings;
    let isAnswered = true;
    socket.on("pong", () => {
      isAnswered = true;
    });
    timers.push(
      setInterval(() => {
        if (!isAnswered) return socket.terminate();
        isAnswered = false;
        socket.ping();
      }, pingMs),
    );
    const beat = (): void => {
      const timer = setTimeout(
        () => {
          this.#sendHeartbeat();
          timers.splice(timers.indexOf(timer), 1);
          beat();
        },
        beatMs + Math.random() * beatJitterMs,
      );
      timers.push(timer);
    };
    beat();
  }

  #sendHeartbeat(): void {
    const metrics = {
      inflight: this.#options.inflight(),
      cpu_pct: 1.5,
      mem_pct: 20,
      disk_pct: 30,
      resource_handles: 0,
      pending_acks: this.#resends.size,
      conn_state: "connected",
      recv_base_seq: this.#window.base,
    };
    this.#transmit(
      this.#encodeFrame("control.heartbeat", this.#nextFrameId("control.heartbeat"), { healthy: true, metrics }, {}),
    );
  }

  #handleDisconnect(code: number, reason: string): void {
    this.#socket = null;
    printLine({ event: "cut", code });
    if (code === 1012 || /service restart|Unknown session/.test(reason)) this.#session = null;
    this.#resends.cancel(({ number }) => number === null);
    this.#options.onDisconnect();
    const { reconnectMs, reconnectMsMax } = this.#options.settings;
    const waitMs = this.#connects === 0 ? 0 : Math.min(reconnectMsMax, reconnectMs * 2 ** (this.#connects - 1));
    this.#connects += 1;
    setTimeout(() => this.connect(), waitMs * (0.8 + 0.4 * Math.random()));
  }

  // ---- the session

  async #join(socket: WebSocket): Promise<void> {
    const isCurrent = (): boolean => this.#socket === socket;
    if (this.#session !== null) {
      const resume = { session_id: this.#session.id, session_token: this.#session.token, last_seen_seq: this.#window.base };
      if (await this.#sendAndWaitForAck("control.resume", resume)) return;
      if (!isCurrent()) return;
      this.#session = null;
    }
    const { settings, register } = this.#options;
    const worker = {
      worker_name: settings.name,
      worker_instance_id: settings.instance,
      version: "0.1.0",
      hostname: settings.hostname,
    };
    const handshake = { protocol: 1, auth: { mode: "token", token: settings.token }, worker };
    const isJoined =
      (await this.#sendAndWaitForAck("control.handshake", handshake)) &&
      (await this.#sendAndWaitForAck("control.register", register));
    if (isJoined || !isCurrent()) return;
    process.stderr.write("no session on this socket\n");
    if (!this.#hasEverJoined) process.exit(1);
  }

  /** Answers once the frame is acked; for the frames that end in an accept, once that has come. */
  async #sendAndWaitForAck(type: string, payload: object): Promise<boolean> {
    const accepted = new Promise<boolean>((resolve) => {
      this.#accepted = () => resolve(true);
    });
    const isAcked = await new Promise<boolean>((resolve) => {
      const id = this.#nextFrameId(type);
      if (type !== "control.register") this.#handshakeId = id;
      if (!this.#sendTracked(type, payload, { ack: { request: true } }, null, resolve, id)) resolve(false);
    });
    if (!isAcked || type === "control.handshake") return isAcked;
    const late = Promise.withResolvers<boolean>();
    const timer = setTimeout(() => late.resolve(false), acceptMs);
    const isAccepted = await Promise.race([accepted, late.promise]);
    clearTimeout(timer);
    return isAccepted;
  }

  #handleAccept(accept: SessionAcceptPayload): void {
    this.#session = { id: accept.session_id, token: accept.session_token };
    // What asked for an ack by name is repeated on, under the number of the session before.
    if (accept.resumed !== true) {
      this.#resends.cancel(({ requestsAck: isAsked }) => !isAsked);
      this.#restart();
    }
    printLine({ event: "accepted", greeting: this.#handshakeId, resumed: accept.resumed === true });
    if (!this.#hasEverJoined) printLine({ ready: true, event: "ready" });
    this.#hasEverJoined = true;
    this.#accepted();
  }

  /** Forgets the session, keeps its tasks, and dials at once. At the very beginning one more try is all there is. */
  #handleReset(code: string): void {
    printLine({ event: "reset", code });
    if (!this.#hasEverJoined && ++this.#resets > 1) process.exit(1);
    const socket = this.#socket;
    this.#socket = null;
    this.#session = null;
    this.#resends.cancel();
    this.#restart();
    socket?.close();
    this.#options.onDisconnect();
    this.connect();
  }

  #restart(): void {
    this.#sent = 0;
    this.#window.reset();
  }

  // ---- what it receives

  #handleMessage(data: RawData): void {
    const text = String(data);
    const envelope = readEnvelope(JSON.parse(text), "first");
    if (envelope instanceof Fault) return reportDroppedFrame(envelope.message, text);
    if (envelope.type.startsWith("control.")) return this.#handleControlFrame(envelope, text);
    const { session_seq: number } = envelope;
    const ready = number === undefined ? [envelope] : this.#window.receive(number, envelope);
    if (number !== undefined || envelope.ack?.request === true) this.#ack(envelope);
    for (const one of ready) this.#handleWorkFrame(one);
  }

  #handleControlFrame(envelope: Envelope, text: string): void {
    const read = readPayload<string>("first", envelope.type, envelope.payload);
    switch (envelope.type) {
      case "control.ack":
      case "control.session.accept":
      case "control.reset":
      case "control.drain":
        if (read instanceof Fault) return reportDroppedFrame(read.message, text);
        break;
      default:
        if (envelope.ack?.request === true) this.#ack(envelope);
        return printLine({ event: "ignored", type: envelope.type });
    }
    if (envelope.type === "control.drain") return printLine({ event: "draining" });
    if (envelope.type === "control.reset") return this.#handleReset(String(envelope.payload["code"]));
    if (envelope.type === "control.session.accept") return this.#handleAccept(read as SessionAcceptPayload);
    const ack = read as AckPayload;
    const named = envelope.ack?.for ?? ack.for;
    this.#resends.acknowledge(({ id, number }) => id === named || (number !== null && isAckedBy(ack, number)));
  }

  #handleWorkFrame(envelope: Envelope): void {
    switch (envelope.type) {
      case "biz.exec.dispatch": {
        const order = readPayload("first", "biz.exec.dispatch", envelope.payload);
        if (order instanceof Fault) return reportDroppedFrame(order.message, JSON.stringify(envelope));
        return this.#options.onDispatch(envelope, order);
      }
      case "biz.exec.next.response": {
        const response = readPayload("first", "biz.exec.next.response", envelope.payload);
        if (response instanceof Fault) return reportDroppedFrame(response.message, JSON.stringify(envelope));
        return this.#options.onNextResponse(response);
      }
      default:
        printLine({ event: "ignored", type: envelope.type });
    }
  }

  // ---- what it sends

  /** At once, for everything: received, not understood. */
  #ack({ id, ack, corr, seq }: Envelope): void {
    const name = ack?.request === true ? { for: id } : {};
    const window = { ack_seq: this.#window.base, ack_bitmap: this.#window.bitmap, recv_window: receiveWindowSize };
    const more = { ...(corr !== undefined && { corr }), ...(seq !== undefined && { seq }), ...("for" in name && { ack: name }) };
    this.#transmit(this.#encodeFrame("control.ack", this.#nextFrameId("control.ack"), { ok: true, ...name, ...window }, more));
  }

  #sendTracked(
    type: string,
    payload: object,
    more: { readonly ack?: object; readonly session_seq?: number },
    number: number | null,
    over: (isAcked: boolean) => void,
    id = this.#nextFrameId(type),
  ): boolean {
    const text = this.#encodeFrame(type, id, payload, more);
    return this.#resends.sendFirst({ id, text, number, requestsAck: more.ack !== undefined, onEnd: over });
  }

  #nextFrameId(type: string): string {
    return `${type}-${this.nextCount()}`;
  }

  #encodeFrame(type: string, id: string, payload: object, more: object): string {
    const { tenant, instance } = this.#options.settings;
    const ts = `${new Date().toISOString().slice(0, -1)}000+00:00`;
    return JSON.stringify({ type, id, ts, tenant, sender: { role: "worker", id: instance }, ...more, payload });
  }

  #transmit(text: string): boolean {
    if (this.#socket?.readyState !== WebSocket.OPEN) return false;
    this.#socket.send(text);
    return true;
  }
}
