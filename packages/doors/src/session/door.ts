// The WebSocket door for workers: upgrades and real sockets, led into the hall. What happens there, in hall.ts, knows no transport.

import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { type Fault, fault, limits as wireLimits } from "@astraflow/protocol";
import { WebSocket, WebSocketServer } from "ws";
import { certificateOf } from "../certificates.ts";
import type { ShownCertificate } from "../gate.ts";
import { createSessionHall, type SessionHallOptions } from "./hall.ts";
import type { PeerSocket } from "./peer-socket.ts";
import { refuseUpgrade } from "./upgrade.ts";

export const sessionPath = "/ws/worker";

export interface SessionDoorOptions extends SessionHallOptions {
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
  const { outside } = options;
  const hall = createSessionHall(options);
  const server = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    maxPayload: wireLimits.frameBytesMax,
    // Answered by hand, so that a flood of pings cannot fill the socket of a peer that does not read.
    autoPong: false,
    clientTracking: false,
  });

  const lead = (ws: WebSocket, raw: Duplex): void => {
    // What came with the upgrade is put back by the library and heard as data like the rest.
    const weigh = (chunk: Buffer): void => ears.weigh(chunk.length);
    const ears = hall.welcome(new WsPeerSocket(ws, raw, () => raw.off("data", weigh)));
    raw.on("data", weigh);
    raw.on("drain", ears.drained);
    ws.on("message", (data, isBinary) => ears.message(data as Buffer, isBinary));
    ws.on("pong", ears.pong);
    ws.on("ping", ears.ping);
    // The close that follows every error is what counts; this keeps the error from being uncaught, and says why.
    ws.on("error", (problem) => outside.log({ level: "info", event: "session.socket", problem: problem.message }));
    ws.on("close", ears.closed);
  };

  return {
    upgrade(request, socket, head) {
      const why = hall.refusal() ?? refusedOrigin(request, options.origins ?? []);
      if (why !== null) return refuseUpgrade(socket, why);
      server.handleUpgrade(request, socket, head, (ws) => lead(ws, socket));
    },
    close: () => hall.close(),
    get connections() {
      return hall.connections;
    },
  };
}

class WsPeerSocket implements PeerSocket {
  readonly #ws: WebSocket;
  readonly #raw: Duplex;
  readonly trust: () => void;
  readonly certificate: ShownCertificate | null;

  constructor(ws: WebSocket, raw: Duplex, trust: () => void) {
    this.#ws = ws;
    this.#raw = raw;
    this.trust = trust;
    this.certificate = certificateOf(raw);
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

  together(work: () => void): void {
    this.#raw.cork();
    work();
    this.#raw.uncork();
  }
}

/** A page in a browser must not be able to pose as a worker with the browser's network reach. */
function refusedOrigin(request: IncomingMessage, origins: readonly string[]): Fault | null {
  const { origin } = request.headers;
  return origin === undefined || origins.includes(origin)
    ? null
    : fault("E.AUTH.FORBIDDEN", "browsers may not connect from this origin");
}
