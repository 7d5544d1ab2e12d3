// Who sits on this replica's floor: one seat per worker session, the attempts each holds, and which lines may have work.
// All of it is volatile: after a restart workers join again and their inventory fills it. Changes are recorded as moves during a turn
// and made only after its commit, so a turn that fails leaves no trace here.

import type { WorkerAbout } from "../command.ts";
import type { Line, Millis, RouteId, RunId, TaskId, Tenant, WorkerId } from "../rows.ts";
import { fits, lineOf, type Needs } from "./route.ts";
import type { Liveness } from "./worker.ts";

export interface Hold {
  readonly task: TaskId;
  readonly run: RunId;
  readonly fence: number;
  readonly nodeType: string;
  readonly grantedAt: Millis;
  acked: boolean;
  /** The ack is in the store too, or never needs to be. */
  stored: boolean;
}

export interface Seat {
  readonly worker: WorkerId;
  readonly tenant: Tenant;
  readonly name: string;
  readonly session: string;
  readonly boot: string;
  readonly epoch: number;
  about: WorkerAbout;
  draining: boolean;
  healthy: boolean;
  liveness: Liveness;
  beatAt: Millis;
  readonly held: Map<TaskId, Hold>;
}

/** What happens to one seat. */
type SeatMove =
  | { readonly move: "describe"; readonly worker: WorkerId; readonly about: WorkerAbout }
  | { readonly move: "beat"; readonly worker: WorkerId; readonly at: Millis; readonly healthy: boolean }
  | { readonly move: "liveness"; readonly worker: WorkerId; readonly liveness: Liveness }
  | { readonly move: "drain"; readonly worker: WorkerId; readonly on: boolean }
  | { readonly move: "hold"; readonly worker: WorkerId; readonly hold: Hold }
  | { readonly move: "ack"; readonly worker: WorkerId; readonly task: TaskId; readonly fence: number; readonly stored: boolean }
  | { readonly move: "drop"; readonly worker: WorkerId; readonly task: TaskId; readonly fence: number };

export type FloorMove =
  | SeatMove
  | { readonly move: "sit"; readonly seat: Seat }
  | { readonly move: "rise"; readonly worker: WorkerId; readonly session: string }
  /** The worker's row was looked at and agrees with its seat. */
  | { readonly move: "trust"; readonly worker: WorkerId }
  | { readonly move: "route"; readonly route: RouteId; readonly needs: Needs }
  | { readonly move: "heat" | "cool" | "stall"; readonly line: Line };

/** Turns in the air: their moves are not made yet, so what stands here about these workers may be behind the store. */
export interface Air {
  /** Whose seats they change, or whose own commands wait for them to land: these get no grants. */
  readonly unsure: ReadonlySet<WorkerId>;
  /** Whom they concern at all: nobody judges these by what they have not said. */
  readonly touched: ReadonlySet<WorkerId>;
  /** What they grant. */
  readonly holds: ReadonlyMap<WorkerId, readonly Hold[]>;
}

export const clearAir: Air = { unsure: new Set(), touched: new Set(), holds: new Map() };

interface Timer {
  readonly worker: WorkerId;
  readonly task: TaskId;
  readonly fence: number;
  readonly at: Millis;
}

export class Floor {
  readonly seats = new Map<WorkerId, Seat>();
  readonly routes = new Map<RouteId, Needs>();
  /** Lines that may have tasks in the store; a line leaves when a claim finds its end. */
  readonly hot = new Set<Line>();
  /** Hot lines whose head could not be placed although there was room; looked at again when a seat changes. */
  readonly stalled = new Set<Line>();
  /** What turns that are decided and not yet heard of mean for the others. */
  air: Air = clearAir;
  /** Workers whose row was not what their seat says: looked at before they get anything. */
  readonly doubted = new Set<WorkerId>();
  readonly #fitting = new Map<RouteId, Seat[]>();
  readonly #lines = new Map<RouteId, Line>();
  /** Where the next search for a seat of a route begins. A preference only: losing it costs nothing. */
  readonly #turns = new Map<RouteId, number>();
  /** Grants in the order they were made: both deadlines are a constant after the grant, so the oldest is always first. */
  #unacked: Timer[] = [];
  #unstored: Timer[] = [];

  seatOf(worker: WorkerId, session: string): Seat | null {
    const seat = this.seats.get(worker);
    return seat !== undefined && seat.session === session ? seat : null;
  }

  /** Seats whose worker can run this route, in the order they came. */
  fitting(route: RouteId): readonly Seat[] {
    let seats = this.#fitting.get(route);
    if (seats === undefined) {
      const needs = this.routes.get(route);
      seats = needs === undefined ? [] : [...this.seats.values()].filter((seat) => fits(needs, seat) === null);
      this.#fitting.set(route, seats);
    }
    return seats;
  }

  /** The line of a route. One text for all its tasks, so that looking a line up needs no new hash; known routes bound how many there are. */
  lineOf(route: RouteId, pin: WorkerId | null): Line {
    const known = pin === null ? this.#lines.get(route) : undefined;
    if (known !== undefined) return known;
    const line = lineOf(route, pin);
    if (pin === null && this.routes.has(route)) this.#lines.set(route, line);
    return line;
  }

