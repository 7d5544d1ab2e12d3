// The wire of a worker of the first generation, as it behaves in the field: numbers from 1, acks at once, hasty repeats that end in numbers used
// up, results that are lost while the socket is down, a resume that is tried and a handshake on the same socket when nothing comes of it.
// What it is asked to do is for whoever made it.

import type { Connection } from "./connection.ts";
import { type FirstFrame, readFirst } from "./first-fields.ts";
import { dialOlder } from "./older-socket.ts";
import type { OlderLink, OlderLinkOptions } from "./older-worker.ts";
import { tokenOf } from "./tenants.ts";

interface Pending {
  readonly text: string;
  readonly id: string;
  readonly number: number | null;
  sends: number;
}

const resendMs = [200, 400, 800, 1_600, 3_200, 5_000] as const;
const lastWaitMs = 5_000;
const acceptWaitMs = 10_000;
const windowSize = 64;

export class FirstLink implements OlderLink {
  readonly #options: OlderLinkOptions;
  #connection: Connection | null = null;
  #isOpen = false;
  #session: { readonly id: string; readonly token: string } | null = null;
  #isAccepted = false;
  #hasEverJoined = false;
  #resets = 0;
  #count = 0;
  #sent = 0;
  #base = 0;
  #attempts = 0;
  /** The last ping has come back. */
  #isAnswered = true;
  readonly #buffer = new Map<number, FirstFrame>();
  readonly #pending = new Map<string, Pending>();
  /** More than may be in flight at once. */
  #waiting: (() => void)[] = [];

  constructor(options: OlderLinkOptions) {
    this.#options = options;
  }

  get isReady(): boolean {
    return this.#isOpen && this.#isAccepted;
  }

