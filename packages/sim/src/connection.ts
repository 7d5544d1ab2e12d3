// A connection between a worker's process and a scheduler's, as both ends see it: opened, texts, pings, the closing handshake, and the
// ways in which a connection really ends. Which faults there are and when they strike is told from outside.

import type { Dice } from "./dice.ts";
import { type Item, Lane, type LaneEnds, type PathState } from "./lane.ts";
import type { Life } from "./life.ts";
import type { FrameSeen, LinkSeen, WorkerFace } from "./observation.ts";
import type { Timeline } from "./timeline.ts";
import type { Trace } from "./trace.ts";

export type Side = "worker" | "scheduler";

/** What an end's owner hears, inside its process. `closed` once and last; `opened` only where it dialled. */
export interface EndEars {
  opened(): void;
  text(text: string): void;
  ping(): void;
  pong(): void;
  drained(): void;
  closed(code: number, reason: string): void;
}

export interface ConnectionOptions {
  readonly name: string;
  readonly face: WorkerFace;
  readonly scheduler: string;
  readonly timeline: Timeline;
  readonly trace: Trace;
  readonly dice: Dice;
  readonly path: PathState;
  readonly nextFrame: () => number;
}

/** One end: "closing" has said goodbye and waits for the answer, "gone" hears nothing any more. */
export class End {
  readonly side: Side;
  readonly #connection: Connection;
  state: "waiting" | "open" | "closing" | "gone" = "waiting";
  life: Life | null = null;
  ears: EndEars | null = null;
  /** Texts that have arrived while the process did not look. */
  readonly inHand = new Set<Item>();

  constructor(side: Side, connection: Connection) {
    this.side = side;
    this.#connection = connection;
  }

  get out(): Lane {
    return this.#connection.laneFrom(this.side);
  }

  send(text: string): void {
    if (this.state !== "open") return;
    const item: Item = { what: "text", text, frame: this.#connection.nextFrame() };
    this.#connection.seeFrame(item, this.side, "sent");
    this.out.put(item);
  }

  ping(): void {
    if (this.state === "open") this.out.put({ what: "ping" });
  }

  pong(): void {
    if (this.state === "open") this.out.put({ what: "pong" });
  }

  close(code: number, reason: string): void {
    if (this.state === "waiting") return this.terminate();
    if (this.state !== "open") return;
    this.state = "closing";
    this.out.put({ what: "close", code, reason });
  }

  /** Tears the socket down; its owner hears `closed` a moment later. */
  terminate(): void {
    if (this.state === "gone") return;
    this.out.put({ what: "reset" });
    this.vanish(1006, "torn down");
  }

  /** This end is over; its owner is told, if it still lives. */
  vanish(code: number, reason: string): void {
    if (this.state === "gone") return;
    this.state = "gone";
    this.#connection.seeLink(this.side, "closed", `${code} ${reason}`);
    const { ears } = this;
    this.#connection.timeline.after(0, () => this.life?.hear(() => ears?.closed(code, reason)));
  }

  /** Its process is dead: nobody is there to be told. */
  abandon(): void {
    if (this.state === "gone") return;
    this.state = "gone";
    this.#connection.seeLink(this.side, "closed", "its process ended");
    for (const item of this.inHand) this.#connection.seeFrame(item, other(this.side), "lost");
    this.inHand.clear();
  }
}

export class Connection {
  readonly timeline: Timeline;
  readonly nextFrame: () => number;
  readonly name: string;
  readonly worker: End;
  readonly scheduler: End;
  readonly #trace: Trace;
  readonly #about: WorkerFace & { readonly connection: string; readonly scheduler: string };
  readonly #up: Lane;
  readonly #down: Lane;

  constructor(options: ConnectionOptions) {
    const { name, face, scheduler, timeline, trace, dice, path, nextFrame } = options;
    this.name = name;
    this.timeline = timeline;
    this.nextFrame = nextFrame;
    this.#trace = trace;
    this.#about = { ...face, connection: name, scheduler };
    this.worker = new End("worker", this);
    this.scheduler = new End("scheduler", this);
    this.#up = new Lane(timeline, dice.fork("up"), path, this.#endsOf("worker"));
    this.#down = new Lane(timeline, dice.fork("down"), path, this.#endsOf("scheduler"));
  }

