// The network between workers and schedulers: the state of each path, the connections on it, dialling. Faults are switched on and off by path or worker;
// simulated-connection.ts applies them to a connection.

import { FaultIntensity } from "../kernel/fault-intensity.ts";
import { getOrCreate } from "../kernel/get-or-create.ts";
import type { ObservationTrace } from "../kernel/observation-trace.ts";
import type { ProcessEventLoop } from "../kernel/process-event-loop.ts";
import type { SeededRandom } from "../kernel/seeded-random.ts";
import type { Timeline } from "../kernel/timeline.ts";
import type { SimulatedWorkerIdentity } from "../observation/observation.ts";
import type { FrameFault, NetworkPath } from "./one-way-channel.ts";
import { type ConnectionHandlers, SimulatedConnection } from "./simulated-connection.ts";

/** A scheduler as the network finds it. */
export interface NetworkListener {
  readonly eventLoop: ProcessEventLoop;
  /** Takes a connection in, or says why not. */
  accept(connection: SimulatedConnection): ConnectionHandlers | string;
}

/** Null while nothing listens there. */
type FindListener = (scheduler: string) => NetworkListener | null;

export class SimulatedNetwork {
  readonly #timeline: Timeline;
  readonly #trace: ObservationTrace;
  readonly #random: SeededRandom;
  readonly #findListener: FindListener;
  readonly #paths = new Map<string, NetworkPath>();
  readonly #connections = new Set<SimulatedConnection>();
  #connectionCount = 0;
  #frameCount = 0;

  constructor(timeline: Timeline, trace: ObservationTrace, random: SeededRandom, findListener: FindListener) {
    this.#timeline = timeline;
    this.#trace = trace;
    this.#random = random;
    this.#findListener = findListener;
  }

  /** By the names of its worker and its scheduler: `w3-s1`. */
  #path(name: string): NetworkPath {
    return getOrCreate(this.#paths, name, () => ({
      latencyMs: this.#random.fork(`path ${name}`).logUniform(0.2, 20),
      blockCount: 0,
      addedLatencyMs: 0,
      refusalCount: 0,
      frameFaults: { lost: new FaultIntensity(), doubled: new FaultIntensity(), overtaken: new FaultIntensity(), ms: 1 },
    }));
  }

  /** The worker hears `opened`, or `closed` where nobody lets it in; nothing at all where the path is clogged. */
  dial(
    identity: SimulatedWorkerIdentity,
    eventLoop: ProcessEventLoop,
    scheduler: string,
    handlers: ConnectionHandlers,
  ): SimulatedConnection {
    const path = this.#path(`${identity.worker}-${scheduler}`);
    const name = `c${++this.#connectionCount}`;
    const connection = new SimulatedConnection({
      name,
      identity,
      scheduler,
      timeline: this.#timeline,
      trace: this.#trace,
      random: this.#random.fork(name),
      path,
      nextFrameNumber: () => ++this.#frameCount,
    });
    connection.worker.eventLoop = eventLoop;
    connection.worker.handlers = handlers;
    for (const old of this.#connections) if (old.hasEnded) this.#connections.delete(old);
    this.#connections.add(connection);
    connection.recordConnectionEvent("worker", "dialled");
    this.#timeline.after(path.latencyMs, () => this.#connect(connection, path, scheduler));
    return connection;
  }

  #connect(connection: SimulatedConnection, path: NetworkPath, scheduler: string): void {
    if (connection.worker.state !== "waiting" || path.blockCount > 0) return;
    const listener = path.refusalCount > 0 ? null : this.#findListener(scheduler);
    if (listener === null) return this.#refuseConnection(connection, "connection refused");
    listener.eventLoop.deliver(() => {
      if (connection.worker.state !== "waiting") return;
      const handlers = listener.accept(connection);
      if (typeof handlers === "string") this.#refuseConnection(connection, handlers);
      else connection.accept(listener.eventLoop, handlers);
    });
  }

  #refuseConnection(connection: SimulatedConnection, why: string): void {
    connection.recordConnectionEvent("worker", "refused", why);
    connection.scheduler.state = "gone";
    connection.worker.markClosed(1006, why);
  }

  /** Connections that at least one end believes in, oldest first. */
  connectionsOf(process: string): SimulatedConnection[] {
    return [...this.#connections].filter((one) => !one.hasEnded && one.belongsTo(process));
  }

  /** Both ways, until the answer is called; dials hang meanwhile. */
  blockPath(name: string): () => void {
    const path = this.#path(name);
    path.blockCount++;
    return () => {
      path.blockCount--;
      if (path.blockCount > 0) return;
      for (const connection of this.connectionsOf(name.slice(0, name.indexOf("-")))) connection.deliverReady();
    };
  }

  refuseConnections(name: string): () => void {
    const path = this.#path(name);
    path.refusalCount++;
    return () => void path.refusalCount--;
  }

  slowPath(name: string, ms: number): () => void {
    const path = this.#path(name);
    path.addedLatencyMs += ms;
    return () => void (path.addedLatencyMs -= ms);
  }

  /** A share of all messages on this path suffers it, the late ones by up to `ms`; connections live on. */
  disturbFrames(name: string, kind: "lost" | "doubled" | "overtaken", share = 0, ms = 0): () => void {
    const { frameFaults } = this.#path(name);
    frameFaults.ms = Math.max(1, ms);
    return frameFaults[kind].raise(share);
  }

  /** The next text of this worker's newest connection in that direction suffers it. */
  disturbNextFrame(worker: string, from: "worker" | "scheduler", fault: FrameFault): SimulatedConnection | null {
    const connection = this.connectionsOf(worker).at(-1);
    if (connection === undefined) return null;
    connection.channelFrom(from).nextFrameFault = fault;
    return connection;
  }
}
