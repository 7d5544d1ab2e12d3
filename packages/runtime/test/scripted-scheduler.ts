// A scheduler in a few lines, for tests over real sockets: it sends what the test gives it, and lets the test wait for frames.

import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { type WebSocket, WebSocketServer } from "ws";

export interface ReceivedFrame {
  readonly type: string;
  readonly id: string;
  readonly seq?: number;
  readonly corr?: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

type FrameFilter = (frame: ReceivedFrame) => boolean;

export class ScriptedScheduler {
  readonly url: string;
  readonly receivedFrames: ReceivedFrame[] = [];
  /** Close codes of the connections that have ended. */
  readonly closeCodes: number[] = [];
  connections = 0;
  /** Whether heartbeats and reports of the worker are acked without the test asking for it. */
  isAcking = true;
  /** A scheduler without memory: every session that would go on is refused, and the worker has to register. */
  isRefusingResume = true;
  readonly #server: WebSocketServer;
  #socket: WebSocket | undefined;
  #waiters: { wanted: FrameFilter; resolve: (frame: ReceivedFrame) => void }[] = [];
  #readIndex = 0;
  #frameCount = 0;
  #seq = 0;

  private constructor(server: WebSocketServer) {
    this.#server = server;
    this.url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}/ws/worker`;
    server.on("connection", (socket) => {
      this.connections++;
      this.#socket = socket;
      socket.on("message", (data) => this.#handleFrame(JSON.parse(String(data)) as ReceivedFrame));
      socket.on("close", (code) => {
        this.closeCodes.push(code);
        this.#notifyClose();
      });
    });
  }

  static async open(): Promise<ScriptedScheduler> {
    const server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
    await once(server, "listening");
    return new ScriptedScheduler(server);
  }

  sendFrame(type: string, payload: object, envelope: object = {}): void {
    const frame = { type, id: `s-${this.#frameCount++}`, ts: new Date().toISOString(), tenant: "default", payload, ...envelope };
    this.#socket?.send(JSON.stringify({ sender: { role: "scheduler", id: "scheduler-control" }, ...frame }));
  }

  ack(frame: ReceivedFrame): void {
    const numbers = { ack_seq: frame.seq ?? -1, ack_bitmap: 0, recv_window: 64 };
    this.sendFrame("control.ack", { ok: true, for: frame.id, ...numbers }, { ack: { for: frame.id } });
  }

  /** The exchange that opens a session: handshake, ack, register, ack, accept. Gives the register. */
  async acceptSession(accept: object = {}): Promise<ReceivedFrame> {
    this.ack(await this.nextFrame("control.handshake"));
    const register = await this.nextFrame("control.register");
    this.ack(register);
    this.#seq = 0;
    const usual = {
      session_id: "s",
      session_token: "t",
      heartbeat_interval_ms: 10_000,
      lease_ms: 30_000,
      send_window: 64,
      recv_window: 64,
    };
    this.sendFrame("control.session.accept", { ...usual, ...accept });
    return register;
  }

  /** The exchange by which a session goes on: resume, ack with the window's state, accept. Gives the resume. */
  async resumeSession(ackSeq: number, accept: object = {}): Promise<ReceivedFrame> {
    const frame = await this.nextFrame("control.resume");
    const numbers = { ack_seq: ackSeq, ack_bitmap: 0, recv_window: 64 };
    this.sendFrame("control.ack", { ok: true, for: frame.id, ...numbers }, { ack: { for: frame.id } });
    this.sendFrame("control.session.accept", { session_id: "s", session_token: "t2", resumed: true, ...accept });
    return frame;
  }

  dispatch(task: string, nodeType: string, parameters: object = {}, part: object = {}): void {
    const usual = {
      run_id: "r",
      task_id: task,
      node_id: "n",
      node_type: nodeType,
      package_name: "demo",
      package_version: "1.0.0",
    };
    const payload = { ...usual, parameters, constraints: {}, fence: 1, attempt: 1, ...part };
    this.sendFrame("biz.exec.dispatch", payload, { seq: this.#seq++, corr: task, ack: { request: true } });
  }

  /** The next frame of this type that no call has taken yet. */
  nextFrame(type: string, isWanted: FrameFilter = () => true): Promise<ReceivedFrame> {
    const wanted: FrameFilter = (frame) => frame.type === type && isWanted(frame);
    for (let index = this.#readIndex; index < this.receivedFrames.length; index++) {
      const frame = this.receivedFrames[index] as ReceivedFrame;
      if (!wanted(frame)) continue;
      this.#readIndex = index + 1;
      return Promise.resolve(frame);
    }
    return new Promise((resolve) => this.#waiters.push({ wanted, resolve }));
  }

  /** Breaks the connection without a goodbye. */
  dropConnection(): void {
    this.#socket?.terminate();
  }

  #closeWaiters: (() => void)[] = [];

  /** Resolves when so many connections have ended. */
  async connectionsEnded(count: number): Promise<void> {
    while (this.closeCodes.length < count) await new Promise<void>((resolve) => this.#closeWaiters.push(resolve));
  }

  async close(): Promise<void> {
    for (const client of this.#server.clients) client.terminate();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #notifyClose(): void {
    for (const resolve of this.#closeWaiters.splice(0)) resolve();
  }

  #handleFrame(frame: ReceivedFrame): void {
    this.receivedFrames.push(frame);
    if (this.isRefusingResume && frame.type === "control.resume")
      this.sendFrame("control.reset", { code: "E.SESSION.UNKNOWN", reason: "no such session here" });
    if (this.isAcking && (frame.seq !== undefined || frame.type === "control.heartbeat")) this.ack(frame);
    const index = this.#waiters.findIndex(({ wanted }) => wanted(frame));
    if (index < 0) return;
    this.#readIndex = this.receivedFrames.length;
    this.#waiters.splice(index, 1)[0]?.resolve(frame);
  }
}
