// Who sits on this replica's floor: one seat per worker session, the attempts each holds, and which lines may have work.
// All of it is volatile: after a restart workers join again and their inventory fills it. Changes are recorded as moves during a turn
// and made only after its commit, so a turn that fails leaves no trace here.

import type { WorkerAbout } from "../../command.ts";
import type { Line, Millis, RouteId, RunId, TaskId, Tenant, WorkerId } from "../../rows.ts";
import { fits, lineOf, type Needs, routeOf } from "../place/route.ts";
import { Deadlines, type Timer } from "./deadlines.ts";
import type { Liveness } from "./worker.ts";

export interface Hold {
  readonly task: TaskId;
  readonly run: RunId;
  readonly fence: number;
  readonly nodeType: string;
  /** When it was granted or, if it was sent again since, when that was: from here its ack deadline runs. */
  grantedAt: Millis;
  acked: boolean;
  /** The ack is in the store too, or never needs to be. */
  stored: boolean;
  /** Kept over the join of a worker that cannot report, at this instant: it will be asked whether it still runs. Null: no need to. */
  recheckFrom: Millis | null;
  /** The worker said that an attempt of this task still runs there; it may be one under an older fence. */
  isRunningOlder: boolean;
  /** A middleware that waits for what it called: it takes no slot meanwhile, or a worker with one slot would wait for itself. */
  isWaiting?: boolean;
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
  /** What it has too little of to get anything new; null when nothing. */
  strain: string | null;
  liveness: Liveness;
  beatAt: Millis;
  /** Since when every look has found no free slot here; null when the last one found some. */
  fullSince: Millis | null;
  isSaturated: boolean;
  readonly held: Map<TaskId, Hold>;
  /** How many of them wait in `next`; kept by the floor. */
  waiting?: number;
}

/** Attempts that take a slot of the seat. */
export const busyOf = (seat: Seat): number => seat.held.size - (seat.waiting ?? 0);

/** The worker's own id: names are for people and may repeat, series of numbers must not meet. */
export const instanceOf = ({ worker, tenant }: Pick<Seat, "worker" | "tenant">): string => worker.slice(tenant.length + 1);

