// The driver of turns, the engine's only asynchronous file: begin, decide (again where rows were missing), commit, then speak.
// It decides nothing about work; it decides what happens when a unit throws, a root is busy, a commit fails or its outcome is unknown.

import { type Fault, fault } from "@astraflow/protocol";
import type { Inbound } from "../command.ts";
import { clearAir, Floor } from "../core/crew/floor.ts";
import { slotsComing, wantedClaims } from "../core/place/place.ts";
import { Plans, type Tools } from "../core/tools.ts";
import type { Claim, Committed, Tx } from "../port.ts";
import type { Millis, WorkerId } from "../rows.ts";
import type { Engine, EngineGauge, Settings, World } from "../world.ts";
import { Decision } from "./decision.ts";
import { type Decided, type Flight, Sky } from "./flight.ts";
import { bytesOf, Inbox, type Waiting } from "./inbox.ts";
import { Joins } from "./joins.ts";
import { Landing } from "./landing.ts";
import { Leftovers } from "./leftovers.ts";
import { type Next, Pace } from "./pace.ts";
import { asFault, refusal } from "./refusal.ts";
import { RouteBook } from "./route-book.ts";
import { shareOf, wantOf } from "./want.ts";

/** Rounds of `more` a turn may need; a turn that asks for more is a bug, not a big turn. */
const roundsMax = 200;
const nobody: ReadonlySet<WorkerId> = new Set();
const plansMax = 1_000;
/** A turn this many idle periods late means the scheduler or its store was away. */
const awayPeriods = 5;

/** For tests alone: the bugs worth planting. */
export type Plant = "ack-before-commit" | "requeue-forgets-fence";

export function createEngine(world: World, settings: Settings): Engine {
  return new Driver(world, settings, null);
}

export class Driver implements Engine {
  readonly #world: World;
  readonly #settings: Settings;
  readonly #floor = new Floor();
  readonly #routes = new RouteBook(this.#floor);
  readonly #inbox = new Inbox();
  readonly #joins = new Joins();
  readonly #plant: Plant | null;
  #tools: Tools;
  #turn = 0;
  #now: Millis = 0;
  #backAt: Millis = 0;
  #running: Promise<void> | null = null;
  #stopping = false;
  readonly #leftovers: Leftovers;
  readonly #landing: Landing;
  readonly #pace: Pace;
  readonly #sky = new Sky();
  #isLanding = false;
  /** The outcome of the first turn in the air cannot be had from the store yet: nothing begins before it can. */
  #isUnsettled = false;
  /** Resolved when a command came or a turn landed. */
  #stir = Promise.withResolvers<void>();

  constructor(world: World, settings: Settings, plant: Plant | null) {
    this.#world = world;
    this.#settings = settings;
    this.#plant = plant;
    this.#leftovers = new Leftovers(world);
    this.#landing = new Landing(world, this.#floor, this.#routes, settings.idleMs);
    this.#pace = new Pace(settings.idleMs);
    this.#tools = this.#makeTools({ replica: "", epoch: 0 });
  }

