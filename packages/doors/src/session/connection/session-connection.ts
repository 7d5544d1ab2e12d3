// One worker's socket: reads its frames, limits what is unread and unanswered, notices silence, and passes the frames to its owner.
// Transport-free: websocket-door.ts brings real sockets, the simulator its own.

import { type Envelope, Fault, fault } from "@astraflow/protocol";
import { addressBlockOf, type ServiceEnvironment } from "@astraflow/services";
import type { MetricSeries } from "../../environment/metrics-registry.ts";
import { type FrameTrace, frameLogFields } from "../frames/frame-trace.ts";
import type { HandshakeIdentity } from "../registration/worker-handshake.ts";
import type { LargeFrameQueue } from "./large-frames.ts";
import { readFrame, readFrameInSteps } from "./read-frame.ts";
import type { SessionLimits } from "./session-limits.ts";
import type { SessionMetrics } from "./session-metrics.ts";
import { type ConnectionPhase, connectionTransitions, transition } from "./session-phases.ts";
import type { WorkerSocket, WorkerSocketEvents } from "./worker-socket.ts";

export interface ConnectionContext {
  readonly environment: ServiceEnvironment;
  readonly limits: SessionLimits;
  readonly metrics: SessionMetrics;
  /** Null where nobody can see single frames. */
  readonly frameTrace: FrameTrace | null;
  /** Null where reading may take as long as it takes. */
  readonly largeFrames: LargeFrameQueue | null;
}

/** What a connection reports to: a JoinHandshake until there is a session, then that. */
export interface ConnectionOwner {
  /** Null where there is no session. */
  readonly id: string | null;
  /** Bytes of frames that the engine has not answered. */
  readonly unansweredBytes: number;
  /** A silence longer than this ends the session. */
  readonly idleTimeoutMs: number;
  handleFrame(envelope: Envelope, bytes: number): void;
  /** Whatever is owed to the worker is sent at the end of the tick. */
  scheduleFlush(): void;
  /** Tells the worker why, then ends the connection and its session, if there is one. */
  reset(why: Fault, about?: Envelope): void;
  /** A step threw, which is a bug of ours: ends the connection and the session, whose state is in doubt. */
  abort(problem: unknown, connection: SessionConnection): void;
  checkTimers(now: number, connection: SessionConnection): void;
  recheckCredentials(): void;
  handleDisconnect(reason: string, connection: SessionConnection, isOrderly: boolean): void;
}

interface BufferedFrame {
  readonly data: Buffer;
  readonly isBinary: boolean;
}

/** Close code of sockets whose session was reset; the older workers expect exactly this one. */
const resetCloseCode = 1011;
const goingAwayCode = 1001;
/** A worker closes so that has finished; libraries of older ones do whenever their program ends. */
const normalCloseCode = 1000;
/** What a buffered frame weighs besides its bytes. */
const bufferedOverheadBytes = 512;

export class SessionConnection implements WorkerSocketEvents {
  readonly socket: WorkerSocket;
  readonly connectedAt: number;
  /** What counts as one address. */
  readonly addressBlock: string;
  /** Null until the worker is authenticated. */
  tenant: string | null = null;
  private readonly context: ConnectionContext;
  private readonly limits: SessionLimits;
  private readonly onClosed: (connection: SessionConnection) => void;
  private owner: ConnectionOwner;
  private phase: ConnectionPhase = "handshake";
  /** Who must have sent every later frame. */
  private identity: HandshakeIdentity | null = null;
  /** Why frames are buffered: the worker waits for its turn to join, its session for the engine's answer to a resume, or a large frame is read. */
  private heldFor: "turn" | "session" | "large frame" | null = null;
  private buffered: BufferedFrame[] = [];
  private bufferedBytes = 0;
  private isPaused = false;
  private unauthenticatedBytes = 0;
  private lastActivityAt: number;
  private lastFrameAt: number;
  private lastPingAt: number;
  private cancelDelayedClose: (() => void) | null = null;
  /** Until when the peer may answer our close. */
  private closeDeadline = Number.POSITIVE_INFINITY;
  /** When the client certificate has to be checked again. */
  private certificateExpiresAt: number;
  private bytesIn: MetricSeries;
  private bytesOut: MetricSeries;
  private activeGauge: MetricSeries | null = null;

