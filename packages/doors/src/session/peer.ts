// One worker's socket and its pressure: what is unread, what is unanswered, how long it has been silent. What is said on it is connection.ts.

import type { Fault } from "@astraflow/protocol";
import { fault } from "@astraflow/protocol";
import type { Series } from "../metrics.ts";
import type { Outside } from "../outside.ts";
import { Connection, type Wire } from "./connection.ts";
import type { SessionLimits } from "./limits.ts";
import type { Meters } from "./meters.ts";
import type { PeerSocket } from "./peer-socket.ts";
import type { Surroundings } from "./surroundings.ts";

export interface PeerHome {
  readonly around: Surroundings;
  readonly meters: Meters;
  /** The peer is no stranger any more. False: there are too many of its tenant. */
  trusted(peer: Peer, tenant: string): boolean;
  pace(peer: Peer, tenant: string, run: () => boolean): void;
}

export class Peer implements Wire {
  readonly socket: PeerSocket;
  readonly connection: Connection;
  readonly since: number;
  /** Whose it is, once it is no stranger. */
  tenant: string | null = null;
  isPaused = false;
  /** Until when the peer may answer our close. */
  closeBy = Number.POSITIVE_INFINITY;
  private readonly home: PeerHome;
  private readonly limits: SessionLimits;
  private readonly outside: Outside;
  private strangerBytes = 0;
  private lastHeard: number;
  private lastFrame: number;
  private lastPing: number;
  /** When the shown certificate has to be looked at again. */
  private certificateEnd: number;
  private bytesIn: Series;
  private bytesOut: Series;
  private active: Series | null = null;

  constructor(socket: PeerSocket, home: PeerHome) {
    this.socket = socket;
    this.home = home;
    this.limits = home.around.limits;
    this.outside = home.around.outside;
    const now = this.outside.clock.ticks();
    this.since = now;
    this.lastHeard = now;
    this.lastFrame = now;
    this.lastPing = now;
    this.certificateEnd = socket.certificate?.expiresAt ?? Number.POSITIVE_INFINITY;
    this.bytesIn = home.meters.bytes("unknown", "in");
    this.bytesOut = home.meters.bytes("unknown", "out");
    this.connection = new Connection(home.around, this);
  }

  get certificate(): PeerSocket["certificate"] {
    return this.socket.certificate;
  }

  // ---- what the connection asks

  send(text: string): void {
    const { socket } = this;
    if (!socket.isOpen) return;
    socket.send(text);
    this.bytesOut.add(Buffer.byteLength(text));
    if (socket.bufferedAmount <= this.limits.socketBytesMax) return;
    // close() would queue behind what the peer does not read.
    const session = this.connection.session?.id ?? null;
    this.outside.log({ level: "warn", event: "session.unread", session, bytes: socket.bufferedAmount });
    socket.terminate();
  }

  close(code: number, reason: string): void {
    this.closeBy = this.outside.clock.ticks() + this.limits.closeMs;
    this.socket.close(code, cutReason(reason));
  }

  terminate(): void {
    this.socket.terminate();
  }

  trust(tenant: string): boolean {
    if (!this.home.trusted(this, tenant)) return false;
    this.tenant = tenant;
    this.socket.trust();
    this.bytesIn = this.home.meters.bytes(tenant, "in");
    this.bytesOut = this.home.meters.bytes(tenant, "out");
    this.active = this.home.meters.connections(tenant);
    this.active.add(1);
    return true;
  }

  pace(tenant: string, run: () => boolean): void {
    this.home.pace(this, tenant, run);
  }

  // ---- what the socket tells

  hear(data: Buffer, isBinary: boolean): void {
    this.heard();
    this.lastFrame = this.lastHeard;
    this.bytesIn.add(data.length);
    this.connection.hear(data, isBinary);
  }

  heard(): void {
    this.lastHeard = this.outside.clock.ticks();
  }

  answerPing(data: Uint8Array): void {
    this.heard();
    if (this.socket.bufferedAmount < this.limits.socketBytesSoft) this.socket.pong(data);
  }

  weigh(bytes: number): void {
    if (this.tenant !== null) return;
    this.strangerBytes += bytes;
    if (this.strangerBytes > this.limits.strangerBytesMax) this.socket.terminate();
  }

  gone(): void {
    this.active?.add(-1);
    this.active = null;
  }

  // ---- pressure and silence

  /** Not read while too much of what it said is unanswered. */
  press(): void {
    const { connection, limits } = this;
    if (this.isPaused || connection.pressure <= (connection.isPaced ? limits.pacedBytesMax : limits.unansweredBytesMax)) return;
    this.isPaused = true;
    this.socket.pause();
  }

  relieve(): void {
    if (!this.isPaused || this.connection.pressure > this.limits.unansweredBytesMax / 2) return;
    this.isPaused = false;
    this.heard();
    this.lastFrame = this.lastHeard;
    this.socket.resume();
  }

  tick(now: number): void {
    const { limits, connection } = this;
    connection.tick(now);
    if (this.outside.clock.now() >= this.certificateEnd) {
      this.certificateEnd = Number.POSITIVE_INFINITY;
      connection.reconsider();
    }
    if (now >= this.closeBy) return this.socket.terminate();
    if (!this.isPaused && connection.isIdle(now - this.lastFrame)) connection.fail(idle());
    if (now - this.lastPing >= (this.isPaused ? limits.pingPausedMs : limits.pingMs)) this.ping(now);
  }

  private ping(now: number): void {
    const { limits } = this;
    this.lastPing = now;
    // A socket we do not read cannot show that its peer is alive.
    if (!this.isPaused && now - this.lastHeard > limits.pingMs * limits.pingsMissedMax) return this.socket.terminate();
    if (this.socket.isOpen) this.socket.ping();
  }
}

const idle = (): Fault => fault("E.TIMEOUT", "nothing was heard of this session for several lease lengths");

/** A close frame holds 123 bytes of reason. */
const cutReason = (reason: string): string => Buffer.from(reason, "utf8").subarray(0, 120).toString("utf8");
