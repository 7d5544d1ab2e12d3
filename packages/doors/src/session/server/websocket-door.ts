// The WebSocket door for workers: HTTP upgrades, and real sockets for the session server.

import { type IncomingMessage, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { type Fault, fault, faultCodes, limits as wireLimits } from "@astraflow/protocol";
import { WebSocket, WebSocketServer } from "ws";
import { readPeerCertificate } from "../../auth/certificates.ts";
import { createClientAddressReader, type ReadClientAddress } from "../../auth/client-address.ts";
import { type SessionLimits, sessionLimits } from "../connection/session-limits.ts";
import { UnfinishedFrames } from "../connection/unfinished-frames.ts";
import type { WorkerSocket } from "../connection/worker-socket.ts";
import { SessionServer, type SessionServerOptions } from "./session-server.ts";

export interface SessionDoorOptions extends SessionServerOptions {
  /** Origins that browsers may connect from; workers send none. */
  readonly origins?: readonly string[];
  /** Proxies whose X-Forwarded-For counts: addresses and networks; absent: none. */
  readonly trustedProxies?: readonly string[];
}

/** Of a ping or pong of a client: two bytes and the mask. */
const controlFrameHeadBytes = 6;

export class SessionDoor {
  readonly #sessionServer: SessionServer;
  readonly #options: SessionDoorOptions;
  readonly #readAddress: ReadClientAddress;
  readonly #limits: SessionLimits;
  readonly #unfinishedFrames: UnfinishedFrames;
  readonly #webSocketServer = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    // Twice what a frame may have: one that is too large is answered with its code, as soon as it has more; one that says at its start
    // that it is far too large only closes the socket.
    maxPayload: 2 * wireLimits.frameBytesMax,
    // Answered by hand, so that a flood of pings cannot fill the socket of a peer that does not read.
    autoPong: false,
    clientTracking: false,
  });

  constructor(options: SessionDoorOptions) {
    this.#options = options;
    this.#readAddress = createClientAddressReader(options.trustedProxies);
    this.#sessionServer = new SessionServer(options);
    this.#limits = { ...sessionLimits, ...options.limits };
    this.#unfinishedFrames = new UnfinishedFrames(this.#limits.unfinishedFramesBytesMax);
    const gauge = options.metrics.gauge("ws_unfinished_bytes", "Bytes of frames that have not arrived as a whole.", []);
    options.metrics.onScrape(() => gauge.withLabels().set(this.#unfinishedFrames.bytes));
  }

  get connections(): number {
    return this.#sessionServer.connections;
  }

  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const address = this.#readAddress(request);
    const why = this.#sessionServer.refusalReason(address) ?? originFault(request, this.#options.origins ?? []);
    if (why !== null) return refuseUpgrade(socket, why);
    this.#webSocketServer.handleUpgrade(request, socket, head, (ws) => this.#attachSocket(ws, socket, address));
  }

  #attachSocket(ws: WebSocket, raw: Duplex, address: string): void {
    // The library emits bytes that came with the upgrade as data, so they are counted too.
    const countBytes = (chunk: Buffer): void => connection.bytesReceived(chunk.length);
    const connection = this.#sessionServer.acceptSocket(
      toWorkerSocket(ws, raw, { address, markAuthenticated: () => raw.off("data", countBytes) }),
    );
    raw.on("data", countBytes);
    const unfinished = this.#unfinishedFrames.add((why) => {
      connection.refuse(why);
      // What it still sends stays in the network, and what it has sent is freed with the socket.
      ws.pause();
      this.#options.environment.timers.after(this.#limits.resetCloseDelayMs, () => ws.terminate());
    });
    // Before the library reads them: a frame that they complete counts no more.
    raw.prependListener("data", (chunk: Buffer) => unfinished.countBytes(chunk.length));
    raw.on("drain", () => connection.drained());
    ws.on("message", (data, isBinary) => {
      unfinished.finish();
      connection.message(data as Buffer, isBinary);
    });
    ws.on("pong", (data) => {
      unfinished.discount(data.length + controlFrameHeadBytes);
      connection.pong();
    });
    ws.on("ping", (data) => {
      unfinished.discount(data.length + controlFrameHeadBytes);
      connection.ping(data);
    });
    // Every error is followed by a close, which is what counts; without a listener the error would be uncaught.
    ws.on("error", ({ message: problem }) => this.#options.environment.log({ level: "info", event: "session.socket", problem }));
    ws.on("close", (code) => {
      unfinished.remove();
      connection.closed(code);
    });
  }

  /** Closes all connections; resolves when the last socket is gone. */
  close(): Promise<void> {
    return this.#sessionServer.close();
  }
}

const toWorkerSocket = (ws: WebSocket, raw: Duplex, peer: Pick<WorkerSocket, "address" | "markAuthenticated">): WorkerSocket => ({
  ...peer,
  certificate: readPeerCertificate(raw),
  get isOpen() {
    return ws.readyState === WebSocket.OPEN;
  },
  get bufferedAmount() {
    return ws.bufferedAmount;
  },
  send: (text) => ws.send(text),
  ping: () => ws.ping(),
  pong: (data) => ws.pong(data),
  pause: () => ws.pause(),
  resume: () => ws.resume(),
  close: (code, reason) => ws.close(code, reason),
  terminate: () => ws.terminate(),
  batchWrites(work) {
    raw.cork();
    work();
    raw.uncork();
  },
});

/** A page in a browser must not be able to pose as a worker with the browser's network reach. */
function originFault(request: IncomingMessage, origins: readonly string[]): Fault | null {
  const { origin } = request.headers;
  return origin === undefined || origins.includes(origin)
    ? null
    : fault("E.AUTH.FORBIDDEN", "browsers may not connect from this origin");
}

/** Refuses an upgrade in plain HTTP on the raw socket. */
export function refuseUpgrade(socket: Duplex, why: Fault): void {
  const status = faultCodes[why.code].http;
  const waitMs = why.details?.["retryAfterMs"];
  const body = JSON.stringify({ error: why.code, message: why.message });
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "Error"}`,
    "Connection: close",
    "Content-Type: application/json; charset=utf-8",
    `Content-Length: ${Buffer.byteLength(body)}`,
    ...(typeof waitMs === "number" ? [`Retry-After: ${Math.ceil(waitMs / 1_000)}`] : []),
  ];
  // The peer may be gone already.
  socket.on("error", () => socket.destroy());
  socket.end(`${head.join("\r\n")}\r\n\r\n${body}`, () => socket.destroy());
}