  constructor(
    socket: WorkerSocket,
    context: ConnectionContext,
    createOwner: (connection: SessionConnection) => ConnectionOwner,
    onClosed: (connection: SessionConnection) => void,
  ) {
    this.socket = socket;
    this.context = context;
    this.limits = context.limits;
    this.onClosed = onClosed;
    const now = context.environment.clock.monotonic();
    this.connectedAt = now;
    this.addressBlock = addressBlockOf(socket.address);
    this.lastActivityAt = now;
    this.lastFrameAt = now;
    this.lastPingAt = now;
    this.certificateExpiresAt = socket.certificate?.expiresAt ?? Number.POSITIVE_INFINITY;
    this.bytesIn = context.metrics.bytes("unknown", "in");
    this.bytesOut = context.metrics.bytes("unknown", "out");
    this.owner = createOwner(this);
  }

  get isClosed(): boolean {
    return this.phase === "closed";
  }

  // ---- events of the socket

  message(data: Buffer, isBinary: boolean): void {
    this.recordActivity();
    this.lastFrameAt = this.lastActivityAt;
    this.bytesIn.add(data.length);
    try {
      this.handleMessage(data, isBinary);
    } catch (problem) {
      this.owner.abort(problem, this);
    }
    this.owner.scheduleFlush();
    this.pauseIfOverloaded();
  }

  ping(data: Uint8Array): void {
    this.recordActivity();
    if (this.socket.bufferedAmount < this.limits.socketBytesSoft) this.socket.pong(data);
  }

  pong(): void {
    this.recordActivity();
  }

  drained(): void {
    this.owner.scheduleFlush();
  }

  bytesReceived(bytes: number): void {
    if (this.tenant !== null) return;
    this.unauthenticatedBytes += bytes;
    if (this.unauthenticatedBytes > this.limits.unauthenticatedBytesMax) this.socket.terminate();
  }

  refuse(why: Fault): void {
    if (this.isClosed) return;
    this.guard(() => this.owner.reset(why));
    this.owner.scheduleFlush();
  }

  closed(code: number): void {
    this.cancelDelayedClose?.();
    this.onClosed(this);
    this.activeGauge?.add(-1);
    this.activeGauge = null;
    this.phase = "closed";
    this.dropBuffered();
    this.guard(() => this.owner.handleDisconnect(`socket closed with ${code}`, this, code === normalCloseCode));
  }

  /** Runs one step. One that throws ends this connection and its session, never the process. */
  private guard(step: () => void): void {
    try {
      step();
    } catch (problem) {
      this.owner.abort(problem, this);
    }
  }

  // ---- frames

  private handleMessage(data: Buffer, isBinary: boolean): void {
    if (this.phase === "closed") return;
    if (this.heldFor !== null) {
      this.buffered.push({ data, isBinary });
      this.bufferedBytes += data.length + bufferedOverheadBytes;
      return;
    }
    const { largeFrames } = this.context;
    if (largeFrames !== null && data.length >= this.limits.largeFrameBytesMin) this.readLater(largeFrames, data, isBinary);
    else this.handleParsed(readFrame(data, isBinary, this.identity), data.length);
  }

  private handleParsed(envelope: Envelope | Fault, bytes: number): void {
    if (envelope instanceof Fault) return this.owner.reset(envelope);
    if (this.identity !== null && !isSentBy(this.identity, envelope)) return this.rejectSender(this.identity, envelope);
    this.owner.handleFrame(envelope, bytes);
  }

