// The wire of a worker of the first generation, with its faults: it drops frames with a field too many, acks everything at once, repeats in haste,
// loses what ends while it has no socket, speaks before its session stands, and dies when its first handshake is refused.
// What it is asked to do is in first-worker.ts.

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
import { covers, FirstWindow, windowSize } from "./first-window.ts";
import { Resends } from "./resends.ts";
import { drop, type Settings, say } from "./settings.ts";

export interface FirstLinkOptions {
  readonly settings: Settings;
  readonly register: object;
  readonly inflight: () => number;
  readonly dispatch: (envelope: Envelope, order: DispatchPayload) => void;
  readonly answer: (response: NextResponsePayload) => void;
  /** Nobody will answer what was asked on the socket that is gone. */
  readonly cut: () => void;
}

interface More {
  readonly corr?: string;
  readonly seq?: number;
  readonly isAsked: boolean;
}

const frameBytesMax = 1_048_576;
const pingMs = 20_000;
const acceptMs = 10_000;

export class FirstLink {
  readonly #options: FirstLinkOptions;
  readonly #window = new FirstWindow();
  readonly #resends = new Resends((text) => this.#transmit(text));
  readonly #credits: (() => void)[] = [];
  #socket: WebSocket | null = null;
  #session: { readonly id: string; readonly token: string } | null = null;
  #accepted: () => void = () => undefined;
  #greeting = "";
  #hasEverJoined = false;
  #resets = 0;
  #sent = 0;
  #count = 0;
  #dials = 0;

  constructor(options: FirstLinkOptions) {
    this.#options = options;
  }

  /** One counter for everything that this process names. */
  nextCount(): number {
    return this.#count++;
  }