  dial(): void {
    this.#connection = dialOlder(this.#options, {
      isCurrent: (connection) => this.#connection === connection,
      opened: (connection) => this.#opened(connection),
      text: (text) => this.#hear(text),
      pong: () => {
        this.#isAnswered = true;
      },
      lost: () => this.#lost(),
    });
  }

  hangUp(): void {
    const connection = this.#connection;
    this.#connection = null;
    this.#isOpen = false;
    connection?.worker.close(1000, "bye");
  }

  /** A business frame: one that finds no socket is lost, and its number with it. It does not wait for a session to be accepted. */
  say(
    type: string,
    payload: object,
    more: { readonly corr?: string; readonly seq?: number; readonly isAsked: boolean },
  ): boolean {
    if (!this.#isOpen) {
      this.#sent++;
      return false;
    }
    const { isAsked, ...rest } = more;
    this.#waiting.push(() => {
      const number = ++this.#sent;
      this.#send(type, payload, { ...rest, session_seq: number, ...(isAsked && { ack: { request: true } }) }, number);
    });
    this.#flush();
    return true;
  }

  #flush(): void {
    while (this.#isOpen && this.#inFlight() < windowSize) {
      const send = this.#waiting.shift();
      if (send === undefined) return;
      send();
    }
  }

  #inFlight(): number {
    return [...this.#pending.values()].filter(({ number }) => number !== null).length;
  }

  #opened(connection: Connection): void {
    this.#isOpen = true;
    this.#isAccepted = false;
    this.#beat(connection);
    this.#isAnswered = true;
    this.#ping(connection);
    if (this.#session === null) return this.#handshake();
    const payload = { session_id: this.#session.id, session_token: this.#session.token, last_seen_seq: this.#base };
    this.#ask("control.resume", payload);
    this.#options.life.after(acceptWaitMs, () => {
      if (this.#connection !== connection || this.#isAccepted || this.#session === null) return;
      this.#forget();
      this.#handshake();
    });
  }

  #handshake(): void {
    const { face } = this.#options;
    const worker = {
      worker_name: face.worker,
      worker_instance_id: face.instance,
      version: "0.1.0",
      hostname: face.worker,
    };
    this.#ask("control.handshake", { protocol: 1, auth: { mode: "token", token: tokenOf(face.tenant) }, worker });
  }

  #register(): void {
    const { concurrency, manifest } = this.#options;
    const { name, version } = manifest as { name: string; version: string };
    this.#ask("control.register", {
      capabilities: { concurrency, runtimes: ["python"], features: [] },
      payload_types: ["biz.exec.dispatch"],
      packages: [{ name, version, status: "installed" }],
      manifests: [{ name, version, manifest }],
    });
  }

  #ask(type: string, payload: object): void {
    this.#send(type, payload, { ack: { request: true } }, null);
  }

  /** Sends, and repeats until it is acked or the patience is over. */
  #send(type: string, payload: object, more: object, number: number | null): void {
    const id = `${type}-${this.#count++}`;
    const text = this.#write(type, id, payload, more);
    const pending: Pending = { text, id, number, sends: 0 };
    this.#pending.set(id, pending);
    this.#transmit(pending);
  }

  #transmit(pending: Pending): void {
    if (!this.#pending.has(pending.id)) return;
    const connection = this.#connection;
    if (!this.#isOpen || connection === null || pending.sends > resendMs.length) return void this.#pending.delete(pending.id);
    connection.worker.send(pending.text);
    const waitMs = resendMs[pending.sends] ?? lastWaitMs;
    pending.sends++;
    this.#options.life.after(waitMs, () => this.#transmit(pending));
  }

  #write(type: string, id: string, payload: object, more: object): string {
    const { face, life } = this.#options;
    const ts = new Date(life.clock.wall()).toISOString();
    return JSON.stringify({ type, id, ts, tenant: face.tenant, sender: { role: "worker", id: face.instance }, ...more, payload });
  }

  #beat(connection: Connection): void {
    const { life, beatMs, roll, inflight } = this.#options;
    life.after(beatMs * (30 / 35 + (roll() * 5) / 35), () => {
      if (this.#connection !== connection || !this.#isOpen) return;
      const payload = { healthy: true, metrics: { inflight: inflight(), conn_state: "connected" } };
      connection.worker.send(this.#write("control.heartbeat", `control.heartbeat-${this.#count++}`, payload, {}));
      this.#beat(connection);
    });
  }

  /** Its library asks now and then whether anybody is there. */
  #ping(connection: Connection): void {
    const { life, beatMs } = this.#options;
    life.after((beatMs * 20) / 35, () => {
      if (this.#connection !== connection || !this.#isOpen) return;
      if (!this.#isAnswered) return connection.worker.terminate();
      this.#isAnswered = false;
      connection.worker.ping();
      this.#ping(connection);
    });
  }

  #hear(text: string): void {
    const frame = readFirst(text);
    if (typeof frame === "string") return this.#options.disliked(`${frame}: ${text.slice(0, 300)}`);
    switch (frame.type) {
      case "control.ack":
        return this.#hearAck(frame);
      case "control.session.accept":
        return this.#accepted(frame);
      case "control.reset":
        return this.#reset();
      default:
        return frame.session_seq === undefined ? undefined : this.#receive(frame, frame.session_seq);
    }
  }

  #hearAck({ ack, payload }: FirstFrame): void {
    const name = ack?.for ?? String(payload["for"]);
    const asked = this.#pending.get(name);
    this.#pending.delete(name);
    const { ack_seq: upTo, ack_bitmap: bits = 0 } = payload as { ack_seq?: number; ack_bitmap?: number };
    if (upTo !== undefined)
      for (const { id, number } of [...this.#pending.values()])
        if (number !== null && (number <= upTo || ((BigInt(bits) >> BigInt(number - upTo - 1)) & 1n) === 1n))
          this.#pending.delete(id);
    this.#flush();
    if (asked !== undefined && name.startsWith("control.handshake-")) this.#register();
  }

  #accepted({ payload }: FirstFrame): void {
    this.#session = { id: String(payload["session_id"]), token: String(payload["session_token"]) };
    this.#isAccepted = this.#hasEverJoined = true;
    this.#attempts = this.#resets = 0;
    if (payload["resumed"] === true) return;
    // What it said before is repeated under its old number all the same.
    this.#sent = this.#base = 0;
    this.#buffer.clear();
  }

  /** In the first minutes of its life a refusal is taken for good. */
  #reset(): void {
    if (!this.#hasEverJoined && ++this.#resets > 1) return this.#options.exit();
    this.#forget();
    this.hangUp();
    this.dial();
  }

  #forget(): void {
    this.#session = null;
    this.#isAccepted = false;
    this.#sent = this.#base = 0;
    this.#buffer.clear();
    this.#pending.clear();
    this.#waiting = [];
  }

  #lost(): void {
    this.#connection = null;
    this.#isOpen = false;
    this.#isAccepted = false;
    const { life, roll } = this.#options;
    const attempt = this.#attempts++;
    const waitMs = attempt === 0 ? 0 : Math.min(30_000, 1_000 * 2 ** (attempt - 1)) * (0.8 + 0.4 * roll());
    life.after(waitMs, () => {
      if (this.#connection === null) this.dial();
    });
  }

  #receive(frame: FirstFrame, number: number): void {
    if (number > this.#base && number - this.#base <= windowSize) this.#buffer.set(number, frame);
    const ready: FirstFrame[] = [];
    for (let next = this.#buffer.get(this.#base + 1); next !== undefined; next = this.#buffer.get(this.#base + 1)) {
      this.#buffer.delete(++this.#base);
      ready.push(next);
    }
    this.#ack(frame);
    for (const one of ready) if (one.type === "biz.exec.dispatch") this.#options.dispatch(one);
  }

  #ack({ id, ack, corr, seq }: FirstFrame): void {
    let bits = 0;
    for (const number of this.#buffer.keys()) bits += 2 ** (number - this.#base - 1);
    const name = ack?.request === true ? { for: id } : {};
    const payload = { ok: true, ...name, ack_seq: this.#base, ack_bitmap: bits, recv_window: windowSize };
    const more = { ...(corr !== undefined && { corr }), ...(seq !== undefined && { seq }), ...("for" in name && { ack: name }) };
    this.#connection?.worker.send(this.#write("control.ack", `control.ack-${this.#count++}`, payload, more));
  }
}
