// The connection of a worker that was built from the specification of v2 and nothing else: protocol 1, numbers by `seq` from 0, a window with
// cumulative acks, resumes, heartbeats of `healthy` alone. It keeps what was not acked, also over sessions, and starts no dispatch twice.

import { tokenOfTenant } from "../../network/simulated-authentication.ts";
import type { SimulatedConnection } from "../../network/simulated-connection.ts";
import { simPackage } from "../../plan/simulated-package.ts";
import { askedForAck, type LegacyFrame, LegacyLink, type LegacyLinkOptions, type TaskFrameOptions } from "./legacy-link.ts";

interface OutboxFrame {
  readonly type: string;
  readonly payload: object;
  readonly more: object;
  readonly id: string;
  number: number;
}

const windowSize = 16;
const acceptWaitMs = 10_000;
const resendMs = { first: 400, max: 5_000 };

export class BasicLink extends LegacyLink {
  #session: { readonly id: string; readonly token: string } | null = null;
  #isLive = false;
  #nextNumber = 0;
  #receivedUpTo = -1;
  readonly #buffer = new Map<number, LegacyFrame>();
  #outbox: OutboxFrame[] = [];
  #resendDelayMs = resendMs.first;
  /** A dispatch that comes again is known by its id and not started once more. */
  readonly #dispatchIds = new Set<string>();
  /** Its packages are in its register, or follow in its heartbeats. */
  readonly #registersPackages: boolean;
  #frameNumber = 0;

  constructor(options: LegacyLinkOptions) {
    super(options);
    this.#registersPackages = options.random.chance(0.5);
  }

  protected override nextFrameId(_type: string): string {
    return `${this.options.identity.boot}/${this.#frameNumber++}`;
  }

