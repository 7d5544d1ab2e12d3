// The connection of a worker of the first generation, as deployed ones behave: numbers from 1, acks at once, resends after a short wait and
// gives up after the seventh time, loses results while the socket is down, tries to resume and falls back to a handshake on the same socket.
// legacy-worker.ts handles the dispatches.

import { tokenOfTenant } from "../../network/simulated-authentication.ts";
import type { SimulatedConnection } from "../../network/simulated-connection.ts";
import { askedForAck, type LegacyFrame, LegacyLink, resendMs, type TaskFrameOptions } from "./legacy-link.ts";

const lastResendMs = 5_000;
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

  /** A task frame: one that finds no socket is lost, and its number with it. It does not wait for a session to be accepted. */
  override sendTaskFrame(type: string, payload: object, { isAsked, ...more }: TaskFrameOptions): boolean {
    if (!this.isOpen) {
      this.#lastSentNumber++;
      return false;
    }
    this.#waitingForWindow.push(() => {
      const number = ++this.#lastSentNumber;
      this.sendUntilAcked(type, payload, { ...more, session_seq: number, ...(isAsked && askedForAck) }, number);
    });
    this.#flush();
    return true;
  }

  #flush(): void {
    const countInFlight = (): number => [...this.unacked.values()].filter(({ number }) => number !== null).length;
    while (this.isOpen && this.#waitingForWindow.length > 0 && countInFlight() < windowSize) this.#waitingForWindow.shift()?.();
  }

  protected override handleOpen(connection: SimulatedConnection): void {
    this.#isAccepted = false;
    this.#scheduleHeartbeat(connection);
    this.schedulePing(connection);
    if (this.#session === null) return this.#sendHandshake();
    const payload = { session_id: this.#session.id, session_token: this.#session.token, last_seen_seq: this.#receivedUpTo };
    this.sendUntilAcked("control.resume", payload, askedForAck);
    this.options.eventLoop.after(acceptWaitMs, () => {
      if (this.connection !== connection || this.#isAccepted || this.#session === null) return;
      this.#forgetSession();
      this.#sendHandshake();
    });
  }

  #sendHandshake(): void {
    const { worker: name, instance, tenant } = this.options.identity;
    const worker = { worker_name: name, worker_instance_id: instance, version: "0.1.0", hostname: name };
    const auth = { mode: "token", token: tokenOfTenant(tenant) };
    this.sendUntilAcked("control.handshake", { protocol: 1, auth, worker }, askedForAck);
  }

  #sendRegister(): void {
    const { capabilities, ...rest } = this.registerPayload();
    const payload = { capabilities, payload_types: ["biz.exec.dispatch"], ...rest };
    this.sendUntilAcked("control.register", payload, askedForAck);
  }

  /** Gives up after the seventh time, or when it finds no socket. */
  protected override resendDelayMs(sendCount: number): number | undefined {
    return this.isOpen ? [...resendMs, lastResendMs][sendCount] : undefined;
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
        return frame.session_seq === undefined
          ? this.#handleUnnumberedFrame(frame)
          : this.#handleNumberedFrame(frame, frame.session_seq);
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
    if (!this.#hasEverJoined && ++this.#resetCount > 1) return this.options.killProcess();
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
    return attempt === 0 ? 0 : Math.min(30_000, 1_000 * 2 ** (attempt - 1)) * (0.8 + 0.4 * this.options.random.random());
  }

  /** Legal, as long as the scheduler has not seen a number: it passes the window and is acked by its id. */
  #handleUnnumberedFrame(frame: LegacyFrame): void {
    if (frame.ack?.request === true) this.#sendAck(frame);
    if (frame.type === "biz.exec.dispatch") this.options.onDispatch(frame);
  }

  #handleNumberedFrame(frame: LegacyFrame, number: number): void {
    if (number > this.#receivedUpTo && number - this.#receivedUpTo <= windowSize) this.#buffer.set(number, frame);
    const ready: LegacyFrame[] = [];
    for (let next = this.#takeNext(); next !== undefined; next = this.#takeNext()) ready.push(next);
    this.#sendAck(frame);
    for (const one of ready) if (one.type === "biz.exec.dispatch") this.options.onDispatch(one);
  }

  #takeNext(): LegacyFrame | undefined {
    const next = this.#buffer.get(this.#receivedUpTo + 1);
    if (next !== undefined) this.#buffer.delete(++this.#receivedUpTo);
    return next;
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

/** The fields that such a worker knows. It drops a frame with one more without a word, so a scheduler that sends one has lost it. */
interface FrameFields {
  readonly required: readonly string[];
  readonly optional: readonly string[];
}

const envelopeFields: FrameFields = {
  required: ["type", "id", "ts", "tenant", "sender", "payload"],
  optional: ["corr", "seq", "session_seq", "ack", "flags"],
};
const dispatchFields: FrameFields = {
  required: ["run_id", "task_id", "node_id", "node_type", "package_name", "package_version", "parameters", "constraints"],
  optional: ["concurrency_key", "priority", "host_node_id", "middleware_chain", "chain_index", "resource_refs", "affinity"],
};
const payloadFields: Readonly<Record<string, FrameFields>> = {
  "control.ack": { required: [], optional: ["ok", "for", "info", "ack_seq", "ack_bitmap", "recv_window"] },
  "control.session.accept": {
    required: ["session_id", "session_token", "worker_instance_id"],
    optional: ["expires_at", "resumed"],
  },
  "control.reset": { required: ["code", "reason"], optional: ["retry_after_ms"] },
  "control.drain": { required: [], optional: ["reason", "deadline_ms"] },
  "biz.exec.dispatch": dispatchFields,
};

/** The frame, or what such a worker dislikes about it. */
export function readFirstGenerationFrame(text: string): LegacyFrame | string {
  const frame = JSON.parse(text) as LegacyFrame & Record<string, unknown>;
  const problem =
    findFieldProblem("the envelope", frame, envelopeFields) ??
    findFieldProblem("sender", frame["sender"], { required: ["role", "id"], optional: [] }) ??
    (frame.ack === undefined ? null : findFieldProblem("ack", frame.ack, { required: [], optional: ["for", "request"] })) ??
    findFieldProblem(frame.type, frame.payload, payloadFields[frame.type] ?? null) ??
    findNumberProblem(frame);
  return problem ?? frame;
}

function findFieldProblem(where: string, value: unknown, fields: FrameFields | null): string | null {
  if (fields === null) return null;
  if (typeof value !== "object" || value === null) return `${where} is not an object`;
  const names = Object.keys(value);
  const missing = fields.required.find((name) => !names.includes(name));
  if (missing !== undefined) return `${where} lacks ${missing}`;
  const strange = names.find((name) => !fields.required.includes(name) && !fields.optional.includes(name));
  return strange === undefined ? null : `${where} has ${strange}`;
}

function findNumberProblem({ type, payload, session_seq: number }: LegacyFrame): string | null {
  if (type.startsWith("control.") && number !== undefined) return `${type} has a number`;
  if (number !== undefined && number < 1) return `${type} has the number ${number}`;
  if (type !== "biz.exec.dispatch") return null;
  const { constraints } = payload;
  return findFieldProblem("constraints", constraints, { required: [], optional: ["timeout_ms"] });
}
