// One worker's socket and its pressure: what is unread, what is unanswered, how long it has been silent. What is said on it is connection.ts.

import type { Fault } from "@astraflow/protocol";
import { fault } from "@astraflow/protocol";
import type { DoorEnvironment } from "../../environment/door-environment.ts";
import type { MetricSeries } from "../../environment/metrics-registry.ts";
import type { SessionContext } from "../lifecycle/session-context.ts";
import type { SessionLimits } from "../lifecycle/session-limits.ts";
import type { SessionMetrics } from "../lifecycle/session-metrics.ts";
import { type ConnectionTransport, SessionConnection } from "./session-connection.ts";
import type { WorkerSocket } from "./worker-socket.ts";

export interface SocketOwner {
  readonly context: SessionContext;
  readonly metrics: SessionMetrics;
  /** The peer is no stranger any more. False: there are too many of its tenant. */
  markAuthenticated(peer: MonitoredSocket, tenant: string): boolean;
  scheduleJoin(peer: MonitoredSocket, tenant: string, run: () => boolean): void;
}

export class MonitoredSocket implements ConnectionTransport {
  readonly socket: WorkerSocket;
  readonly connection: SessionConnection;
  readonly connectedAt: number;
  /** Whose it is, once it is no stranger. */
  tenant: string | null = null;
  isPaused = false;
  /** Until when the peer may answer our close. */
  closeDeadline = Number.POSITIVE_INFINITY;
  private readonly owner: SocketOwner;
  private readonly limits: SessionLimits;
  private readonly environment: DoorEnvironment;
  private unauthenticatedBytes = 0;
  private lastActivityAt: number;
  private lastFrameAt: number;
  private lastPingAt: number;
  /** When the shown certificate has to be looked at again. */
  private certificateExpiresAt: number;
  private bytesIn: MetricSeries;
  private bytesOut: MetricSeries;
  private activeGauge: MetricSeries | null = null;

  constructor(socket: WorkerSocket, home: SocketOwner) {
    this.socket = socket;
    this.owner = home;
    this.limits = home.context.limits;
    this.environment = home.context.environment;
    const now = this.environment.clock.monotonic();
    this.connectedAt = now;
    this.lastActivityAt = now;
    this.lastFrameAt = now;
    this.lastPingAt = now;
    this.certificateExpiresAt = socket.certificate?.expiresAt ?? Number.POSITIVE_INFINITY;
    this.bytesIn = home.metrics.bytes("unknown", "in");
    this.bytesOut = home.metrics.bytes("unknown", "out");
    this.connection = new SessionConnection(home.context, this);
  }

  get certificate(): WorkerSocket["certificate"] {
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
    this.environment.log({ level: "warn", event: "session.unread", session, bytes: socket.bufferedAmount });
    socket.terminate();
  }

  close(code: number, reason: string): void {
    this.closeDeadline = this.environment.clock.monotonic() + this.limits.closeMs;
    this.socket.close(code, truncateReason(reason));
  }

  terminate(): void {
    this.socket.terminate();
  }

  markAuthenticated(tenant: string): boolean {
    if (!this.owner.markAuthenticated(this, tenant)) return false;
    this.tenant = tenant;
    this.socket.markAuthenticated();
    this.bytesIn = this.owner.metrics.bytes(tenant, "in");
    this.bytesOut = this.owner.metrics.bytes(tenant, "out");
    this.activeGauge = this.owner.metrics.connections(tenant);
    this.activeGauge.add(1);
    return true;
  }

  scheduleJoin(tenant: string, run: () => boolean): void {
    this.owner.scheduleJoin(this, tenant, run);
  }

  // ---- what the socket tells

  handleMessage(data: Buffer, isBinary: boolean): void {
    this.recordActivity();
    this.lastFrameAt = this.lastActivityAt;
    this.bytesIn.add(data.length);
    this.connection.handleMessage(data, isBinary);
  }

  recordActivity(): void {
    this.lastActivityAt = this.environment.clock.monotonic();
  }

  answerPing(data: Uint8Array): void {
    this.recordActivity();
    if (this.socket.bufferedAmount < this.limits.socketBytesSoft) this.socket.pong(data);
  }

  countBytes(bytes: number): void {
    if (this.tenant !== null) return;
    this.unauthenticatedBytes += bytes;
    if (this.unauthenticatedBytes > this.limits.unauthenticatedBytesMax) this.socket.terminate();
  }

  handleDisconnect(): void {
    this.activeGauge?.add(-1);
    this.activeGauge = null;
  }

  // ---- pressure and silence

  /** Not read while too much of what it said is unanswered. */
  pauseIfOverloaded(): void {
    const { connection, limits } = this;
    if (
      this.isPaused ||
      connection.unansweredBytes <= (connection.isWaitingToJoin ? limits.waitingToJoinBytesMax : limits.unansweredBytesMax)
    )
      return;
    this.isPaused = true;
    this.socket.pause();
  }

  resumeIfDrained(): void {
    if (!this.isPaused || this.connection.unansweredBytes > this.limits.unansweredBytesMax / 2) return;
    this.isPaused = false;
    this.recordActivity();
    this.lastFrameAt = this.lastActivityAt;
    this.socket.resume();
  }

  checkTimers(now: number): void {
    const { limits, connection } = this;
    connection.checkDeadline(now);
    if (this.environment.clock.now() >= this.certificateExpiresAt) {
      this.certificateExpiresAt = Number.POSITIVE_INFINITY;
      connection.recheckCredentials();
    }
    if (now >= this.closeDeadline) return this.socket.terminate();
    if (!this.isPaused && connection.isIdle(now - this.lastFrameAt)) connection.fail(idleFault());
    if (now - this.lastPingAt >= (this.isPaused ? limits.pingPausedMs : limits.pingMs)) this.ping(now);
  }

  private ping(now: number): void {
    const { limits } = this;
    this.lastPingAt = now;
    // A socket we do not read cannot show that its peer is alive.
    if (!this.isPaused && now - this.lastActivityAt > limits.pingMs * limits.pingsMissedMax) return this.socket.terminate();
    if (this.socket.isOpen) this.socket.ping();
  }
}

const idleFault = (): Fault => fault("E.TIMEOUT", "nothing was heard of this session for several lease lengths");

/** A close frame holds 123 bytes of reason. */
const truncateReason = (reason: string): string => Buffer.from(reason, "utf8").subarray(0, 120).toString("utf8");