  /** What follows the frame is buffered until it is handled. */
  private readLater(largeFrames: LargeFrameQueue, data: Buffer, isBinary: boolean): void {
    if (!largeFrames.takes(data.length))
      return this.owner.reset(fault("E.OVERLOADED", "too many large frames of workers wait to be read; come back later"));
    this.hold("large frame");
    this.bufferedBytes += data.length;
    const read = async (): Promise<void> => {
      if (this.isClosed) return;
      const envelope = await largeFrames.readInSteps(readFrameInSteps(data, isBinary, this.identity));
      const isOwn = !(envelope instanceof Fault) && this.identity !== null && isSentBy(this.identity, envelope);
      if (isOwn) await largeFrames.digestManifests(envelope.payload);
      // The socket may have closed, or the session ended, in the pauses.
      if (this.isClosed) return;
      this.heldFor = null;
      this.handleParsed(envelope, data.length);
      this.replayBuffered();
      this.owner.scheduleFlush();
      this.resumeIfDrained();
    };
    largeFrames.add(data.length, () => read().catch((problem: unknown) => this.owner.abort(problem, this)));
  }

  private rejectSender({ tenant, instance }: HandshakeIdentity, envelope: Envelope): void {
    const { environment, frameTrace } = this.context;
    const why = fault("E.SESSION.TENANT_MISMATCH", "tenant and sender must match the handshake");
    const about = { tenant, sender: { id: instance }, code: why.code, ...frameLogFields(envelope) };
    if (this.phase === "handshake") frameTrace?.logReceived(envelope, null);
    environment.log({ level: "warn", event: "session.mismatch", audit: true, ...about });
    this.owner.reset(why, envelope);
  }

  /** Frames are buffered from now on, until `replayBuffered`. */
  hold(heldFor: "turn" | "session" | "large frame"): void {
    this.heldFor = heldFor;
  }

  /** Handles the frames that came too early, in order. */
  replayBuffered(): void {
    // The end of the large frame replays them.
    if (this.heldFor === "large frame") return;
    const { buffered } = this;
    this.heldFor = null;
    this.dropBuffered();
    for (const { data, isBinary } of buffered) this.handleMessage(data, isBinary);
  }

  private dropBuffered(): void {
    this.buffered = [];
    this.bufferedBytes = 0;
  }

  // ---- what the handshake and the session ask for

  /** Every later frame must come from this worker, in its dialect. */
  bindTo(identity: HandshakeIdentity): void {
    this.identity = identity;
  }

  /** Counts the connection as one of this tenant; the limit on bytes before that ends. */
  markAuthenticated(tenant: string): void {
    const { metrics } = this.context;
    this.tenant = tenant;
    this.socket.markAuthenticated();
    this.bytesIn = metrics.bytes(tenant, "in");
    this.bytesOut = metrics.bytes(tenant, "out");
    this.activeGauge = metrics.connections(tenant);
    this.activeGauge.add(1);
  }

  /** There is a session, which takes the frames from now on. */
  attach(session: ConnectionOwner): void {
    this.setPhase("attached");
    this.owner = session;
  }

  /** Runs a join whose turn has come; false when it did not need the turn any more. */
  runTurn(join: () => boolean): boolean {
    let isUsed = true;
    this.guard(() => {
      isUsed = join();
    });
    this.owner.scheduleFlush();
    this.resumeIfDrained();
    return isUsed;
  }

  send(text: string): void {
    const { socket } = this;
    if (!socket.isOpen) return;
    socket.send(text);
    this.bytesOut.add(Buffer.byteLength(text));
    if (socket.bufferedAmount <= this.limits.socketBytesMax) return;
    // close() would queue behind what the peer does not read.
    const session = this.owner.id;
    this.context.environment.log({ level: "warn", event: "session.unread", session, bytes: socket.bufferedAmount });
    socket.terminate();
  }