  get isOver(): boolean {
    return this.worker.state === "gone" && (this.scheduler.state === "gone" || this.scheduler.state === "waiting");
  }

  /** By the name of a worker or of a scheduler. */
  belongsTo(process: string): boolean {
    return this.#about.worker === process || this.#about.scheduler === process;
  }

  end(side: Side): End {
    return side === "worker" ? this.worker : this.scheduler;
  }

  laneFrom(side: Side): Lane {
    return side === "worker" ? this.#up : this.#down;
  }

  /** The scheduler has let the worker in. */
  accept(life: Life, ears: EndEars): void {
    this.scheduler.life = life;
    this.scheduler.ears = ears;
    this.scheduler.state = "open";
    this.seeLink("scheduler", "opened");
    this.#down.put({ what: "open" });
  }

  /** Both ends see the end of it; what is on its way is lost (a reset) or still arrives (a cut). */
  cut(isReset: boolean): void {
    if (isReset) {
      this.#up.dropAll();
      this.#down.dropAll();
      this.worker.vanish(1006, "connection reset");
      this.scheduler.vanish(1006, "connection reset");
      return;
    }
    this.#up.put({ what: "reset" });
    this.#down.put({ what: "reset" });
  }

  /** One end sees the end of it, the other never hears. */
  forsake(told: Side): void {
    this.#up.die();
    this.#down.die();
    this.end(told).vanish(1006, "the network is gone");
  }

  /** The worker sees the end of it at once; what it had sent still arrives, but late, and then the scheduler sees the end too. */
  linger(ms: number): void {
    this.#up.read(false);
    this.#down.die();
    this.worker.vanish(1006, "the network is gone");
    this.#up.put({ what: "reset" });
    this.timeline.after(ms, () => this.#up.read(true));
  }

  /** A process died. Its kernel says so to the other end, unless the whole machine is gone. */
  orphan(side: Side, isPowerLoss: boolean): void {
    this.end(side).abandon();
    if (!isPowerLoss) return this.laneFrom(side).put({ what: "reset" });
    this.#up.die();
    this.#down.die();
  }

  pump(): void {
    this.#up.pump();
    this.#down.pump();
  }

  seeFrame(item: Item, from: Side, event: FrameSeen["event"]): void {
    if (item.what !== "text") return;
    const toward = other(from);
    this.#trace.see({ kind: "frame", ...this.#about, toward, event, frame: item.frame, text: item.text });
  }

  seeLink(side: Side, event: LinkSeen["event"], detail?: string): void {
    this.#trace.see({ kind: "link", ...this.#about, event, side, ...(detail !== undefined && { detail }) });
  }

  #endsOf(from: Side): LaneEnds {
    return {
      deliver: (item) => this.#arrive(item, from),
      lost: (item) => this.seeFrame(item, from, "lost"),
      drained: () => this.end(from).life?.hear(() => this.end(from).ears?.drained()),
    };
  }

  #arrive(item: Item, from: Side): void {
    const to = this.end(other(from));
    if (to.state === "gone" || to.life === null || to.life.isOver) return this.seeFrame(item, from, "lost");
    to.inHand.add(item);
    to.life.hear(() => {
      to.inHand.delete(item);
      this.#take(item, to, from);
    });
  }

  #take(item: Item, to: End, from: Side): void {
    if (to.state === "gone") return this.seeFrame(item, from, "lost");
    switch (item.what) {
      case "open":
        if (to.state !== "waiting") return;
        to.state = "open";
        this.seeLink(to.side, "opened");
        return to.ears?.opened();
      case "text":
        // After its own goodbye an end reads on only to find the answer to it.
        if (to.state !== "open") return this.seeFrame(item, from, "lost");
        this.seeFrame(item, from, "delivered");
        return to.ears?.text(item.text);
      case "ping":
        return to.ears?.ping();
      case "pong":
        return to.ears?.pong();
      case "close":
        to.out.put({ what: "closed", code: item.code, reason: item.reason });
        return to.vanish(item.code, item.reason);
      case "closed":
        return to.vanish(item.code, item.reason);
      case "reset":
        return to.vanish(1006, "connection reset by peer");
    }
  }
}

const other = (side: Side): Side => (side === "worker" ? "scheduler" : "worker");