  /** A work frame. One that cannot leave now is lost, and its number with it. */
  async send(type: string, payload: object, { isAsked, ...more }: More): Promise<boolean> {
    while (this.#resends.numbered >= windowSize) await new Promise<void>((resolve) => this.#credits.push(resolve));
    const number = ++this.#sent;
    return this.#begin(
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

  dial(): void {
    const socket = new WebSocket(this.#options.settings.url, { maxPayload: frameBytesMax });
    this.#socket = socket;
    const timers: NodeJS.Timeout[] = [];
    socket.on("error", () => undefined); // "close" follows and says what there is to say
    socket.on("open", () => {
      if (this.#socket !== socket) return socket.close();
      this.#dials = 0;
      this.#keepAlive(socket, timers);
      void this.#join(socket);
    });
    socket.on("message", (data) => {
      if (this.#socket === socket) this.#hear(data);
    });
    socket.on("close", (code, reason) => {
      for (const timer of timers) clearTimeout(timer);
      if (this.#socket === socket) this.#cut(code, String(reason));
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
          this.#beat();
          timers.splice(timers.indexOf(timer), 1);
          beat();
        },
        beatMs + Math.random() * beatJitterMs,
      );
      timers.push(timer);
    };
    beat();
  }

  #beat(): void {
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
    this.#transmit(this.#write("control.heartbeat", this.#name("control.heartbeat"), { healthy: true, metrics }, {}));
  }

  #cut(code: number, reason: string): void {
    this.#socket = null;
    say({ said: "cut", code });
    if (code === 1012 || /service restart|Unknown session/.test(reason)) this.#session = null;
    this.#resends.cancel(({ number }) => number === null);
    this.#options.cut();
    const { reconnectMs, reconnectMsMax } = this.#options.settings;
    const waitMs = this.#dials === 0 ? 0 : Math.min(reconnectMsMax, reconnectMs * 2 ** (this.#dials - 1));
    this.#dials += 1;
    setTimeout(() => this.dial(), waitMs * (0.8 + 0.4 * Math.random()));
  }

  // ---- the session

  async #join(socket: WebSocket): Promise<void> {
    const isCurrent = (): boolean => this.#socket === socket;
    if (this.#session !== null) {
      const resume = { session_id: this.#session.id, session_token: this.#session.token, last_seen_seq: this.#window.base };
      if (await this.#ask("control.resume", resume)) return;
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
    const isJoined = (await this.#ask("control.handshake", handshake)) && (await this.#ask("control.register", register));
    if (isJoined || !isCurrent()) return;
    process.stderr.write("no session on this socket\n");
    if (!this.#hasEverJoined) process.exit(1);
  }

  /** Answers once the frame is acked; for the frames that end in an accept, once that has come. */
  async #ask(type: string, payload: object): Promise<boolean> {
    const accepted = new Promise<boolean>((resolve) => {
      this.#accepted = () => resolve(true);
    });
    const isAcked = await new Promise<boolean>((resolve) => {
      const id = this.#name(type);
      if (type !== "control.register") this.#greeting = id;
      if (!this.#begin(type, payload, { ack: { request: true } }, null, resolve, id)) resolve(false);
    });
    if (!isAcked || type === "control.handshake") return isAcked;
    const late = Promise.withResolvers<boolean>();
    const timer = setTimeout(() => late.resolve(false), acceptMs);
    const isAccepted = await Promise.race([accepted, late.promise]);
    clearTimeout(timer);
    return isAccepted;
  }

  #hearAccept(accept: SessionAcceptPayload): void {
    this.#session = { id: accept.session_id, token: accept.session_token };
    // What asked for an ack by name is repeated on, under the number of the session before.
    if (accept.resumed !== true) {
      this.#resends.cancel(({ isAsked }) => !isAsked);
      this.#restart();
    }
    say({ said: "accepted", greeting: this.#greeting, resumed: accept.resumed === true });
    if (!this.#hasEverJoined) say({ ready: true, said: "ready" });
    this.#hasEverJoined = true;
    this.#accepted();
  }

  /** Forgets the session, keeps its tasks, and dials at once. At the very beginning one more try is all there is. */
  #hearReset(code: string): void {
    say({ said: "reset", code });
    if (!this.#hasEverJoined && ++this.#resets > 1) process.exit(1);
    const socket = this.#socket;
    this.#socket = null;
    this.#session = null;
    this.#resends.cancel();
    this.#restart();
    socket?.close();
    this.#options.cut();
    this.dial();
  }

  #restart(): void {
    this.#sent = 0;
    this.#window.reset();
  }

  // ---- what it hears

  #hear(data: RawData): void {
    const text = String(data);
    const envelope = readEnvelope(JSON.parse(text), "first");
    if (envelope instanceof Fault) return drop(envelope.message, text);
    if (envelope.type.startsWith("control.")) return this.#hearControl(envelope, text);
    const { session_seq: number } = envelope;
    const ready = number === undefined ? [envelope] : this.#window.arrive(number, envelope);
    if (number !== undefined || envelope.ack?.request === true) this.#ack(envelope);
    for (const one of ready) this.#hearWork(one);
  }

  #hearControl(envelope: Envelope, text: string): void {
    const read = readPayload<string>("first", envelope.type, envelope.payload);
    switch (envelope.type) {
      case "control.ack":
      case "control.session.accept":
      case "control.reset":
      case "control.drain":
        if (read instanceof Fault) return drop(read.message, text);
        break;
      default:
        if (envelope.ack?.request === true) this.#ack(envelope);
        return say({ said: "ignored", type: envelope.type });
    }
    if (envelope.type === "control.drain") return say({ said: "draining" });
    if (envelope.type === "control.reset") return this.#hearReset(String(envelope.payload["code"]));
    if (envelope.type === "control.session.accept") return this.#hearAccept(read as SessionAcceptPayload);
    const ack = read as AckPayload;
    const named = envelope.ack?.for ?? ack.for;
    this.#resends.acked(({ id, number }) => id === named || (number !== null && covers(ack, number)));
  }

  #hearWork(envelope: Envelope): void {
    switch (envelope.type) {
      case "biz.exec.dispatch": {
        const order = readPayload("first", "biz.exec.dispatch", envelope.payload);
        if (order instanceof Fault) return drop(order.message, JSON.stringify(envelope));
        return this.#options.dispatch(envelope, order);
      }
      case "biz.exec.next.response": {
        const response = readPayload("first", "biz.exec.next.response", envelope.payload);
        if (response instanceof Fault) return drop(response.message, JSON.stringify(envelope));
        return this.#options.answer(response);
      }
      default:
        say({ said: "ignored", type: envelope.type });
    }
  }

  // ---- what it says

  /** At once, for everything: received, not understood. */
  #ack({ id, ack, corr, seq }: Envelope): void {
    const name = ack?.request === true ? { for: id } : {};
    const window = { ack_seq: this.#window.base, ack_bitmap: this.#window.bitmap, recv_window: windowSize };
    const more = { ...(corr !== undefined && { corr }), ...(seq !== undefined && { seq }), ...("for" in name && { ack: name }) };
    this.#transmit(this.#write("control.ack", this.#name("control.ack"), { ok: true, ...name, ...window }, more));
  }

  #begin(
    type: string,
    payload: object,
    more: { readonly ack?: object; readonly session_seq?: number },
    number: number | null,
    over: (isAcked: boolean) => void,
    id = this.#name(type),
  ): boolean {
    const text = this.#write(type, id, payload, more);
    return this.#resends.begin({ id, text, number, isAsked: more.ack !== undefined, over });
  }

  #name(type: string): string {
    return `${type}-${this.nextCount()}`;
  }

  #write(type: string, id: string, payload: object, more: object): string {
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