  /** Sends the reset and leaves the worker time to read it and to close by itself. */
  sendReset(text: string, reason: string): void {
    const { limits, context } = this;
    this.send(text);
    this.ignoreFurtherFrames();
    if (limits.resetCloseDelayMs === 0) return this.closeSocket(resetCloseCode, reason);
    this.cancelDelayedClose = context.environment.timers.after(limits.resetCloseDelayMs, () =>
      this.closeSocket(resetCloseCode, reason),
    );
  }

  close(reason: string, code = resetCloseCode): void {
    this.ignoreFurtherFrames();
    this.closeSocket(code, reason);
  }

  /** From now on nothing that still comes from this socket counts. */
  private ignoreFurtherFrames(): void {
    this.setPhase("closed");
    this.dropBuffered();
  }

  private closeSocket(code: number, reason: string): void {
    this.closeDeadline = this.context.environment.clock.monotonic() + this.limits.closeMs;
    this.socket.close(code, truncateReason(reason));
  }

  /** The scheduler is shutting down; frames are handled until the peer has answered the close. */
  goAway(deadline: number): void {
    this.closeDeadline = deadline;
    this.socket.close(goingAwayCode, "going away");
  }

  /** Ends the socket without a close frame. */
  terminate(): void {
    this.socket.terminate();
  }

  // ---- backpressure and time

  /** Bytes that were read and not answered: above a limit the socket is not read. */
  private get unansweredBytes(): number {
    return this.bufferedBytes + this.owner.unansweredBytes;
  }

  private pauseIfOverloaded(): void {
    const { heldBytesMax, unansweredBytesMax } = this.limits;
    if (this.isPaused || this.unansweredBytes <= (this.heldFor === null ? unansweredBytesMax : heldBytesMax)) return;
    this.isPaused = true;
    this.socket.pause();
  }

  resumeIfDrained(): void {
    if (!this.isPaused || this.unansweredBytes > this.limits.unansweredBytesMax / 2) return;
    this.isPaused = false;
    this.recordActivity();
    this.lastFrameAt = this.lastActivityAt;
    this.socket.resume();
  }

  checkTimers(now: number): void {
    this.guard(() => {
      this.checkSocket(now);
      this.owner.checkTimers(now, this);
    });
  }

  private checkSocket(now: number): void {
    const { limits, isPaused } = this;
    if (this.context.environment.clock.now() >= this.certificateExpiresAt) {
      this.certificateExpiresAt = Number.POSITIVE_INFINITY;
      this.recheckCredentials();
    }
    if (now >= this.closeDeadline) return this.socket.terminate();
    if (!isPaused && !this.isClosed && now - this.lastFrameAt > this.owner.idleTimeoutMs)
      this.owner.reset(fault("E.TIMEOUT", "no frame was received for several lease periods"));
    if (now - this.lastPingAt >= (isPaused ? limits.pingPausedMs : limits.pingMs)) this.sendPing(now);
  }

  private sendPing(now: number): void {
    const { limits } = this;
    this.lastPingAt = now;
    // A socket we do not read cannot show that its peer is alive.
    if (!this.isPaused && now - this.lastActivityAt > limits.pingMs * limits.pingsMissedMax) return this.socket.terminate();
    if (this.socket.isOpen) this.socket.ping();
  }

  recheckCredentials(): void {
    this.guard(() => {
      if (!this.isClosed) this.owner.recheckCredentials();
    });
  }

  private recordActivity(): void {
    this.lastActivityAt = this.context.environment.clock.monotonic();
  }

  private setPhase(to: ConnectionPhase): void {
    this.phase = transition(connectionTransitions, this.phase, to);
  }
}

const isSentBy = ({ tenant, instance }: HandshakeIdentity, { tenant: named, sender }: Envelope): boolean =>
  named === tenant && sender.id === instance && sender.role === "worker";

/** A close frame holds 123 bytes of reason. */
const truncateReason = (reason: string): string => Buffer.from(reason, "utf8").subarray(0, 120).toString("utf8");
