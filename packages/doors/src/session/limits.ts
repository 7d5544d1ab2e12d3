// How much of anything one worker connection may cost, in one table. Sizes of frames as such are in the protocol's limits.

import { limits } from "@astraflow/protocol";

const KiB = 1024;
const MiB = 1024 * KiB;

export interface SessionLimits {
  /** Sockets at once, and how many of them may not have authenticated yet. */
  readonly connectionsMax: number;
  readonly strangersMax: number;
  /** All bytes a peer may send before it has authenticated, and the time it has for that. */
  readonly strangerBytesMax: number;
  readonly strangerMs: number;
  /** From the handshake's ack to register. */
  readonly registerMs: number;
  /** How long a register that names no inventory waits for catalogue and inventory. */
  readonly inventoryMs: number;
  /** Numbered frames in flight towards the worker, and from it. */
  readonly sendWindow: number;
  readonly recvWindow: number;
  /** A frame gets its number while fewer bytes than this wait in the socket. */
  readonly socketBytesSoft: number;
  /** More waiting than this, in the socket or before it: the peer does not read, the socket ends. */
  readonly socketBytesMax: number;
  readonly waitingBytesMax: number;
  /** Bytes of frames the engine has not answered; above this the socket is not read until it has. */
  readonly unansweredBytesMax: number;
  /** Heartbeats and other unnumbered frames the engine has not answered. */
  readonly unnumberedMax: number;
  readonly beatsMax: number;
  readonly pingMs: number;
  /** While we do not read a socket its peer's pings stay unanswered; ours, this often, show it that we live. */
  readonly pingPausedMs: number;
  /** Ping periods without any byte of the peer before the socket ends. */
  readonly pingsMissedMax: number;
  /** How long a peer may take to answer our close. */
  readonly closeMs: number;
  /** How often deadlines are looked at. */
  readonly sweepMs: number;
  readonly tokenMs: number;
  /** Told to workers that a fault sends away although their word was fine. */
  readonly retryAfterMs: number;
}

export const sessionLimits: SessionLimits = {
  connectionsMax: 20_000,
  strangersMax: 1_000,
  strangerBytesMax: limits.strangerFrameBytesMax,
  strangerMs: 10_000,
  registerMs: 15_000,
  inventoryMs: 5_000,
  sendWindow: limits.windowMax,
  recvWindow: limits.windowMax,
  socketBytesSoft: 256 * KiB,
  socketBytesMax: 8 * MiB + limits.frameBytesMax,
  waitingBytesMax: 64 * MiB,
  unansweredBytesMax: 8 * MiB,
  unnumberedMax: 256,
  beatsMax: 4,
  pingMs: 20_000,
  pingPausedMs: 3_000,
  pingsMissedMax: 2,
  closeMs: 2_000,
  sweepMs: 1_000,
  tokenMs: 24 * 60 * 60 * 1000,
  retryAfterMs: 1_000,
};
