// A worker's socket as the session server needs it, and what the session server wants to hear of it. Real sockets are made in websocket-door.ts; a simulator brings its own.

import type { PeerCertificate } from "../../auth/worker-authenticator.ts";

export interface WorkerSocket {
  /** What the peer has shown on its TLS connection; null without TLS or without a certificate. */
  readonly certificate: PeerCertificate | null;
  readonly isOpen: boolean;
  /** Bytes that were sent and have not left. */
  readonly bufferedAmount: number;
  send(text: string): void;
  ping(): void;
  pong(data: Uint8Array): void;
  /** Stops reading; the peer's words wait in the network. */
  pause(): void;
  resume(): void;
  close(code: number, reason: string): void;
  /** Ends without a goodbye, also when the peer reads nothing. */
  terminate(): void;
  /** All that is sent inside leaves in one write. */
  batchWrites(work: () => void): void;
  /** The peer has authenticated: its bytes need not be told any more. */
  markAuthenticated(): void;
}

/** Calls must come one after the other, in the order things happened; none throws. `closed` comes exactly once and last. */
export interface WorkerSocketEvents {
  message(data: Buffer, isBinary: boolean): void;
  ping(data: Uint8Array): void;
  pong(): void;
  /** What was sent has left; there is room again. */
  drained(): void;
  /** So many bytes arrived, whole frames or not. Only wanted until the peer is trusted. */
  bytesReceived(bytes: number): void;
  closed(code: number): void;
}
