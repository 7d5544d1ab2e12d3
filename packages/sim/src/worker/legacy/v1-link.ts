// The wire of a worker of the oldest dialect: greets in one breath without waiting, acks by name before it handles anything, repeats what nobody
// acked and gives it up after the sixth time, dials again with a new greeting. There is no accept, no number and no resume.

import type { SimulatedConnection } from "../../network/simulated-connection.ts";
import { tokenOfTenant } from "../../network/tenant-tokens.ts";
import type { LegacyFrame } from "./first-generation-frames.ts";
import { dialLegacySocket } from "./legacy-socket.ts";
import type { LegacyLink, LegacyLinkOptions } from "./legacy-worker.ts";

interface UnackedFrame {
  readonly text: string;
  readonly id: string;
  sendCount: number;
}

const resendMs = [200, 400, 800, 1_600, 3_200, 5_000] as const;
/** Its own names for what it says. */
const v1FrameNames: Readonly<Record<string, string>> = {
  "biz.exec.result": "result",
  "biz.exec.error": "command.error",
  "biz.exec.feedback": "feedback",
};

export class V1Link implements LegacyLink {
  readonly #options: LegacyLinkOptions;
  #connection: SimulatedConnection | null = null;
  #isOpen = false;
  #isPingAnswered = true;
  #frameCount = 0;
  #dialAttempts = 0;
  readonly #unacked = new Map<string, UnackedFrame>();

  constructor(options: LegacyLinkOptions) {
    this.#options = options;
  }

  get isReady(): boolean {
    return this.#isOpen;
  }

  dial(): void {
    this.#connection = dialLegacySocket(this.#options, {
      isCurrent: (connection) => this.#connection === connection,
      opened: (connection) => this.#handleOpen(connection),
      text: (text) => this.#handleFrame(JSON.parse(text) as LegacyFrame),
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

  sendTaskFrame(type: string, payload: object, { isAsked, ...more }: Parameters<LegacyLink["sendTaskFrame"]>[2]): boolean {
    // It points back to its task, not to the dispatch.
    const { task_id: task } = payload as { task_id?: string };
    const corr = task ?? more.corr?.split("#")[0];
    const rest = { ...more, ...(corr !== undefined && { corr }) };
    this.#send(v1FrameNames[type] ?? type, payload, { ...rest, ...(isAsked && { ack: { request: true } }) }, isAsked);
    return true;
  }

  #handleOpen(connection: SimulatedConnection): void {
    const { identity, concurrency, manifest } = this.#options;
    const { name, version } = manifest as { name: string; version: string };
    this.#isOpen = this.#isPingAnswered = true;
    const worker = { id: identity.instance, version: "0.1.0", hostname: identity.worker };
    const greeting = { protocol: 1, auth: { mode: "token", token: tokenOfTenant(identity.tenant) }, worker };
    const register = {
      capabilities: { concurrency, runtimes: ["python"], features: [] },
      packages: [{ name, version, status: "installed" }],
      manifests: [{ name, version, manifest }],
    };
    const asked = { ack: { request: true } };
    this.#send("handshake", greeting, asked, true);
    this.#send("register", register, asked, true);
    this.#sendHeartbeats(connection);
    this.#schedulePing(connection);
  }

  #send(type: string, payload: object, more: object, isRepeated: boolean): void {
    const id = `${type}-${this.#frameCount++}`;
    const text = this.#formatFrame(type, id, payload, more);
    if (!isRepeated) return this.#sendText(text);
    const pending: UnackedFrame = { text, id, sendCount: 0 };
    this.#unacked.set(id, pending);
    this.#transmit(pending);
  }

  #sendText(text: string): void {
    if (this.#isOpen) this.#connection?.worker.send(text);
  }

  #transmit(pending: UnackedFrame): void {
    if (!this.#unacked.has(pending.id)) return;
    const waitMs = resendMs[pending.sendCount];
    if (waitMs === undefined) return void this.#unacked.delete(pending.id);
    this.#sendText(pending.text);
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

  /** At once, and then now and then. */
  #sendHeartbeats(connection: SimulatedConnection): void {
    const { eventLoop, heartbeatMs, random, countInFlight: inflight } = this.#options;
    if (this.#connection !== connection || !this.#isOpen) return;
    this.#send("heartbeat", { healthy: true, metrics: { inflight: inflight() } }, {}, false);
    eventLoop.after(heartbeatMs * (30 / 35 + (random() * 5) / 35), () => this.#sendHeartbeats(connection));
  }

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

  #handleFrame(frame: LegacyFrame): void {
    if (frame.type === "ack") return void this.#unacked.delete(frame.ack?.for ?? String(frame.payload["for"]));
    if (frame.ack?.request === true) this.#send("ack", { for: frame.id }, { ack: { for: frame.id } }, false);
    if (frame.type !== "cmd.dispatch") return;
    this.#dialAttempts = 0;
    this.#options.onDispatch(frame);
  }

  #handleDisconnect(): void {
    this.#connection = null;
    this.#isOpen = false;
    const { eventLoop, random } = this.#options;
    // Greetings are of their socket; words about work go on being repeated.
    for (const id of this.#unacked.keys()) if (/^(handshake|register)-/.test(id)) this.#unacked.delete(id);
    const waitMs = Math.min(5_000, 200 * 2 ** this.#dialAttempts++) * (0.8 + 0.4 * random());
    eventLoop.after(waitMs, () => {
      if (this.#connection === null) this.dial();
    });
  }
}
