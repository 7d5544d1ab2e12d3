// The connection of a worker of the first generation, as deployed ones behave: numbers from 1, acks at once, resends after a short wait and
// gives up after the seventh time, loses results while the socket is down, tries to resume and falls back to a handshake on the same socket.
// legacy-worker.ts handles the dispatches.

import type { SimulatedConnection } from "../../network/simulated-connection.ts";
import { tokenOfTenant } from "../../network/tenant-tokens.ts";
import { type LegacyFrame, readFirstGenerationFrame } from "./first-generation-frames.ts";
import { LegacyLink, resendMs, type UnackedFrame } from "./legacy-link.ts";

const lastWaitMs = 5_000;
const acceptWaitMs = 10_000;
const windowSize = 64;

export class FirstGenerationLink extends LegacyLink {
  #session: { readonly id: string; readonly token: string } | null = null;
  #isAccepted = false;
  #hasEverJoined = false;
  #resetCount = 0;
  #lastSentNumber = 0;
  #receivedUpTo = 0;
  readonly #buffer = new Map<number, LegacyFrame>();
  /** Frames beyond the window. */
  #waitingForWindow: (() => void)[] = [];

  override get isReady(): boolean {
    return this.isOpen && this.#isAccepted;
  }

  /** A task frame: one that finds no socket is lost, and its number with it. It does not wait for a session to be accepted. */
  override sendTaskFrame(type: string, payload: object, more: Parameters<LegacyLink["sendTaskFrame"]>[2]): boolean {
    if (!this.isOpen) {
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
    while (this.isOpen && this.#inFlight() < windowSize) {
      const send = this.#waitingForWindow.shift();
      if (send === undefined) return;
      send();
    }
  }

  #inFlight(): number {
    return [...this.unacked.values()].filter(({ number }) => number !== null).length;
  }

  protected override handleOpen(connection: SimulatedConnection): void {
    this.#isAccepted = false;
    this.#scheduleHeartbeat(connection);
    this.schedulePing(connection);
    if (this.#session === null) return this.#sendHandshake();
    const payload = { session_id: this.#session.id, session_token: this.#session.token, last_seen_seq: this.#receivedUpTo };
    this.#sendRequestingAck("control.resume", payload);
    this.options.eventLoop.after(acceptWaitMs, () => {
      if (this.connection !== connection || this.#isAccepted || this.#session === null) return;
      this.#forgetSession();
      this.#sendHandshake();
    });
  }

  #sendHandshake(): void {
    const { identity } = this.options;
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
    const { capabilities, ...rest } = this.registerPayload();
    this.#sendRequestingAck("control.register", { capabilities, payload_types: ["biz.exec.dispatch"], ...rest });
  }

  #sendRequestingAck(type: string, payload: object): void {
    this.#send(type, payload, { ack: { request: true } }, null);
  }

  /** Sends, and resends until it is acked or was sent seven times. */
  #send(type: string, payload: object, more: object, number: number | null): void {
    const frame = this.createFrame(type, payload, more, number);
    this.unacked.set(frame.id, frame);
    this.#transmit(frame);
  }

  #transmit(frame: UnackedFrame): void {
    if (!this.unacked.has(frame.id)) return;
    const connection = this.connection;
    if (!this.isOpen || connection === null || frame.sendCount > resendMs.length) return void this.unacked.delete(frame.id);
    connection.worker.send(frame.text);
    const waitMs = resendMs[frame.sendCount] ?? lastWaitMs;
    frame.sendCount++;
    this.options.eventLoop.after(waitMs, () => this.#transmit(frame));
  }

  #scheduleHeartbeat(connection: SimulatedConnection): void {
    this.options.eventLoop.after(this.heartbeatDelayMs(), () => {
      if (!this.isCurrent(connection)) return;
      const payload = { healthy: true, metrics: { inflight: this.options.countInFlight(), conn_state: "connected" } };
      connection.worker.send(this.createFrame("control.heartbeat", payload, {}).text);
      this.#scheduleHeartbeat(connection);
    });
  }

  protected override handleText(text: string): void {
    const frame = readFirstGenerationFrame(text);
    if (typeof frame === "string") return this.options.onUnreadableFrame(`${frame}: ${text.slice(0, 300)}`);
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
    const asked = this.unacked.get(name);
    this.unacked.delete(name);
    const { ack_seq: upTo, ack_bitmap: bits = 0 } = payload as { ack_seq?: number; ack_bitmap?: number };
    if (upTo !== undefined)
      for (const { id, number } of [...this.unacked.values()])
        if (number !== null && (number <= upTo || ((BigInt(bits) >> BigInt(number - upTo - 1)) & 1n) === 1n))
          this.unacked.delete(id);
    this.#flush();
    if (asked !== undefined && name.startsWith("control.handshake-")) this.#sendRegister();
  }

  #handleAccept({ payload }: LegacyFrame): void {
    this.#session = { id: String(payload["session_id"]), token: String(payload["session_token"]) };
    this.#isAccepted = this.#hasEverJoined = true;
    this.dialAttempts = this.#resetCount = 0;
    if (payload["resumed"] === true) return;
    // Frames sent before are still resent under their old numbers.
    this.#lastSentNumber = this.#receivedUpTo = 0;
    this.#buffer.clear();
  }

  /** Before its first session a second reset ends the process. */
  #handleReset(): void {
    if (!this.#hasEverJoined && ++this.#resetCount > 1) return this.options.exitProcess();
    this.#forgetSession();
    this.hangUp();
    this.dial();
  }

  #forgetSession(): void {
    this.#session = null;
    this.#isAccepted = false;
    this.#lastSentNumber = this.#receivedUpTo = 0;
    this.#buffer.clear();
    this.unacked.clear();
    this.#waitingForWindow = [];
  }

  protected override handleDisconnect(): number {
    this.#isAccepted = false;
    const attempt = this.dialAttempts++;
    return attempt === 0 ? 0 : Math.min(30_000, 1_000 * 2 ** (attempt - 1)) * (0.8 + 0.4 * this.options.random());
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
    for (const one of ready) if (one.type === "biz.exec.dispatch") this.options.onDispatch(one);
  }

  #sendAck({ id, ack, corr, seq }: LegacyFrame): void {
    let bits = 0;
    for (const number of this.#buffer.keys()) bits += 2 ** (number - this.#receivedUpTo - 1);
    const name = ack?.request === true ? { for: id } : {};
    const payload = { ok: true, ...name, ack_seq: this.#receivedUpTo, ack_bitmap: bits, recv_window: windowSize };
    const more = { ...(corr !== undefined && { corr }), ...(seq !== undefined && { seq }), ...("for" in name && { ack: name }) };
    this.connection?.worker.send(this.createFrame("control.ack", payload, more).text);
  }
}
