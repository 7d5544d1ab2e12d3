// The WebSocket door for workers: upgrades and real sockets, led into the session server. What happens there, in session-server.ts, knows no transport.

import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { type Fault, fault, limits as wireLimits } from "@astraflow/protocol";
import { WebSocket, WebSocketServer } from "ws";
import { readPeerCertificate } from "../../auth/certificates.ts";
import type { PeerCertificate } from "../../auth/worker-authenticator.ts";
import type { WorkerSocket } from "../connection/worker-socket.ts";
import { createSessionServer, type SessionServerOptions } from "./session-server.ts";
import { refuseUpgrade } from "./upgrade-refusal.ts";

export const sessionPath = "/ws/worker";

export interface SessionDoorOptions extends SessionServerOptions {
  /** Origins that browsers may come from; workers send none. */
  readonly origins?: readonly string[];
}

export interface SessionDoor {
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** Says goodbye to everyone; resolves when the last socket is gone. */
  close(): Promise<void>;
  readonly connections: number;
}

export function createSessionDoor(options: SessionDoorOptions): SessionDoor {
  const { environment } = options;
  const sessionServer = createSessionServer(options);
  const webSocketServer = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    maxPayload: wireLimits.frameBytesMax,
    // Answered by hand, so that a flood of pings cannot fill the socket of a peer that does not read.
    autoPong: false,
    clientTracking: false,
  });

  const attachSocket = (ws: WebSocket, raw: Duplex): void => {
    // What came with the upgrade is put back by the library and heard as data like the rest.
    const countBytes = (chunk: Buffer): void => socketEvents.bytesReceived(chunk.length);
    const socketEvents = sessionServer.acceptSocket(new WebSocketWorkerSocket(ws, raw, () => raw.off("data", countBytes)));
    raw.on("data", countBytes);
    raw.on("drain", socketEvents.drained);
    ws.on("message", (data, isBinary) => socketEvents.message(data as Buffer, isBinary));
    ws.on("pong", socketEvents.pong);
    ws.on("ping", socketEvents.ping);
    // The close that follows every error is what counts; this keeps the error from being uncaught, and says why.
    ws.on("error", (problem) => environment.log({ level: "info", event: "session.socket", problem: problem.message }));
    ws.on("close", socketEvents.closed);
  };

  return {
    upgrade(request, socket, head) {
      const why = sessionServer.refusalReason() ?? originFault(request, options.origins ?? []);
      if (why !== null) return refuseUpgrade(socket, why);
      webSocketServer.handleUpgrade(request, socket, head, (ws) => attachSocket(ws, socket));
    },
    close: () => sessionServer.close(),
    get connections() {
      return sessionServer.connections;
    },
  };
}

class WebSocketWorkerSocket implements WorkerSocket {
  readonly #ws: WebSocket;
  readonly #raw: Duplex;
  readonly markAuthenticated: () => void;
  readonly certificate: PeerCertificate | null;

  constructor(ws: WebSocket, raw: Duplex, trust: () => void) {
    this.#ws = ws;
    this.#raw = raw;
    this.markAuthenticated = trust;
    this.certificate = readPeerCertificate(raw);
  }

  get isOpen(): boolean {
    return this.#ws.readyState === WebSocket.OPEN;
  }

  get bufferedAmount(): number {
    return this.#ws.bufferedAmount;
  }

  send(text: string): void {
    this.#ws.send(text);
  }

  ping(): void {
    this.#ws.ping();
  }

  pong(data: Uint8Array): void {
    this.#ws.pong(data);
  }

  pause(): void {
    this.#ws.pause();
  }

  resume(): void {
    this.#ws.resume();
  }

  close(code: number, reason: string): void {
    this.#ws.close(code, reason);
  }

  terminate(): void {
    this.#ws.terminate();
  }

  batchWrites(work: () => void): void {
    this.#raw.cork();
    work();
    this.#raw.uncork();
  }
}

/** A page in a browser must not be able to pose as a worker with the browser's network reach. */
function originFault(request: IncomingMessage, origins: readonly string[]): Fault | null {
  const { origin } = request.headers;
  return origin === undefined || origins.includes(origin)
    ? null
    : fault("E.AUTH.FORBIDDEN", "browsers may not connect from this origin");
}
