// What worker connections may cost: counts, bytes and times in one table. The protocol limits the size of frames.

import { limits } from "@astraflow/protocol";

const KiB = 1024;
const MiB = 1024 * KiB;

export const sessionLimits = {
  /** Sockets at once, how many of them may be of one tenant, and how many may not have authenticated yet. */
  connectionsMax: 20_000,
  connectionsPerTenantMax: 15_000,
  unauthenticatedMax: 1_000,
  /** Of one address: half of them, the rest is for others. handshake-throttle.ts has the smaller numbers for addresses that fail. */
  unauthenticatedPerAddressMax: 500,
  /** All bytes a peer may send before it has authenticated, and the time it has for that. */
  unauthenticatedBytesMax: limits.unauthenticatedFrameBytesMax,
  handshakeTimeoutMs: 10_000,
  /** After this time an idle connection may be evicted where there are too many. */
  unauthenticatedGraceMs: 1_000,
  /** From the handshake's ack to the register. */
  registerTimeoutMs: 15_000,
  /** Handshakes and resumes accepted in a second; the others wait, in order. */
  handshakesPerSecondMax: 200,
  /** Numbered frames in flight towards the worker, and from it; for workers that announced `wide` the two after them. */
  sendWindow: 64,
  recvWindow: 64,
  wideSendWindow: limits.windowMax,
  wideRecvWindow: limits.windowMax,
  /** Bytes of such frames, in each direction. */
  windowBytes: 8 * MiB,
  /** How long a session without a socket can be resumed; 0: never. What it and all of them together may hold meanwhile. */
  resumeTimeoutMs: 120_000,
  detachedBytesMax: 8 * MiB,
  detachedMax: 20_000,
  detachedBytesTotalMax: 512 * MiB,
  /** Lease lengths without any frame, not even a heartbeat, before a session ends. */
  idleLeasesMax: 3,
  /** A frame gets its number while fewer bytes than this wait in the socket. */
  socketBytesSoft: 256 * KiB,
  /** More bytes than this in the socket, or waiting for it: the peer does not read, so the socket ends. */
  socketBytesMax: 8 * MiB + limits.frameToWorkerBytesMax,
  waitingBytesMax: 64 * MiB,
  /** What all sessions hold together, in windows, queues and sockets; above this those that hold most are reset. */
  heldBytesTotalMax: 1024 * MiB,
  /** Bytes of frames that the engine has not answered; above this the socket is paused. */
  unansweredBytesMax: 8 * MiB,
  /** The same for frames behind a handshake, resume or large frame that waits for its turn: thousands may wait at once. */
  heldBytesMax: 64 * KiB,
  /** Frames from this on are read one at a time, in steps, and so many bytes of them may wait; the session of a further one is reset. */
  largeFrameBytesMin: 512 * KiB,
  largeFramesBytesMax: 512 * MiB,
  /** Bytes of frames of all sockets that have not arrived as a whole; above this the sockets that hold most are reset. */
  unfinishedFramesBytesMax: 256 * MiB,
  /** Heartbeats and other unnumbered frames the engine has not answered. */
  unnumberedMax: 256,
  unansweredHeartbeatsMax: 4,
  pingMs: 20_000,
  /** While a socket is paused its peer's pings stay unanswered; our pings, this often, show it that we are alive. */
  pingPausedMs: 3_000,
  /** Ping periods without any byte of the peer before the socket ends. */
  pingsMissedMax: 2,
  /** How long a reset worker may take to close: some that read the reset and our close at once never come back. */
  resetCloseDelayMs: 1_000,
  /** How long a peer may take to answer our close. */
  closeMs: 2_000,
  /** How often timers are checked, and how often while a v1 worker owes an ack: its frames are resent from 200 ms on. */
  sweepMs: 1_000,
  fastSweepMs: 100,
  /** JSON text of a heartbeat's metrics; longer ones are dropped. */
  vitalsCharsMax: 4 * KiB,
  /** Sent to workers whose session ends for a reason that will pass. */
  retryAfterMs: 1_000,
  /** How often the join of an older worker, which exits on a reset, is retried for it. */
  joinAttemptsMax: 10,
};

export type SessionLimits = Readonly<Record<keyof typeof sessionLimits, number>>;
