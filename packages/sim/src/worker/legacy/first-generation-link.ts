// The wire of a worker of the first generation, as it behaves in the field: numbers from 1, acks at once, hasty repeats that end in numbers used
// up, results that are lost while the socket is down, a resume that is tried and a handshake on the same socket when nothing comes of it.
// What it is asked to do is for whoever made it.

import type { SimulatedConnection } from "../../network/simulated-connection.ts";
import { tokenOfTenant } from "../../network/tenant-tokens.ts";
import { type LegacyFrame, readFirstGenerationFrame } from "./first-generation-frames.ts";
import { dialLegacySocket } from "./legacy-socket.ts";
import type { LegacyLink, LegacyLinkOptions } from "./legacy-worker.ts";

interface UnackedFrame {
  readonly text: string;
  readonly id: string;
  readonly number: number | null;
  sendCount: number;
}

const resendMs = [200, 400, 800, 1_600, 3_200, 5_000] as const;
const lastWaitMs = 5_000;
const acceptWaitMs = 10_000;
const windowSize = 64;

export class FirstGenerationLink implements LegacyLink {
  readonly #options: LegacyLinkOptions;
  #connection: SimulatedConnection | null = null;
  #isOpen = false;
  #session: { readonly id: string; readonly token: string } | null = null;
  #isAccepted = false;
  #hasEverJoined = false;
  #resetCount = 0;
  #frameCount = 0;
  #lastSentNumber = 0;
  #receivedUpTo = 0;
  #dialAttempts = 0;
  /** The last ping has come back. */
  #isPingAnswered = true;
  readonly #buffer = new Map<number, LegacyFrame>();
  readonly #unacked = new Map<string, UnackedFrame>();
  /** More than may be in flight at once. */
  #waitingForWindow: (() => void)[] = [];

  constructor(options: LegacyLinkOptions) {
    this.#options = options;
  }

  get isReady(): boolean {
    return this.#isOpen && this.#isAccepted;
  }

