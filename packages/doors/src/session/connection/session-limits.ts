// What worker connections may cost: counts, bytes and times in one table. The protocol limits the size of frames.

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
  /** After this time an idle connection may be evicted where there are too many. */
  readonly unauthenticatedGraceMs: number;
  /** From the handshake's ack to the register. */
  readonly registerTimeoutMs: number;
  /** How long a register that names no inventory waits for catalogue and inventory. */
  readonly inventoryTimeoutMs: number;
  /** Handshakes and resumes accepted in a second; the others wait, in order. */
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
  /** More bytes than this in the socket, or waiting for it: the peer does not read, so the socket ends. */
  readonly socketBytesMax: number;
  readonly waitingBytesMax: number;
  /** Bytes of frames that the engine has not answered; above this the socket is paused. */
  readonly unansweredBytesMax: number;
  /** The same for frames behind a handshake or resume that waits for its turn: thousands may wait at once. */
  readonly waitingToJoinBytesMax: number;
  /** Heartbeats and other unnumbered frames the engine has not answered. */
  readonly unnumberedMax: number;
  readonly unansweredHeartbeatsMax: number;
  readonly pingMs: number;
  /** While a socket is paused its peer's pings stay unanswered; our pings, this often, show it that we are alive. */
  readonly pingPausedMs: number;
  /** Ping periods without any byte of the peer before the socket ends. */
  readonly pingsMissedMax: number;
  /** How long a peer may take to answer our close. */
  readonly closeMs: number;
  /** How often timers are checked, and how often while a v1 worker owes an ack: its frames are resent from 200 ms on. */
  readonly sweepMs: number;
  readonly fastSweepMs: number;
  /** JSON text of a heartbeat's metrics; longer ones are dropped. */
  readonly vitalsCharsMax: number;
  /** Sent to workers whose session ends for a reason that will pass. */
  readonly retryAfterMs: number;
  /** How often the join of an older worker, which exits on a reset, is retried for it. */
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
