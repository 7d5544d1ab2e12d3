// Just enough of a scheduler to start a worker process against: it opens the session and acks everything.
// Written on bare sockets, since the program under test has no WebSocket of its own to lend.

import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";

interface StubFrame {
  readonly type: string;
  readonly id: string;
  readonly seq?: number;
  readonly payload: Readonly<Record<string, unknown>>;
}

const websocketMagic = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

export class StubScheduler {
  readonly url: string;
  readonly receivedFrames: StubFrame[] = [];
  /** Answers every handshake with this reset instead of a welcome. */
  refusal: { code: string; reason: string } | undefined;
  /** The period of heartbeats that it announces. */
  heartbeatMs = 10_000;
  /** Whether results are acked, or left to be sent again. */
  isAckingResults = true;
  readonly #server: Server;
  readonly #waiters: { type: string; resolve: (frame: StubFrame) => void }[] = [];
  #socket: Duplex | undefined;
  #frameCount = 0;
  #seq = 0;

  private constructor(server: Server) {
    this.#server = server;
    this.url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}/ws/worker`;
    server.on("upgrade", (request, socket) => {
      const accept = createHash("sha1").update(`${request.headers["sec-websocket-key"]}${websocketMagic}`).digest("base64");
      socket.write(
        `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
      );
      this.#socket = socket;
      let rest: Buffer = Buffer.alloc(0);
      socket.on("data", (bytes: Buffer) => {
        rest = this.#readMessages(Buffer.concat([rest, bytes]), socket);
      });
      socket.on("error", () => socket.destroy());
      // A worker that was killed sends no close frame.
      socket.on("end", () => socket.destroy());
    });
  }

  static async open(): Promise<StubScheduler> {
    const server = createServer();
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return new StubScheduler(server);
  }

  /** Resolves with the next frame of this type that comes from now on. */
  nextFrame(type: string): Promise<StubFrame> {
    return new Promise((resolve) => this.#waiters.push({ type, resolve }));
  }

  dispatch(task: string, nodeType: string, parameters: object, packageRef: object = {}): void {
    const payload = {
      run_id: "r",
      task_id: task,
      node_id: "n",
      node_type: nodeType,
      package_name: "demo",
      package_version: "1.0.0",
      ...packageRef,
    };
    this.#sendFrame("biz.exec.dispatch", { ...payload, parameters, constraints: {}, fence: 1, attempt: 1 }, { seq: this.#seq++ });
  }

  /** Frames of packages: commands to install and uninstall. */
  sendPackageCommand(type: "biz.pkg.install" | "biz.pkg.uninstall", payload: object): void {
    this.#sendFrame(type, payload, { seq: this.#seq++, ack: { request: true } });
  }

  async close(): Promise<void> {
    this.#socket?.destroy();
    this.#server.close();
    await once(this.#server, "close");
  }

  #handleFrame(frame: StubFrame): void {
    this.receivedFrames.push(frame);
    if (frame.type === "control.handshake" && this.refusal) this.#sendFrame("control.reset", this.refusal);
    else if (frame.type !== "control.ack" && (this.isAckingResults || frame.seq === undefined))
      this.#sendFrame("control.ack", { ok: true, for: frame.id, ack_seq: frame.seq ?? -1, ack_bitmap: 0 });
    if (frame.type === "control.register") {
      this.#seq = 0;
      const periods = { heartbeat_interval_ms: this.heartbeatMs, lease_ms: 30_000 };
      this.#sendFrame("control.session.accept", { session_id: "s", session_token: "t", features: ["pkg.install"], ...periods });
    }
    const index = this.#waiters.findIndex(({ type }) => type === frame.type);
    if (index >= 0) this.#waiters.splice(index, 1)[0]?.resolve(frame);
  }

  #sendFrame(type: string, payload: object, envelope: object = {}): void {
    const frame = { type, id: `s-${this.#frameCount++}`, ts: new Date().toISOString(), tenant: "default", payload, ...envelope };
    const text = Buffer.from(JSON.stringify({ ...frame, sender: { role: "scheduler", id: "tiny" } }));
    this.#socket?.write(Buffer.concat([Buffer.from([0x81, 126, text.length >> 8, text.length & 255]), text]));
  }

  /** Reads the whole messages in these bytes and gives back what is left over. */
  #readMessages(bytes: Buffer, socket: Duplex): Buffer {
    for (let rest = bytes; ; ) {
      const short = (rest[1] ?? 0) & 127;
      const wide = short === 126 ? 2 : short === 127 ? 8 : 0;
      if (rest.length < 6 + wide) return rest;
      const length = wide === 0 ? short : wide === 2 ? rest.readUInt16BE(2) : Number(rest.readBigUInt64BE(2));
      const start = 6 + wide;
      if (rest.length < start + length) return rest;
      const mask = rest.subarray(start - 4, start);
      const body = rest.subarray(start, start + length).map((byte, index) => byte ^ (mask[index % 4] ?? 0));
      const opcode = (rest[0] ?? 0) & 15;
      if (opcode === 1) this.#handleFrame(JSON.parse(Buffer.from(body).toString("utf8")) as StubFrame);
      else if (opcode === 8) socket.end(Buffer.from([0x88, 2, 0x03, 0xe8]));
      rest = rest.subarray(start + length);
    }
  }
}
