// The wire of a worker of the oldest dialect: greets in one breath without waiting, acks by name before it handles anything, repeats what nobody
// acked and gives it up after the sixth time, dials again with a new greeting. There is no accept, no number and no resume.

import type { Connection } from "./connection.ts";
import type { FirstFrame } from "./first-fields.ts";
import { dialOlder } from "./older-socket.ts";
import type { OlderLink, OlderLinkOptions } from "./older-worker.ts";
import { tokenOf } from "./tenants.ts";

interface Pending {
  readonly text: string;
  readonly id: string;
  sends: number;
}

const resendMs = [200, 400, 800, 1_600, 3_200, 5_000] as const;
/** Its own names for what it says. */
const names: Readonly<Record<string, string>> = {
  "biz.exec.result": "result",
  "biz.exec.error": "command.error",
  "biz.exec.feedback": "feedback",
};

export class V1Link implements OlderLink {
  readonly #options: OlderLinkOptions;
  #connection: Connection | null = null;
  #isOpen = false;
  #isAnswered = true;
  #count = 0;
  #attempts = 0;
  readonly #pending = new Map<string, Pending>();

  constructor(options: OlderLinkOptions) {
    this.#options = options;
  }

  get isReady(): boolean {
    return this.#isOpen;
  }

  dial(): void {
    this.#connection = dialOlder(this.#options, {
      isCurrent: (connection) => this.#connection === connection,
      opened: (connection) => this.#opened(connection),
      text: (text) => this.#hear(JSON.parse(text) as FirstFrame),
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

  say(type: string, payload: object, { isAsked, ...more }: Parameters<OlderLink["say"]>[2]): boolean {
    // It points back to its task, not to the dispatch.
    const { task_id: task } = payload as { task_id?: string };
    const corr = task ?? more.corr?.split("#")[0];
    const rest = { ...more, ...(corr !== undefined && { corr }) };
    this.#send(names[type] ?? type, payload, { ...rest, ...(isAsked && { ack: { request: true } }) }, isAsked);
    return true;
  }

  #opened(connection: Connection): void {
    const { face, concurrency, manifest } = this.#options;
    const { name, version } = manifest as { name: string; version: string };
    this.#isOpen = this.#isAnswered = true;
    const worker = { id: face.instance, version: "0.1.0", hostname: face.worker };
    const greeting = { protocol: 1, auth: { mode: "token", token: tokenOf(face.tenant) }, worker };
    const register = {
      capabilities: { concurrency, runtimes: ["python"], features: [] },
      packages: [{ name, version, status: "installed" }],
      manifests: [{ name, version, manifest }],
    };
    const asked = { ack: { request: true } };
    this.#send("handshake", greeting, asked, true);
    this.#send("register", register, asked, true);
    this.#beat(connection);
    this.#ping(connection);
  }

  #send(type: string, payload: object, more: object, isRepeated: boolean): void {
    const id = `${type}-${this.#count++}`;
    const text = this.#write(type, id, payload, more);
    if (!isRepeated) return this.#put(text);
    const pending: Pending = { text, id, sends: 0 };
    this.#pending.set(id, pending);
    this.#transmit(pending);
  }

  #put(text: string): void {
    if (this.#isOpen) this.#connection?.worker.send(text);
  }

  #transmit(pending: Pending): void {
    if (!this.#pending.has(pending.id)) return;
    const waitMs = resendMs[pending.sends];
    if (waitMs === undefined) return void this.#pending.delete(pending.id);
    this.#put(pending.text);
    pending.sends++;
    this.#options.life.after(waitMs, () => this.#transmit(pending));
  }

  #write(type: string, id: string, payload: object, more: object): string {
    const { face, life } = this.#options;
    const ts = new Date(life.clock.wall()).toISOString();
    return JSON.stringify({ type, id, ts, tenant: face.tenant, sender: { role: "worker", id: face.instance }, ...more, payload });
  }

  /** At once, and then now and then. */
  #beat(connection: Connection): void {
    const { life, beatMs, roll, inflight } = this.#options;
    if (this.#connection !== connection || !this.#isOpen) return;
    this.#send("heartbeat", { healthy: true, metrics: { inflight: inflight() } }, {}, false);
    life.after(beatMs * (30 / 35 + (roll() * 5) / 35), () => this.#beat(connection));
  }

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

  #hear(frame: FirstFrame): void {
    if (frame.type === "ack") return void this.#pending.delete(frame.ack?.for ?? String(frame.payload["for"]));
    if (frame.ack?.request === true) this.#send("ack", { for: frame.id }, { ack: { for: frame.id } }, false);
    if (frame.type !== "cmd.dispatch") return;
    this.#attempts = 0;
    this.#options.dispatch(frame);
  }

  #lost(): void {
    this.#connection = null;
    this.#isOpen = false;
    const { life, roll } = this.#options;
    // Greetings are of their socket; words about work go on being repeated.
    for (const id of this.#pending.keys()) if (/^(handshake|register)-/.test(id)) this.#pending.delete(id);
    const waitMs = Math.min(5_000, 200 * 2 ** this.#attempts++) * (0.8 + 0.4 * roll());
    life.after(waitMs, () => {
      if (this.#connection === null) this.dial();
    });
  }
}
