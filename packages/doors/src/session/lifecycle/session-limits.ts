// How much of anything one worker connection may cost, in one table. Sizes of frames as such are in the protocol's limits.

import { limits } from "@astraflow/protocol";

const KiB = 1024;
const MiB = 1024 * KiB;

export interface SessionLimits {
  /** Sockets at once, how many of them may be of one tenant, and how many may not have authenticated yet. */
  readonly connectionsMax: number;
  readonly connectionsPerTenantMax: number;
  readonly unauthenticatedMax: number;
  /** All bytes a peer may send before it has authenticated, and the time it has for that. */
  readonly unauthenticatedBytesMax: number;
  readonly handshakeTimeoutMs: number;
  /** From when on one that has said nothing is sent away where there are too many. */
  readonly unauthenticatedGraceMs: number;
  /** From the handshake's ack to register. */
  readonly registerTimeoutMs: number;
  /** How long a register that names no inventory waits for catalogue and inventory. */
  readonly inventoryTimeoutMs: number;
  /** Handshakes and resumes taken up in a second; later ones hear of it later, in order. */
  readonly handshakesPerSecondMax: number;
  /** Numbered frames in flight towards the worker, and from it; for workers that announced `wide` the two after them. */
  readonly sendWindow: number;
  readonly recvWindow: number;
  readonly wideSendWindow: number;
  readonly wideRecvWindow: number;
  /** Bytes of such frames, in each direction. */
  readonly windowBytes: number;
  /** How long a session without a socket can be resumed; 0: never. What it and all of them together may hold meanwhile. */
  readonly resumeTimeoutMs: number;
  readonly detachedBytesMax: number;
  readonly detachedMax: number;
  readonly detachedBytesTotalMax: number;
  /** Lease lengths without any frame, not even a heartbeat, before a session ends. */
  readonly idleLeasesMax: number;
  /** A frame gets its number while fewer bytes than this wait in the socket. */
  readonly socketBytesSoft: number;
  /** More waiting than this, in the socket or before it: the peer does not read, the socket ends. */
  readonly socketBytesMax: number;
  readonly waitingBytesMax: number;
  /** Bytes of frames the engine has not answered; above this the socket is not read until it has. */
  readonly unansweredBytesMax: number;
  /** The same for what follows a handshake or resume that waits for its turn: there may be thousands of them. */
  readonly waitingToJoinBytesMax: number;
  /** Heartbeats and other unnumbered frames the engine has not answered. */
  readonly unnumberedMax: number;
  readonly unansweredHeartbeatsMax: number;
  readonly pingMs: number;
  /** While we do not read a socket its peer's pings stay unanswered; ours, this often, show it that we live. */
  readonly pingPausedMs: number;
  /** Ping periods without any byte of the peer before the socket ends. */
  readonly pingsMissedMax: number;
  /** How long a peer may take to answer our close. */
  readonly closeMs: number;
  /** How often deadlines are looked at, and how often while a v1 worker owes an ack: its frames are repeated from 200 ms on. */
  readonly sweepMs: number;
  readonly fastSweepMs: number;
  /** JSON text of a heartbeat's numbers that is passed on. */
  readonly vitalsCharsMax: number;
  /** Told to workers that a fault sends away although their word was fine. */
  readonly retryAfterMs: number;
  /** How often the join of a worker that takes a reset for a death sentence is tried again in its stead. */
  readonly joinAttemptsMax: number;
}

export const sessionLimits: SessionLimits = {
  connectionsMax: 20_000,
  connectionsPerTenantMax: 15_000,
  unauthenticatedMax: 1_000,
  unauthenticatedBytesMax: limits.unauthenticatedFrameBytesMax,
  handshakeTimeoutMs: 10_000,
  unauthenticatedGraceMs: 1_000,
  registerTimeoutMs: 15_000,
  inventoryTimeoutMs: 5_000,
  handshakesPerSecondMax: 200,
  sendWindow: 64,
  recvWindow: 64,
  wideSendWindow: limits.windowMax,
  wideRecvWindow: limits.windowMax,
  windowBytes: 8 * MiB,
  resumeTimeoutMs: 120_000,
  detachedBytesMax: 8 * MiB,
  detachedMax: 20_000,
  detachedBytesTotalMax: 512 * MiB,
  idleLeasesMax: 3,
  socketBytesSoft: 256 * KiB,
  socketBytesMax: 8 * MiB + limits.frameBytesMax,
  waitingBytesMax: 64 * MiB,
  unansweredBytesMax: 8 * MiB,
  waitingToJoinBytesMax: 64 * KiB,
  unnumberedMax: 256,
  unansweredHeartbeatsMax: 4,
  pingMs: 20_000,
  pingPausedMs: 3_000,
  pingsMissedMax: 2,
  closeMs: 2_000,
  sweepMs: 1_000,
  fastSweepMs: 100,
  vitalsCharsMax: 4 * KiB,
  retryAfterMs: 1_000,
  joinAttemptsMax: 10,
};
