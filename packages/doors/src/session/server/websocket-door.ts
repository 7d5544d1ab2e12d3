// The WebSocket door for workers: HTTP upgrades, and real sockets for the session server.

import { type IncomingMessage, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { type Fault, fault, faultCodes, limits as wireLimits } from "@astraflow/protocol";
import { WebSocket, WebSocketServer } from "ws";
import { readPeerCertificate } from "../../auth/certificates.ts";
import { createClientAddressReader, type ReadClientAddress } from "../../auth/client-address.ts";
import type { WorkerSocket } from "../connection/worker-socket.ts";
import { SessionServer, type SessionServerOptions } from "./session-server.ts";

export interface SessionDoorOptions extends SessionServerOptions {
  /** Origins that browsers may connect from; workers send none. */
  readonly origins?: readonly string[];
  /** Proxies whose X-Forwarded-For counts: addresses and networks; absent: none. */
  readonly trustedProxies?: readonly string[];
}

export class SessionDoor {
  readonly #sessionServer: SessionServer;
  readonly #options: SessionDoorOptions;
  readonly #readAddress: ReadClientAddress;
  readonly #webSocketServer = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    // Twice what a frame may have: one that is too large is answered with its code, one that is far too large only closes the socket.
    maxPayload: 2 * wireLimits.frameBytesMax,
    // Answered by hand, so that a flood of pings cannot fill the socket of a peer that does not read.
    autoPong: false,
    clientTracking: false,
  });

  constructor(options: SessionDoorOptions) {
    this.#options = options;
    this.#readAddress = createClientAddressReader(options.trustedProxies);
    this.#sessionServer = new SessionServer(options);
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
    raw.on("drain", () => connection.drained());
    ws.on("message", (data, isBinary) => connection.message(data as Buffer, isBinary));
    ws.on("pong", () => connection.pong());
    ws.on("ping", (data) => connection.ping(data));
    // Every error is followed by a close, which is what counts; without a listener the error would be uncaught.
    ws.on("error", ({ message: problem }) => this.#options.environment.log({ level: "info", event: "session.socket", problem }));
    ws.on("close", (code) => connection.closed(code));
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
