// Where workers' sockets meet the engine: peers, sessions, deadlines, pressure and the acks owed at the end of a tick. No transport:
// sockets come through peer-socket.ts. What is said on one is connection.ts; what it means, the engine.

import { type Envelope, Fault, fault, prepareFrames, readEnvelope, readJson, limits as wireLimits } from "@astraflow/protocol";
import type { Authenticate, Sign } from "../identity.ts";
import type { Link } from "../link.ts";
import type { Metrics, Series } from "../metrics.ts";
import type { Outside } from "../outside.ts";
import { type Action, Connection, type Surroundings } from "./connection.ts";
import { type SessionLimits, sessionLimits } from "./limits.ts";
import { createMeters } from "./meters.ts";
import type { PeerEars, PeerSocket } from "./peer-socket.ts";
import { createStamp } from "./texts.ts";

export interface SessionHallOptions {
  readonly link: Link;
  readonly authenticate: Authenticate;
  readonly sign: Sign;
  readonly outside: Outside;
  readonly metrics: Metrics;
  readonly limits?: Partial<SessionLimits>;
}

export interface SessionHall {
  /** Why nobody may come in at this moment; null when they may. Asked before `welcome`. */
  refusal(): Fault | null;
  /** Takes an open socket in; all that happens on it must be told to the ears. */
  welcome(socket: PeerSocket): PeerEars;
  /** Says goodbye to everyone; resolves when the last socket is gone. */
  close(): Promise<void>;
  readonly connections: number;
}

/** One socket and all we know about it. */
interface Peer {
  readonly socket: PeerSocket;
  readonly connection: Connection;
  strangerBytes: number;
  isStranger: boolean;
  isPaused: boolean;
  lastHeard: number;
  lastPing: number;
  /** Until when the peer may answer our close. */
  closeBy: number;
  bytesIn: Series;
  bytesOut: Series;
  active: Series | null;
}

const goingAwayCode = 1001;