  override sendTaskFrame(type: string, payload: object, { corr }: TaskFrameOptions): boolean {
    const { task_id: task = corr?.split("#")[0] } = payload as { task_id?: string };
    const more = { ...(task !== undefined && { corr: task }), ...askedForAck };
    const frame = { type, payload, more, id: this.nextFrameId(type), number: this.#nextNumber++ };
    this.#outbox.push(frame);
    if (this.#isLive && this.#outbox.length <= windowSize) this.#transmit(frame);
    return true;
  }

  protected override handleOpen(connection: SimulatedConnection): void {
    const session = this.#session;
    this.schedulePing(connection);
    if (session === null) this.#sendHandshake();
    else {
      const payload = { session_id: session.id, session_token: session.token, last_seen_seq: this.#receivedUpTo };
      // The lowest number that the field can hold is 0: one who has received nothing says nothing.
      const { last_seen_seq: seen, ...without } = payload;
      this.#sendControl("control.resume", seen < 0 ? without : payload);
    }
    this.options.eventLoop.after(acceptWaitMs, () => {
      if (!this.isCurrent(connection) || this.#isLive) return;
      this.#session = null;
      connection.worker.terminate();
    });
  }

  #sendHandshake(): void {
    const { worker: name, instance, tenant } = this.options.identity;
    const worker = { worker_name: name, worker_instance_id: instance, version: "1.0.0", hostname: name };
    this.#sendControl("control.handshake", { protocol: 1, auth: { mode: "token", token: tokenOfTenant(tenant) }, worker });
  }

  #sendControl(type: string, payload: object): void {
    this.sendText(this.createFrame(type, payload, askedForAck).text);
  }

  protected override resendDelayMs(): undefined {
    return undefined;
  }

  protected override handleText(text: string): void {
    const frame = JSON.parse(text) as LegacyFrame;
    const { seq } = frame;
    switch (frame.type) {
      case "control.ack":
        return this.#handleAck(frame);
      case "control.session.accept":
        return this.#handleAccept(frame);
      case "control.reset":
        return this.#handleReset();
      case "control.drain":
        return;
      default:
        if (seq === undefined || frame.session_seq !== undefined)
          return this.options.onUnreadableFrame(`a work frame without seq alone: ${text.slice(0, 300)}`);
        return this.#handleNumberedFrame(frame, seq);
    }
  }

  /** After the ack of its handshake it registers; it knows the ack by where it stands. */
  #handleAck({ payload }: LegacyFrame): void {
    const { ack_seq: upTo, ack_bitmap: bits = 0 } = payload as { ack_seq?: number; ack_bitmap?: number };
    if (this.#session === null && !this.#isRegistered) return this.#sendRegister();
    if (upTo === undefined) return;
    const isAcked = (number: number): boolean => number <= upTo || ((BigInt(bits) >> BigInt(number - upTo - 1)) & 1n) === 1n;
    const before = this.#outbox.length;
    this.#outbox = this.#outbox.filter(({ number }) => !isAcked(number));
    if (this.#outbox.length < before && this.#isLive) {
      this.#resendDelayMs = resendMs.first;
      for (const frame of this.#outbox.slice(Math.max(0, windowSize - (before - this.#outbox.length)), windowSize))
        this.#transmit(frame);
    }
  }

  #isRegistered = false;

  #sendRegister(): void {
    this.#isRegistered = true;
    const { capabilities, ...inventory } = this.registerPayload();
    this.#sendControl("control.register", { capabilities, ...(this.#registersPackages && inventory) });
  }

  #handleAccept({ payload }: LegacyFrame): void {
    const connection = this.connection;
    const isNew = payload["resumed"] !== true;
    this.#session = { id: String(payload["session_id"]), token: String(payload["session_token"]) };
    this.dialAttempts = 0;
    if (this.#isLive || connection === null) return;
    this.#isLive = true;
    if (isNew) {
      this.#receivedUpTo = -1;
      this.#buffer.clear();
      for (const [index, frame] of this.#outbox.entries()) frame.number = index;
      this.#nextNumber = this.#outbox.length;
    }
    this.#scheduleHeartbeat(connection, 0);
    this.#scheduleResend(connection, 0);
  }

  #handleReset(): void {
    this.#session = null;
    this.hangUp();
    this.#endConnection();
    this.dial();
  }

  #endConnection(): void {
    this.#isLive = this.#isRegistered = false;
    this.#resendDelayMs = resendMs.first;
  }

  protected override handleDisconnect(): number {
    this.#endConnection();
    return Math.min(30_000, 500 * 2 ** this.dialAttempts++) * (0.8 + 0.4 * this.options.random.random());
  }

  #scheduleHeartbeat(connection: SimulatedConnection, afterMs: number): void {
    this.options.eventLoop.after(afterMs, () => {
      if (!this.isCurrent(connection)) return;
      const { name, version } = simPackage;
      const packages = { installed: [{ name, version, status: "installed" }] };
      const payload = { healthy: true, ...(!this.#registersPackages && { packages }) };
      this.sendText(this.createFrame("control.heartbeat", payload, {}).text);
      this.#scheduleHeartbeat(connection, this.heartbeatDelayMs());
    });
  }

  /** Resends everything within the window that is not acked, later each time. */
  #scheduleResend(connection: SimulatedConnection, afterMs: number): void {
    this.options.eventLoop.after(afterMs, () => {
      if (!this.isCurrent(connection) || !this.#isLive) return;
      for (const frame of this.#outbox.slice(0, windowSize)) this.#transmit(frame);
      this.#resendDelayMs = Math.min(resendMs.max, this.#resendDelayMs * 2);
      this.#scheduleResend(connection, this.#resendDelayMs * (0.8 + 0.4 * this.options.random.random()));
    });
  }

  #transmit({ type, payload, more, id, number }: OutboxFrame): void {
    this.sendText(this.createFrame(type, payload, { ...more, seq: number }, null, id).text);
  }

  #handleNumberedFrame(frame: LegacyFrame, number: number): void {
    if (number > this.#receivedUpTo && number - this.#receivedUpTo <= windowSize) this.#buffer.set(number, frame);
    const ready: LegacyFrame[] = [];
    for (
      let next = this.#buffer.get(this.#receivedUpTo + 1);
      next !== undefined;
      next = this.#buffer.get(this.#receivedUpTo + 1)
    ) {
      this.#receivedUpTo += 1;
      this.#buffer.delete(this.#receivedUpTo);
      ready.push(next);
    }
    this.#sendAck(frame);
    for (const one of ready) {
      if (one.type !== "biz.exec.dispatch" || this.#dispatchIds.has(one.id)) continue;
      this.#dispatchIds.add(one.id);
      this.options.onDispatch(one);
    }
  }

  #sendAck({ id, ack }: LegacyFrame): void {
    let bits = 0;
    for (const number of this.#buffer.keys()) bits += 2 ** (number - this.#receivedUpTo - 1);
    const name = ack?.request === true ? { for: id } : {};
    const payload = { ok: true, ...name, ack_seq: Math.max(0, this.#receivedUpTo), ack_bitmap: bits, recv_window: windowSize };
    if (this.#receivedUpTo < 0) return;
    this.sendText(this.createFrame("control.ack", payload, "for" in name ? { ack: name } : {}).text);
  }
}