  #makeTools(me: Tools["me"]): Tools {
    const world = this.#world;
    return {
      settings: this.#settings,
      floor: this.#floor,
      me,
      plans: new Plans((text) => world.digest(text), plansMax),
      roll: () => world.dice.roll(),
      nextId: (now) => world.ids.next(now),
      forgetsFence: this.#plant === "requeue-forgets-fence",
    };
  }

  async start(me: { replica: string; cluster: string }): Promise<void> {
    const { lastTurn, epoch } = await this.#world.store.open(me);
    this.#turn = lastTurn;
    this.#tools = this.#makeTools({ replica: me.replica, epoch });
    // Heard from the first moment on: what is told while the routes are read would otherwise be missed.
    this.#world.store.onHint((hint) => {
      // News of the log is for readers; only work and mail are a reason for a turn.
      if (hint.type === "log") return;
      if (hint.type === "line") this.#routes.hear(hint.line);
      this.wake();
    });
    await this.#routes.learn(this.#world.store);
    this.wake();
    await this.#running;
  }

  push(items: readonly Inbound[]): void {
    for (const item of items) {
      if (this.#stopping)
        this.#refuse(item.ref, fault("E.SHUTTING_DOWN", "the scheduler is shutting down; try another or later"));
      else if (this.#inbox.size >= this.#settings.inboxMax)
        this.#refuse(item.ref, fault("E.OVERLOADED", `${this.#settings.inboxMax} commands wait already; try again later`));
      else this.#take(item);
    }
    this.wake();
  }

  #take({ ref, command }: Inbound): void {
    const bytes = bytesOf({ ref, command });
    const item = { ref, command, bytes, at: this.#now, run: null, tries: 0, busyTurns: 0, solo: false, isGone: false };
    this.#joins.came(item);
    this.#inbox.push(item);
  }

  #refuse(ref: number, problem: Fault): void {
    this.#world.out([refusal(ref, problem)]);
  }

  wake(): void {
    this.#pace.isWoken = true;
    this.#stir.resolve();
    if (this.#running !== null) return;
    this.#running = this.#loop().finally(() => {
      this.#running = null;
      // Something may have come between the loop's last look and now.
      if (this.#pace.isWoken && !this.#stopping) this.wake();
    });
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    this.#stir.resolve();
    while (this.#running !== null) await this.#running;
    await this.#landAll();
    for (const item of this.#sky.commands())
      this.#refuse(
        item.ref,
        fault("E.STORE.UNKNOWN_OUTCOME", "the store did not say whether this was stored; look before trying again"),
      );
    for (const item of this.#inbox.drainAll())
      this.#refuse(item.ref, fault("E.SHUTTING_DOWN", "the scheduler is shutting down; try another or later"));
  }

  gauge(): EngineGauge {
    return {
      ...this.#landing.count,
      waiting: this.#inbox.size,
      quarantined: this.#leftovers.quarantine.size,
      sessions: this.#floor.seats.size,
      held: this.#floor.held,
      saturated: this.#floor.saturated,
      now: this.#now,
    };
  }

  /** Turns follow each other while anything waits; no timer delays one. Where the store allows it, one begins while others commit. */
  async #loop(): Promise<void> {
    this.#pace.resume();
    if (this.#isUnsettled) await this.#landAll();
    for (;;) {
      const isHeld = this.#isUnsettled || this.#pace.isPaused || this.#stopping;
      if (!isHeld && this.#pace.isWoken && this.#sky.size < this.#settings.turnsInFlight) {
        this.#pace.takeOff(this.#sky.size === 0);
        await this.#takeOff();
      } else if (this.#sky.size === 0 || this.#isUnsettled) break;
      else await this.#stirred();
    }
    if (!this.#stopping) this.#world.idle(this.#pace.wakeAt(this.#now), this.#now);
  }

  /** Begins a turn and decides it; its commit is left under way. With others in the air it takes only what they do not concern. */
  async #takeOff(): Promise<void> {
    const isAlone = this.#sky.size === 0;
    const { turnBytesMax, claimLinesMax } = this.#settings;
    const share = shareOf(this.#inbox.size, this.#sky.size, this.#settings);
    const gate = isAlone ? null : this.#sky.gate();
    const batch = this.#inbox.take(share, turnBytesMax, gate === null ? null : (item) => gate.admits(item));
    this.#floor.air = gate === null ? clearAir : this.#sky.air(gate.waiting);
    const claims = wantedClaims(this.#tools, slotsComing(batch.map((item) => item.command)));
    if (!isAlone && batch.length === 0 && claims.length === 0) return;
    if (claims.length >= claimLinesMax) this.#floor.putBehind(claims.map((claim) => claim.line));
    let tx: Tx;
    let mark: number;
    try {
      mark = await this.#routes.open(this.#world.store, isAlone);
      const skip = this.#leftovers.quarantine;
      tx = await this.#world.store.begin(wantOf(this.#tools, batch, claims, { now: this.#now, skip }));
    } catch (problem) {
      return this.#note(this.#storeAway(batch, problem));
    }
    this.#notice(tx.now);
    this.#world.failpoint("turn.begun");
    let decision: Decision;
    try {
      decision = await this.#decide(tx, batch, claims);
    } catch (problem) {
      // The store went away in the middle of the turn: nothing is written, all of it comes again.
      await tx.abort().catch((cause: unknown) => this.#report("E.STORE.BUSY", "a turn could not be given up", {}, cause));
      return this.#note(this.#storeAway(batch, problem));
    }
    const decided = { decision, board: decision.board, mark, later: this.#leftovers.setAside(decision) };
    this.#world.failpoint("turn.decided");
    if (this.#plant === "ack-before-commit") this.#landing.speak(decided, new Map());
    this.#launch(tx, decided);
    if (this.#settings.turnsInFlight === 1) while (this.#sky.size > 0 && !this.#isUnsettled) await this.#stirred();
  }

  async #stirred(): Promise<void> {
    await this.#stir.promise;
    this.#stir = Promise.withResolvers();
  }

  #launch(tx: Tx, decided: Decided): void {
    const { units, roots } = decided.board.units();
    const isEmpty = units.length === 0 && tx.mail.length === 0;
    // A number is used once: a commit that failed may yet be heard of.
    if (!isEmpty) this.#turn++;
    const flight: Flight = { ...decided, turn: this.#turn, tx, units, groups: roots, outcome: null };
    this.#sky.takeOff(flight);
    const commit: Promise<Committed> = isEmpty
      ? tx.abort().then(() => ({ outcome: "committed", first: new Map() }))
      : tx.commit(flight.turn, units);
    void commit
      .catch((problem: unknown): Committed => ({ outcome: "failed", fault: asFault(problem) }))
      .then(async (outcome) => {
        flight.outcome = outcome;
        await this.#landAll();
        this.#stir.resolve();
      });
  }

  /** Lands what can land, in the order of taking off. */
  async #landAll(): Promise<void> {
    if (this.#isLanding) return;
    this.#isLanding = true;
    this.#isUnsettled = false;
    for (let flight = this.#sky.first; flight !== undefined && flight.outcome !== null; flight = this.#sky.first) {
      const outcome = flight.outcome.outcome === "unknown" ? await this.#settle(flight) : flight.outcome;
      if (outcome === null) break;
      this.#sky.land();
      this.#floor.air = this.#sky.air(nobody);
      this.#note(this.#landed(flight, outcome));
    }
    this.#isLanding = false;
  }

  #landed(flight: Flight, outcome: Exclude<Committed, { outcome: "unknown" }>): Next {
    if (outcome.outcome === "committed") {
      this.#applied(flight, outcome.first);
      return this.#nextWake(flight);
    }
    this.#landing.count.retriedTurns++;
    for (const worker of outcome.doubts ?? []) this.#floor.doubted.add(worker);
    const root = outcome.unit === undefined ? null : (flight.groups[outcome.unit] ?? null);
    this.#inbox.putBack(this.#leftovers.failed(flight, root, outcome.fault));
    // Whoever was relied on in vain is looked at first by the next turn.
    return root === null && outcome.doubts === undefined ? this.#pace.failed(this.#now) : "again";
  }

  #note(next: Next): void {
    this.#pace.note(next, this.#inbox.size > 0);
  }

  /** A jump of the store's clock between two turns means that nobody could have renewed a lease meanwhile. */
  #notice(now: Millis): void {
    const away = this.#now === 0 || now - this.#now > this.#settings.idleMs * awayPeriods;
    if (away) this.#backAt = now;
    this.#now = now;
  }

  async #decide(tx: Tx, batch: readonly Waiting[], claims: readonly Claim[]): Promise<Decision> {
    const when = { backAt: this.#backAt, horizon: this.#inbox.oldestWord() };
    const looks = this.#landing.looksAround(tx.now);
    for (let round = 1; ; round++) {
      const decision = new Decision(this.#tools, { tx, batch, claims, when, looks, quarantine: this.#leftovers.quarantine });
      if (decision.isComplete) return decision;
      const rows = [...decision.missing.rows];
      if (round >= roundsMax) throw new Error(`a turn asked for rows ${roundsMax} times: ${rows.join(", ")}`);
      await tx.more(rows, [...decision.missing.lists.values()], [...decision.missing.addresses]);
    }
  }

  /** Nothing is said or tried again before the store knows what became of the turn; while it cannot say, no other turn begins. */
  async #settle({ turn }: Flight): Promise<Exclude<Committed, { outcome: "unknown" }> | null> {
    try {
      const verdict = await this.#world.store.settle(turn);
      return verdict === "committed"
        ? { outcome: "committed", first: new Map() }
        : { outcome: "failed", fault: fault("E.STORE.BUSY", "the commit did not arrive") };
    } catch (problem) {
      if (!this.#pace.isFailing) this.#report("E.STORE.UNKNOWN_OUTCOME", `turn ${turn} cannot be settled yet`, { turn }, problem);
      this.#isUnsettled = true;
      this.#note(this.#pace.failed(this.#now));
      return null;
    }
  }

  /** The turn is on disk (or wrote nothing): now the floor moves and the doors hear of it. */
  #applied(decided: Decided, first: ReadonlyMap<string, number>): void {
    this.#pace.stored();
    this.#world.failpoint("turn.committed");
    this.#landing.move(decided, this.#sky.size === 0);
    this.#joins.landed(decided.decision.taken);
    if (this.#plant !== "ack-before-commit") this.#landing.speak(decided, first);
    this.#inbox.putBack(decided.later);
    this.#world.failpoint("turn.spoken");
  }

  /** The store did not even begin, or not to the end. */
  #storeAway(batch: readonly Waiting[], problem: unknown): Next {
    const error = asFault(problem);
    if (this.#pace.isNews(error.code)) this.#report(error.code, error.message, {}, problem);
    this.#inbox.putBack(this.#leftovers.away(batch, error));
    return this.#pace.failed(this.#now);
  }

  #nextWake({ tx, board, decision, later }: Flight): Next {
    const isStuck = decision.busy.length > 0 && decision.taken.length === 0 && this.#inbox.size === later.length;
    // Nothing else waits, and whoever holds the roots needs a moment; asking without a pause would only keep the store busy.
    const pause = this.#pace.stuck(isStuck, tx.now);
    if (pause !== null) return pause;
    if (later.length > 0 || this.#moreToPlace()) return "again";
    const { idleMs, ackDeadlineMs, recheckMs } = this.#settings;
    let wakeAt = tx.now + idleMs;
    for (const at of [tx.nextDue, board.earliestDue(), this.#floor.nextDeadline(tx.now, ackDeadlineMs, recheckMs)])
      if (at !== null) wakeAt = Math.min(wakeAt, at);
    return wakeAt <= tx.now ? (tx.due.length > 0 || board.earliestDue() !== null ? "again" : tx.now + 1) : wakeAt;
  }

  #moreToPlace(): boolean {
    return this.#floor.hot.size > 0 && wantedClaims(this.#tools, new Map()).length > 0;
  }

  #report(code: string, message: string, details: Readonly<Record<string, unknown>>, cause: unknown): void {
    this.#world.report({ code, message, details, cause });
  }
}