/** What happens to one seat. */
type SeatMove =
  | { readonly move: "describe"; readonly worker: WorkerId; readonly about: WorkerAbout }
  | {
      readonly move: "beat";
      readonly worker: WorkerId;
      readonly at: Millis;
      readonly healthy: boolean;
      readonly strain: string | null;
    }
  | { readonly move: "full"; readonly worker: WorkerId; readonly since: Millis | null; readonly isSaturated: boolean }
  | { readonly move: "liveness"; readonly worker: WorkerId; readonly liveness: Liveness }
  | { readonly move: "drain"; readonly worker: WorkerId; readonly on: boolean }
  | { readonly move: "hold"; readonly worker: WorkerId; readonly hold: Hold }
  | {
      readonly move: "ack";
      readonly worker: WorkerId;
      readonly task: TaskId;
      readonly fence: number;
      readonly stored: boolean;
      readonly isRunningOlder?: true;
    }
  /** It need not be asked about any more; `sentAt`: its dispatch was sent again then, and the ack is awaited anew. */
  | {
      readonly move: "recheck";
      readonly worker: WorkerId;
      readonly task: TaskId;
      readonly fence: number;
      readonly sentAt: Millis | null;
    }
  /** A middleware begins to wait for what it called, or goes on: its slot is free meanwhile. */
  | {
      readonly move: "wait";
      readonly worker: WorkerId;
      readonly task: TaskId;
      readonly fence: number;
      readonly nodeType: string;
      readonly isWaiting: boolean;
    }
  /** `wasWaiting`: its slot was free already. */
  | {
      readonly move: "drop";
      readonly worker: WorkerId;
      readonly task: TaskId;
      readonly fence: number;
      readonly wasWaiting?: boolean;
    };

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
  /** All three are a constant span after a grant or a join. A hold that was sent again has another timer, and the first is over. */
  readonly #unacked = new Deadlines((timer) => this.#hold(timer)?.acked === false);
  readonly #unstored = new Deadlines((timer) => this.#hold(timer)?.stored === false);
  readonly #rechecks = new Deadlines((timer) => this.#held(timer)?.recheckFrom === timer.at);

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
    if (this.stalled.size > 0 && !isIdle(move)) this.stalled.clear();
    switch (move.move) {
      case "sit":
        this.seats.set(move.seat.worker, move.seat);
        move.seat.waiting = [...move.seat.held.values()].filter((hold) => hold.isWaiting === true).length;
        this.doubted.delete(move.seat.worker);
        for (const hold of move.seat.held.values()) this.#await(move.seat.worker, hold);
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
      case "heat": {
        // A line of a worker that does not sit here is no business of this floor; when it comes, its lines are hot.
        const pin = routeOf(move.line)?.pin ?? null;
        if (pin === null || this.seats.has(pin)) this.hot.add(move.line);
        break;
      }
      case "cool":
        this.hot.delete(move.line);
        break;
      case "stall":
        this.stalled.add(move.line);
        break;
      case "hold":
      case "ack":
      case "wait":
      case "drop":
      case "recheck":
      case "full":
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
        // An older attempt of the task that was never dropped here: if it waited, its slot must not count as free any more.
        const older = seat.held.get(move.hold.task);
        if (older !== undefined) setWaiting(seat, older, false);
        seat.held.set(move.hold.task, move.hold);
        this.#await(move.worker, move.hold);
        break;
      }
      case "ack": {
        const hold = seat.held.get(move.task);
        if (hold?.fence !== move.fence) break;
        hold.acked = true;
        if (move.stored) hold.stored = true;
        if (move.isRunningOlder === true) hold.isRunningOlder = true;
        break;
      }
      case "recheck": {
        const hold = seat.held.get(move.task);
        if (hold?.fence !== move.fence) break;
        hold.recheckFrom = null;
        if (move.sentAt === null) break;
        hold.acked = false;
        hold.grantedAt = move.sentAt;
        this.#await(move.worker, hold);
        break;
      }
      case "wait": {
        const hold = seat.held.get(move.task);
        if (hold?.fence === move.fence) setWaiting(seat, hold, move.isWaiting);
        break;
      }
      case "drop": {
        const hold = seat.held.get(move.task);
        if (hold?.fence !== move.fence) break;
        setWaiting(seat, hold, false);
        seat.held.delete(move.task);
        break;
      }
      case "beat":
        seat.beatAt = move.at;
        seat.healthy = move.healthy;
        seat.strain = move.strain;
        seat.liveness = "fresh";
        break;
      case "full":
        seat.fullSince = move.since;
        seat.isSaturated = move.isSaturated;
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

  #await(worker: WorkerId, { task, fence, acked, stored, grantedAt, recheckFrom }: Hold): void {
    if (!acked) this.#unacked.push({ worker, task, fence, at: grantedAt });
    if (!stored) this.#unstored.push({ worker, task, fence, at: grantedAt });
    if (recheckFrom !== null) this.#rechecks.push({ worker, task, fence, at: recheckFrom });
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
    return this.#unacked.until(now - ms);
  }

  /** Acked attempts older than `ms` whose ack is only in memory. */
  unstored(now: Millis, ms: number): Timer[] {
    return this.#unstored.until(now - ms).filter((timer) => this.#hold(timer)?.acked === true);
  }

  /** Attempts kept `ms` ago over the join of a worker that cannot report, about which it has not been asked. */
  rechecks(now: Millis, ms: number): Timer[] {
    return this.#rechecks.until(now - ms);
  }

  /** When the next of these deadlines passes; a recheck that has passed waits for the next look. */
  nextDeadline(now: Millis, ackMs: number, recheckMs: number): Millis | null {
    const [ack, asked] = [this.#unacked.first, this.#rechecks.first];
    const recheckAt = asked === null || asked + recheckMs <= now ? null : asked + recheckMs;
    if (ack === null) return recheckAt;
    return recheckAt === null ? ack + ackMs : Math.min(ack + ackMs, recheckAt);
  }

  #held(timer: Timer): Hold | undefined {
    const hold = this.seats.get(timer.worker)?.held.get(timer.task);
    return hold?.fence === timer.fence ? hold : undefined;
  }

  /** The hold of a grant's timer: one that was sent again since has another. */
  #hold(timer: Timer): Hold | undefined {
    const hold = this.#held(timer);
    return hold?.grantedAt === timer.at ? hold : undefined;
  }

  /** Sessions without a free slot for long, by tenant. */
  get saturated(): Record<Tenant, number> {
    const counts: Record<Tenant, number> = {};
    for (const { tenant, isSaturated } of this.seats.values()) if (isSaturated) counts[tenant] = (counts[tenant] ?? 0) + 1;
    return counts;
  }

  get held(): number {
    let held = 0;
    for (const seat of this.seats.values()) held += seat.held.size;
    return held;
  }
}

function setWaiting(seat: Seat, hold: Hold, isWaiting: boolean): void {
  if ((hold.isWaiting === true) === isWaiting) return;
  hold.isWaiting = isWaiting;
  seat.waiting = (seat.waiting ?? 0) + (isWaiting ? 1 : -1);
}

/** Moves after which no seat can take more than before. */
const isIdle = ({ move }: FloorMove): boolean => move === "stall" || move === "ack" || move === "recheck" || move === "full";
