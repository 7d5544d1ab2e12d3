// The network between workers and schedulers: paths with their state, the connections on them, dialling. Faults are switched on and off
// by name of path or worker; what they mean for one connection is connection.ts.

import { Connection, type EndEars } from "./connection.ts";
import type { Dice } from "./dice.ts";
import { FaultLevel } from "./fault-level.ts";
import type { Mischief, PathState } from "./lane.ts";
import type { Life } from "./life.ts";
import type { WorkerFace } from "./observation.ts";
import type { Timeline } from "./timeline.ts";
import type { Trace } from "./trace.ts";

/** A scheduler as the network finds it; null while nothing listens there. */
export interface Listener {
  readonly life: Life;
  /** Takes a connection in, or says why not. */
  accept(connection: Connection): EndEars | string;
}

export class Network {
  readonly #timeline: Timeline;
  readonly #trace: Trace;
  readonly #dice: Dice;
  readonly #listen: (scheduler: string) => Listener | null;
  readonly #paths = new Map<string, PathState>();
  readonly #unrest = new Map<string, FaultLevel>();
  readonly #living = new Set<Connection>();
  #connections = 0;
  #frames = 0;

  constructor(timeline: Timeline, trace: Trace, dice: Dice, listen: (scheduler: string) => Listener | null) {
    this.#timeline = timeline;
    this.#trace = trace;
    this.#dice = dice;
    this.#listen = listen;
  }

  path(worker: string, scheduler: string): PathState {
    const name = `${worker}-${scheduler}`;
    const known = this.#paths.get(name);
    if (known !== undefined) return known;
    const latencyMs = this.#dice.fork(`path ${name}`).scale(0.2, 20);
    const unrest = { lost: 0, doubled: 0, overtaken: 0, ms: 1 };
    const path: PathState = { latencyMs, clogs: 0, slowMs: 0, refusals: 0, unrest };
    this.#paths.set(name, path);
    return path;
  }

  /** The worker hears `opened`, or `closed` where nobody lets it in; nothing at all where the path is clogged. */
  dial(face: WorkerFace, life: Life, scheduler: string, ears: EndEars): Connection {
    const path = this.path(face.worker, scheduler);
    const name = `c${++this.#connections}`;
    const connection = new Connection({
      name,
      face,
      scheduler,
      timeline: this.#timeline,
      trace: this.#trace,
      dice: this.#dice.fork(name),
      path,
      nextFrame: () => ++this.#frames,
    });
    connection.worker.life = life;
    connection.worker.ears = ears;
    for (const old of this.#living) if (old.isOver) this.#living.delete(old);
    this.#living.add(connection);
    connection.seeLink("worker", "dialled");
    this.#timeline.after(path.latencyMs, () => this.#knock(connection, path, scheduler));
    return connection;
  }

  #knock(connection: Connection, path: PathState, scheduler: string): void {
    if (connection.worker.state !== "waiting" || path.clogs > 0) return;
    const listener = path.refusals > 0 ? null : this.#listen(scheduler);
    if (listener === null) return this.#refuse(connection, "connection refused");
    listener.life.hear(() => {
      if (connection.worker.state !== "waiting") return;
      const ears = listener.accept(connection);
      if (typeof ears === "string") this.#refuse(connection, ears);
      else connection.accept(listener.life, ears);
    });
  }

  #refuse(connection: Connection, why: string): void {
    connection.seeLink("worker", "refused", why);
    connection.scheduler.state = "gone";
    connection.worker.vanish(1006, why);
  }

  /** Connections that at least one end believes in, oldest first. */
  connectionsOf(process: string): Connection[] {
    return [...this.#living].filter((one) => !one.isOver && one.belongsTo(process));
  }

  /** Both ways, until the answer is called; dials hang meanwhile. */
  clog(worker: string, scheduler: string): () => void {
    const path = this.path(worker, scheduler);
    path.clogs++;
    return () => {
      path.clogs--;
      if (path.clogs > 0) return;
      for (const connection of this.connectionsOf(worker)) connection.pump();
    };
  }

  refuse(worker: string, scheduler: string): () => void {
    const path = this.path(worker, scheduler);
    path.refusals++;
    return () => void path.refusals--;
  }

  slow(worker: string, scheduler: string, ms: number): () => void {
    const path = this.path(worker, scheduler);
    path.slowMs += ms;
    return () => void (path.slowMs -= ms);
  }

  /** A share of all messages on this path suffers it, the late ones by up to `ms`; connections live on. */
  unsettle(worker: string, scheduler: string, kind: "lost" | "doubled" | "overtaken", share: number, ms: number): () => void {
    const { unrest } = this.path(worker, scheduler);
    const name = `${worker}-${scheduler} ${kind}`;
    const level =
      this.#unrest.get(name) ??
      new FaultLevel((now) => {
        unrest[kind] = now;
      });
    this.#unrest.set(name, level);
    unrest.ms = Math.max(1, ms);
    return level.raise(share);
  }

  /** The next text of this worker's newest connection in that direction suffers it. */
  plague(worker: string, from: "worker" | "scheduler", mischief: Mischief): Connection | null {
    const connection = this.connectionsOf(worker).at(-1);
    if (connection === undefined) return null;
    connection.laneFrom(from).mischief = mischief;
    return connection;
  }
}
