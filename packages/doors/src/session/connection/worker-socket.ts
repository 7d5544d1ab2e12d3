// A worker's socket as the session server needs it, and the events it reports. websocket-door.ts implements it; the simulator has its own.

import type { Fault } from "@astraflow/protocol";
import type { PeerCertificate } from "../../auth/certificates.ts";

export interface WorkerSocket {
  /** Where the peer is: its IP address, or that of the client behind a trusted proxy. */
  readonly address: string;
  /** The client certificate of the TLS connection; null without TLS or without a certificate. */
  readonly certificate: PeerCertificate | null;
  readonly isOpen: boolean;
  /** Bytes that were sent and have not left. */
  readonly bufferedAmount: number;
  send(text: string): void;
  ping(): void;
  pong(data: Uint8Array): void;
  /** Stops reading; further frames wait in the network. */
  pause(): void;
  resume(): void;
  close(code: number, reason: string): void;
  /** Ends at once, also when the peer reads nothing. */
  terminate(): void;
  /** Everything sent by `work` leaves in one write. */
  batchWrites(work: () => void): void;
  /** The peer has authenticated: `bytesReceived` need not be reported any more. */
  markAuthenticated(): void;
}

/** Calls must come one after the other, in the order of the events; none throws. `closed` comes exactly once and last. */
export interface WorkerSocketEvents {
  message(data: Buffer, isBinary: boolean): void;
  ping(data: Uint8Array): void;
  pong(): void;
  /** What was sent has left; there is room again. */
  drained(): void;
  /** So many bytes arrived, whole frames or not. Only wanted until the peer has authenticated. */
  bytesReceived(bytes: number): void;
  /** What the peer has sent cannot be taken: it is told why, and the connection ends. */
  refuse(why: Fault): void;
  closed(code: number): void;
}