  turnOf(route: RouteId): number {
    return this.#turns.get(route) ?? 0;
  }

  tookTurn(route: RouteId, next: number): void {
    this.#turns.set(route, next);
  }

  apply(move: FloorMove): void {
    if (this.stalled.size > 0 && move.move !== "stall" && move.move !== "ack") this.stalled.clear();
    switch (move.move) {
      case "sit":
        this.seats.set(move.seat.worker, move.seat);
        this.doubted.delete(move.seat.worker);
        this.#seatsChanged(move.seat);
        break;
      case "rise":
        if (this.seatOf(move.worker, move.session) !== null) this.seats.delete(move.worker);
        this.doubted.delete(move.worker);
        this.#fitting.clear();
        break;
      case "trust":
        this.doubted.delete(move.worker);
        break;
      case "route":
        this.routes.set(move.route, move.needs);
        this.#fitting.delete(move.route);
        break;
      case "heat":
        this.hot.add(move.line);
        break;
      case "cool":
        this.hot.delete(move.line);
        break;
      case "stall":
        this.stalled.add(move.line);
        break;
      case "hold":
      case "ack":
      case "drop":
      case "beat":
      case "liveness":
      case "drain":
      case "describe": {
        const seat = this.seats.get(move.worker);
        if (seat !== undefined) this.#applyTo(seat, move);
        break;
      }
    }
  }

  #applyTo(seat: Seat, move: SeatMove): void {
    switch (move.move) {
      case "hold": {
        seat.held.set(move.hold.task, move.hold);
        const timer = { worker: move.worker, task: move.hold.task, fence: move.hold.fence, at: move.hold.grantedAt };
        if (!move.hold.acked) this.#unacked.push(timer);
        if (!move.hold.stored) this.#unstored.push(timer);
        break;
      }
      case "ack": {
        const hold = seat.held.get(move.task);
        if (hold?.fence !== move.fence) break;
        hold.acked = true;
        if (move.stored) hold.stored = true;
        break;
      }
      case "drop":
        if (seat.held.get(move.task)?.fence === move.fence) seat.held.delete(move.task);
        break;
      case "beat":
        seat.beatAt = move.at;
        seat.healthy = move.healthy;
        seat.liveness = "fresh";
        break;
      case "liveness":
        seat.liveness = move.liveness;
        break;
      case "drain":
        seat.draining = move.on;
        break;
      case "describe":
        seat.about = move.about;
        this.#seatsChanged(seat);
        break;
    }
  }

  /** A new or changed seat may serve lines nobody here could serve before. */
  #seatsChanged(seat: Seat): void {
    this.#fitting.clear();
    for (const [route, needs] of this.routes) {
      if (fits(needs, seat) !== null) continue;
      this.hot.add(`r|${route}`);
      this.hot.add(`r|${route}|${seat.worker}`);
    }
  }

  /** Every line that a seat here could serve may have work. */
  heatServed(): void {
    for (const route of this.routes.keys()) if (this.fitting(route).length > 0) this.apply({ move: "heat", line: `r|${route}` });
  }

  /** Lines that were asked for go behind the others, so that more lines than fit into a turn take turns. */
  putBehind(lines: readonly Line[]): void {
    for (const line of lines) {
      this.hot.delete(line);
      this.hot.add(line);
    }
  }

  /** Grants older than `ms` that nobody acked. */
  unacked(now: Millis, ms: number): Timer[] {
    this.#unacked = stillWanted(this.#unacked, (timer) => this.#hold(timer)?.acked === false);
    return olderThan(this.#unacked, now - ms);
  }

  /** Acked attempts older than `ms` whose ack is only in memory. */
  unstored(now: Millis, ms: number): Timer[] {
    this.#unstored = stillWanted(this.#unstored, (timer) => this.#hold(timer)?.stored === false);
    return olderThan(this.#unstored, now - ms).filter((timer) => this.#hold(timer)?.acked === true);
  }

  /** When the next of these deadlines passes. */
  nextDeadline(ackMs: number): Millis | null {
    this.#unacked = stillWanted(this.#unacked, (timer) => this.#hold(timer)?.acked === false);
    const first = this.#unacked[0];
    return first === undefined ? null : first.at + ackMs;
  }

  #hold(timer: Timer): Hold | undefined {
    const hold = this.seats.get(timer.worker)?.held.get(timer.task);
    return hold?.fence === timer.fence ? hold : undefined;
  }

  get held(): number {
    let held = 0;
    for (const seat of this.seats.values()) held += seat.held.size;
    return held;
  }
}

/** Drops the finished ones at the front; those further back wait until they get there, so a turn never walks the whole list. */
function stillWanted(timers: Timer[], wanted: (timer: Timer) => boolean): Timer[] {
  let done = 0;
  while (done < timers.length && !wanted(timers[done] as Timer)) done++;
  return done === 0 ? timers : timers.slice(done);
}

function olderThan(timers: readonly Timer[], at: Millis): Timer[] {
  const old: Timer[] = [];
  for (const timer of timers) {
    if (timer.at > at) break;
    old.push(timer);
  }
  return old;
}