export function createSessionHall(options: SessionHallOptions): SessionHall {
  const { link, outside } = options;
  const limits: SessionLimits = { ...sessionLimits, ...options.limits };
  const meters = createMeters(options.metrics, link);
  const around: Surroundings = {
    authenticate: options.authenticate,
    sign: options.sign,
    outside,
    limits,
    stamp: createStamp(() => outside.clock.now()),
    meter: meters,
  };
  const peers = new Set<Peer>();
  const sessions = new Map<string, Peer>();
  let owing = new Set<Peer>();
  let strangers = 0;
  let isClosing = false;
  let allGone: (() => void) | null = null;
  // Before any stranger arrives: the first frame must not pay for compiling validators.
  prepareFrames();

  // Everything owed at the end of a tick leaves together: one ack for all that one turn of the engine answered.
  const markOwing = (peer: Peer): void => {
    if (!peer.connection.isOwing || owing.has(peer)) return;
    if (owing.size === 0) queueMicrotask(flush);
    owing.add(peer);
  };
  const flush = (): void => {
    const due = owing;
    owing = new Set();
    for (const peer of due) {
      // All frames of one turn in one write: about a fifth less processor time per task than a write per frame.
      peer.socket.together(() =>
        guard(peer, (out) => peer.connection.flush(limits.socketBytesSoft - peer.socket.bufferedAmount, out)),
      );
    }
  };

  /** Runs one step of a connection and does what it asks. A step that throws ends that connection, never the process. */
  const guard = (peer: Peer, step: (out: Action[]) => void): void => {
    const out: Action[] = [];
    try {
      step(out);
      for (const action of out) perform(peer, action);
    } catch (problem) {
      outside.log({ level: "error", event: "session.bug", session: peer.connection.session, problem: describeProblem(problem) });
      peer.socket.terminate();
    }
  };

  const perform = (peer: Peer, action: Action): void => {
    switch (action.do) {
      case "send":
        return send(peer, action.text);
      case "post": {
        const { note } = action;
        return link.post(action.command, (body, why) => {
          if (note === null) return;
          guard(peer, (out) => peer.connection.answered(note, body, why, out));
          markOwing(peer);
          relieve(peer);
        });
      }
      case "bound":
        strangers -= 1;
        peer.isStranger = false;
        peer.socket.trust();
        peer.bytesIn = meters.bytes(action.tenant, "in");
        peer.bytesOut = meters.bytes(action.tenant, "out");
        peer.active = meters.connections(action.tenant);
        return peer.active.add(1);
      case "open":
        sessions.set(action.session, peer);
        return;
      case "close":
        peer.closeBy = outside.clock.ticks() + limits.closeMs;
        return peer.socket.close(action.code, cutReason(action.reason));
    }
  };

  const send = (peer: Peer, text: string): void => {
    const { socket } = peer;
    if (!socket.isOpen) return;
    socket.send(text);
    peer.bytesOut.add(Buffer.byteLength(text));
    if (socket.bufferedAmount <= limits.socketBytesMax) return;
    // close() would queue behind what the peer does not read.
    outside.log({ level: "warn", event: "session.unread", session: peer.connection.session, bytes: socket.bufferedAmount });
    socket.terminate();
  };

  const relieve = (peer: Peer): void => {
    if (!peer.isPaused || peer.connection.unansweredBytes > limits.unansweredBytesMax / 2) return;
    peer.isPaused = false;
    peer.lastHeard = outside.clock.ticks();
    peer.socket.resume();
  };

  const hear = (peer: Peer, data: Buffer, isBinary: boolean): void => {
    peer.lastHeard = outside.clock.ticks();
    peer.bytesIn.add(data.length);
    guard(peer, (out) => {
      const envelope = readFrame(data, isBinary, peer.isStranger);
      if (envelope instanceof Fault) peer.connection.broken(envelope, out);
      else peer.connection.receive(envelope, data.length, out);
    });
    markOwing(peer);
    if (!peer.isPaused && peer.connection.unansweredBytes > limits.unansweredBytesMax) {
      peer.isPaused = true;
      peer.socket.pause();
    }
  };

  const weigh = (peer: Peer, bytes: number): void => {
    if (!peer.isStranger) return;
    peer.strangerBytes += bytes;
    if (peer.strangerBytes > limits.strangerBytesMax) peer.socket.terminate();
  };

  const welcome = (socket: PeerSocket): PeerEars => {
    const now = outside.clock.ticks();
    const peer: Peer = {
      socket,
      connection: new Connection(around),
      strangerBytes: 0,
      isStranger: true,
      isPaused: false,
      lastHeard: now,
      lastPing: now,
      closeBy: Number.POSITIVE_INFINITY,
      bytesIn: meters.bytes("unknown", "in"),
      bytesOut: meters.bytes("unknown", "out"),
      active: null,
    };
    peers.add(peer);
    strangers += 1;
    return {
      message: (data, isBinary) => hear(peer, data, isBinary),
      ping(data) {
        peer.lastHeard = outside.clock.ticks();
        if (socket.bufferedAmount < limits.socketBytesSoft) socket.pong(data);
      },
      pong() {
        peer.lastHeard = outside.clock.ticks();
      },
      drained: () => markOwing(peer),
      weigh: (bytes) => weigh(peer, bytes),
      closed: (code) => leave(peer, code),
    };
  };

  const leave = (peer: Peer, code: number): void => {
    peers.delete(peer);
    owing.delete(peer);
    if (peer.isStranger) strangers -= 1;
    peer.active?.add(-1);
    const { session } = peer.connection;
    if (session !== null) sessions.delete(session);
    guard(peer, (out) => peer.connection.ended(`socket closed with ${code}`, out));
    if (peers.size === 0) allGone?.();
  };

  const sweep = (): void => {
    const now = outside.clock.ticks();
    for (const peer of peers) {
      guard(peer, (out) => peer.connection.tick(out));
      markOwing(peer);
      if (now >= peer.closeBy) peer.socket.terminate();
      else if (now - peer.lastPing >= (peer.isPaused ? limits.pingPausedMs : limits.pingMs)) ping(peer, now);
    }
  };

  const ping = (peer: Peer, now: number): void => {
    peer.lastPing = now;
    // A socket we do not read cannot show that its peer is alive.
    if (!peer.isPaused && now - peer.lastHeard > limits.pingMs * limits.pingsMissedMax) return peer.socket.terminate();
    if (peer.socket.isOpen) peer.socket.ping();
  };

  const reach = (session: string, step: (connection: Connection, out: Action[]) => void): void => {
    const peer = sessions.get(session);
    // The session has gone meanwhile; its leave is on the way to the engine.
    if (peer === undefined) return;
    guard(peer, (out) => step(peer.connection, out));
    markOwing(peer);
  };
  const stops = [
    link.on("dispatch", (effect) => reach(effect.session, (connection) => connection.offer(effect))),
    link.on("stop", (effect) => reach(effect.session, (connection) => connection.offer(effect))),
    link.on("reset", (effect) => reach(effect.session, (connection, out) => connection.hearReset(effect, out))),
    link.on("drain", (effect) => reach(effect.session, (connection, out) => connection.hearDrain(effect, out))),
    outside.timers.every(limits.sweepMs, sweep),
  ];

  return {
    refusal() {
      if (isClosing) return fault("E.SHUTTING_DOWN", "this scheduler is going away");
      if (peers.size < limits.connectionsMax && strangers < limits.strangersMax) return null;
      return fault("E.OVERLOADED", "too many connections; come back later");
    },
    welcome,
    async close() {
      isClosing = true;
      const gone = new Promise<void>((resolve) => {
        allGone = resolve;
      });
      const end = outside.clock.ticks() + limits.closeMs;
      for (const peer of peers) {
        peer.closeBy = end;
        peer.socket.close(goingAwayCode, "going away");
      }
      const stopTimer = outside.timers.after(limits.closeMs, () => {
        for (const peer of peers) peer.socket.terminate();
      });
      if (peers.size > 0) await gone;
      stopTimer();
      for (const stop of stops) stop();
    },
    get connections() {
      return peers.size;
    },
  };
}

function readFrame(data: Buffer, isBinary: boolean, isStranger: boolean): Envelope | Fault {
  if (isBinary) return fault("E.FRAME.INVALID", "frames are text, not binary");
  // The socket library has checked that text is UTF-8.
  const value = readJson(data.toString("utf8"), isStranger ? wireLimits.json.stranger : wireLimits.json.frame);
  return value instanceof Fault ? value : readEnvelope(value, isStranger ? "any" : "v2");
}

/** A close frame holds 123 bytes of reason. */
const cutReason = (reason: string): string => Buffer.from(reason, "utf8").subarray(0, 120).toString("utf8");

const describeProblem = (problem: unknown): string =>
  problem instanceof Error ? (problem.stack ?? problem.message) : String(problem);
