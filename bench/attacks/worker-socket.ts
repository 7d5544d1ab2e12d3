// A worker's socket whose frames are written by hand, for attacks on the session interface.

import { randomUUID } from "node:crypto";
import { WebSocket } from "ws";

export interface ReceivedFrame {
  readonly type: string;
  readonly id: string;
  readonly seq?: number;
  readonly payload: Record<string, unknown>;
}

const waitMs = 30_000;

export class WorkerSocket {
  readonly instance: string;
  readonly #socket: WebSocket;
  readonly #received: ReceivedFrame[] = [];
  #wake: () => void = () => undefined;
  #closeCode: number | null = null;
  #closeReason = "";
  #number = 0;

  /** Resolves once the socket is open, or was refused. */
  static async open(ws: string, instance: string = randomUUID()): Promise<WorkerSocket> {
    const one = new WorkerSocket(ws, instance);
    await one.#until(() => one.#closeCode !== null || one.#socket.readyState === WebSocket.OPEN);
    return one;
  }

  private constructor(ws: string, instance: string) {
    this.instance = instance;
    this.#socket = new WebSocket(ws);
    this.#socket.on("open", () => this.#wake());
    this.#socket.on("message", (data) => {
      this.#received.push(JSON.parse(String(data)) as ReceivedFrame);
      this.#wake();
    });
    // An upgrade that is refused ends in an error and no close code.
    this.#socket.on("error", () => this.#close(0));
    this.#socket.on("close", (code, reason) => {
      this.#closeReason = String(reason);
      this.#close(code);
    });
  }

  get closeCode(): number | null {
    return this.#closeCode;
  }

  get closeReason(): string {
    return this.#closeReason;
  }

  send(type: string, payload: object, more: object = {}): string {
    const id = randomUUID();
    const sender = { role: "worker", id: this.instance };
    const frame = { type, id, ts: new Date().toISOString(), tenant: "default", sender, ack: { request: true }, payload, ...more };
    this.#socket.send(JSON.stringify(frame));
    return id;
  }

  /** A frame with the next transport number. */
  sendWork(type: string, payload: object, corr: string): string {
    return this.send(type, payload, { seq: this.#number++, corr });
  }

  handshake(token: string, sessionKey?: string): void {
    this.send("control.handshake", {
      ...(sessionKey !== undefined && { session_key: sessionKey }),
      protocol: 2,
      auth: { mode: "token", token },
      worker: {
        worker_name: `attack-${this.instance.slice(0, 8)}`,
        worker_instance_id: this.instance,
        version: "1.0.0",
        hostname: "box",
      },
    });
  }

  /** Handshake and register as a worker of the demo package; gives the accept, or null where there is none. */
  async join(
    token: string,
    packages: readonly { name: string; version: string }[] = [],
    sessionKey?: string,
  ): Promise<ReceivedFrame | null> {
    this.handshake(token, sessionKey);
    if ((await this.next("control.ack")) === null) return null;
    this.send("control.register", {
      capabilities: { concurrency: { max_parallel: 1 }, runtimes: ["node"], features: ["fence", "held"] },
      packages: packages.map((one) => ({ ...one, status: "installed" })),
      boot_id: randomUUID(),
      running: [],
    });
    return this.next("control.session.accept");
  }

  /** The next frame of this type that fits; null where the socket ends before or none comes. */
  async next(type: string, fits: (frame: ReceivedFrame) => boolean = () => true): Promise<ReceivedFrame | null> {
    const find = () => this.#received.findIndex((frame) => frame.type === type && fits(frame));
    await this.#until(() => find() >= 0 || this.#closeCode !== null);
    const index = find();
    return index < 0 ? null : (this.#received.splice(index, 1)[0] ?? null);
  }

  /** Parts of a frame whose end never comes; resolves when the last one has left, or the socket has ended. */
  async sendParts(count: number, bytes: number): Promise<void> {
    const part = Buffer.alloc(bytes, "x");
    for (let at = 0; at < count && this.#closeCode === null; at += 1)
      await new Promise<void>((resolve) => this.#socket.send(part, { fin: false, binary: false }, () => resolve()));
  }

  /** The frame of this type that has come or comes within the time. */
  async receivedWithin(type: string, ms: number): Promise<ReceivedFrame | null> {
    await this.#until(() => this.#received.some((frame) => frame.type === type) || this.#closeCode !== null, ms);
    return this.#received.find((frame) => frame.type === type) ?? null;
  }

  async closed(): Promise<number | null> {
    await this.#until(() => this.#closeCode !== null);
    return this.#closeCode;
  }

  end(): void {
    this.#socket.terminate();
  }

  #close(code: number): void {
    this.#closeCode ??= code;
    this.#wake();
  }

  async #until(isDone: () => boolean, ms = waitMs): Promise<void> {
    const until = performance.now() + ms;
    while (!isDone() && performance.now() < until) {
      const changed = new Promise<void>((resolve) => (this.#wake = resolve));
      const timer = setTimeout(() => this.#wake(), Math.max(0, until - performance.now()));
      await changed;
      clearTimeout(timer);
    }
  }
}