  dial(): void {
    this.#connection = dialLegacySocket(this.#options, {
      isCurrent: (connection) => this.#connection === connection,
      opened: (connection) => this.#handleOpen(connection),
      text: (text) => this.#handleText(text),
      pong: () => {
        this.#isPingAnswered = true;
      },
      lost: () => this.#handleDisconnect(),
    });
  }

  hangUp(): void {
    const connection = this.#connection;
    this.#connection = null;
    this.#isOpen = false;
    connection?.worker.close(1000, "bye");
  }

  /** A business frame: one that finds no socket is lost, and its number with it. It does not wait for a session to be accepted. */
  sendTaskFrame(
    type: string,
    payload: object,
    more: { readonly corr?: string; readonly seq?: number; readonly isAsked: boolean },
  ): boolean {
    if (!this.#isOpen) {
      this.#lastSentNumber++;
      return false;
    }
    const { isAsked, ...rest } = more;
    this.#waitingForWindow.push(() => {
      const number = ++this.#lastSentNumber;
      this.#send(type, payload, { ...rest, session_seq: number, ...(isAsked && { ack: { request: true } }) }, number);
    });
    this.#flush();
    return true;
  }

  #flush(): void {
    while (this.#isOpen && this.#inFlight() < windowSize) {
      const send = this.#waitingForWindow.shift();
      if (send === undefined) return;
      send();
    }
  }

  #inFlight(): number {
    return [...this.#unacked.values()].filter(({ number }) => number !== null).length;
  }

  #handleOpen(connection: SimulatedConnection): void {
    this.#isOpen = true;
    this.#isAccepted = false;
    this.#scheduleHeartbeat(connection);
    this.#isPingAnswered = true;
    this.#schedulePing(connection);
    if (this.#session === null) return this.#sendHandshake();
    const payload = { session_id: this.#session.id, session_token: this.#session.token, last_seen_seq: this.#receivedUpTo };
    this.#sendRequestingAck("control.resume", payload);
    this.#options.eventLoop.after(acceptWaitMs, () => {
      if (this.#connection !== connection || this.#isAccepted || this.#session === null) return;
      this.#forgetSession();
      this.#sendHandshake();
    });
  }

  #sendHandshake(): void {
    const { identity } = this.#options;
    const worker = {
      worker_name: identity.worker,
      worker_instance_id: identity.instance,
      version: "0.1.0",
      hostname: identity.worker,
    };
    this.#sendRequestingAck("control.handshake", {
      protocol: 1,
      auth: { mode: "token", token: tokenOfTenant(identity.tenant) },
      worker,
    });
  }

  #sendRegister(): void {
    const { concurrency, manifest } = this.#options;
    const { name, version } = manifest as { name: string; version: string };
    this.#sendRequestingAck("control.register", {
      capabilities: { concurrency, runtimes: ["python"], features: [] },
      payload_types: ["biz.exec.dispatch"],
      packages: [{ name, version, status: "installed" }],
      manifests: [{ name, version, manifest }],
    });
  }

  #sendRequestingAck(type: string, payload: object): void {
    this.#send(type, payload, { ack: { request: true } }, null);
  }

  /** Sends, and repeats until it is acked or the patience is over. */
  #send(type: string, payload: object, more: object, number: number | null): void {
    const id = `${type}-${this.#frameCount++}`;
    const text = this.#formatFrame(type, id, payload, more);
    const pending: UnackedFrame = { text, id, number, sendCount: 0 };
    this.#unacked.set(id, pending);
    this.#transmit(pending);
  }

  #transmit(pending: UnackedFrame): void {
    if (!this.#unacked.has(pending.id)) return;
    const connection = this.#connection;
    if (!this.#isOpen || connection === null || pending.sendCount > resendMs.length) return void this.#unacked.delete(pending.id);
    connection.worker.send(pending.text);
    const waitMs = resendMs[pending.sendCount] ?? lastWaitMs;
    pending.sendCount++;
    this.#options.eventLoop.after(waitMs, () => this.#transmit(pending));
  }

  #formatFrame(type: string, id: string, payload: object, more: object): string {
    const { identity, eventLoop } = this.#options;
    const ts = new Date(eventLoop.clock.wall()).toISOString();
    return JSON.stringify({
      type,
      id,
      ts,
      tenant: identity.tenant,
      sender: { role: "worker", id: identity.instance },
      ...more,
      payload,
    });
  }

  #scheduleHeartbeat(connection: SimulatedConnection): void {
    const { eventLoop, heartbeatMs, random, countInFlight: inflight } = this.#options;
    eventLoop.after(heartbeatMs * (30 / 35 + (random() * 5) / 35), () => {
      if (this.#connection !== connection || !this.#isOpen) return;
      const payload = { healthy: true, metrics: { inflight: inflight(), conn_state: "connected" } };
      connection.worker.send(this.#formatFrame("control.heartbeat", `control.heartbeat-${this.#frameCount++}`, payload, {}));
      this.#scheduleHeartbeat(connection);
    });
  }

  /** Its library asks now and then whether anybody is there. */
  #schedulePing(connection: SimulatedConnection): void {
    const { eventLoop, heartbeatMs } = this.#options;
    eventLoop.after((heartbeatMs * 20) / 35, () => {
      if (this.#connection !== connection || !this.#isOpen) return;
      if (!this.#isPingAnswered) return connection.worker.terminate();
      this.#isPingAnswered = false;
      connection.worker.ping();
      this.#schedulePing(connection);
    });
  }

  #handleText(text: string): void {
    const frame = readFirstGenerationFrame(text);
    if (typeof frame === "string") return this.#options.onUnreadableFrame(`${frame}: ${text.slice(0, 300)}`);
    switch (frame.type) {
      case "control.ack":
        return this.#handleAck(frame);
      case "control.session.accept":
        return this.#handleAccept(frame);
      case "control.reset":
        return this.#handleReset();
      default:
        return frame.session_seq === undefined ? undefined : this.#handleNumberedFrame(frame, frame.session_seq);
    }
  }

  #handleAck({ ack, payload }: LegacyFrame): void {
    const name = ack?.for ?? String(payload["for"]);
    const asked = this.#unacked.get(name);
    this.#unacked.delete(name);
    const { ack_seq: upTo, ack_bitmap: bits = 0 } = payload as { ack_seq?: number; ack_bitmap?: number };
    if (upTo !== undefined)
      for (const { id, number } of [...this.#unacked.values()])
        if (number !== null && (number <= upTo || ((BigInt(bits) >> BigInt(number - upTo - 1)) & 1n) === 1n))
          this.#unacked.delete(id);
    this.#flush();
    if (asked !== undefined && name.startsWith("control.handshake-")) this.#sendRegister();
  }

  #handleAccept({ payload }: LegacyFrame): void {
    this.#session = { id: String(payload["session_id"]), token: String(payload["session_token"]) };
    this.#isAccepted = this.#hasEverJoined = true;
    this.#dialAttempts = this.#resetCount = 0;
    if (payload["resumed"] === true) return;
    // What it said before is repeated under its old number all the same.
    this.#lastSentNumber = this.#receivedUpTo = 0;
    this.#buffer.clear();
  }

  /** In the first minutes of its life a refusal is taken for good. */
  #handleReset(): void {
    if (!this.#hasEverJoined && ++this.#resetCount > 1) return this.#options.exitProcess();
    this.#forgetSession();
    this.hangUp();
    this.dial();
  }

  #forgetSession(): void {
    this.#session = null;
    this.#isAccepted = false;
    this.#lastSentNumber = this.#receivedUpTo = 0;
    this.#buffer.clear();
    this.#unacked.clear();
    this.#waitingForWindow = [];
  }

  #handleDisconnect(): void {
    this.#connection = null;
    this.#isOpen = false;
    this.#isAccepted = false;
    const { eventLoop, random } = this.#options;
    const attempt = this.#dialAttempts++;
    const waitMs = attempt === 0 ? 0 : Math.min(30_000, 1_000 * 2 ** (attempt - 1)) * (0.8 + 0.4 * random());
    eventLoop.after(waitMs, () => {
      if (this.#connection === null) this.dial();
    });
  }

  #handleNumberedFrame(frame: LegacyFrame, number: number): void {
    if (number > this.#receivedUpTo && number - this.#receivedUpTo <= windowSize) this.#buffer.set(number, frame);
    const ready: LegacyFrame[] = [];
    for (
      let next = this.#buffer.get(this.#receivedUpTo + 1);
      next !== undefined;
      next = this.#buffer.get(this.#receivedUpTo + 1)
    ) {
      this.#buffer.delete(++this.#receivedUpTo);
      ready.push(next);
    }
    this.#sendAck(frame);
    for (const one of ready) if (one.type === "biz.exec.dispatch") this.#options.onDispatch(one);
  }

  #sendAck({ id, ack, corr, seq }: LegacyFrame): void {
    let bits = 0;
    for (const number of this.#buffer.keys()) bits += 2 ** (number - this.#receivedUpTo - 1);
    const name = ack?.request === true ? { for: id } : {};
    const payload = { ok: true, ...name, ack_seq: this.#receivedUpTo, ack_bitmap: bits, recv_window: windowSize };
    const more = { ...(corr !== undefined && { corr }), ...(seq !== undefined && { seq }), ...("for" in name && { ack: name }) };
    this.#connection?.worker.send(this.#formatFrame("control.ack", `control.ack-${this.#frameCount++}`, payload, more));
  }
}
