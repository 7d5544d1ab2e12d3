// The driver of turns, the engine's only asynchronous file: begin, decide (again where rows were missing), commit, then speak.
// It decides nothing about work; it decides what happens when a unit throws, a root is busy, a commit fails or its outcome is unknown.

import { type Fault, fault } from "@astraflow/protocol";
import type { Inbound } from "../command.ts";
import { rowsForTimers } from "../core/clockwork.ts";
import { clearAir, Floor } from "../core/crew/floor.ts";
import { listsFor, rowsFor } from "../core/decide.ts";
import { slotsComing, wantedClaims } from "../core/place/place.ts";
import { Plans, type Tools } from "../core/tools.ts";
import type { Effect } from "../effect.ts";
import type { Claim, Committed, Tx } from "../port.ts";
import type { Key, Millis, WorkerId } from "../rows.ts";
import type { Engine, EngineGauge, Settings, World } from "../world.ts";
import { Decision } from "./decision.ts";
import { type Decided, type Flight, Sky } from "./flight.ts";
import { bytesOf, Inbox, type Waiting } from "./inbox.ts";
import { Joins } from "./joins.ts";
import { Leftovers } from "./leftovers.ts";
import { asFault, refusal } from "./refusal.ts";
import { RouteBook } from "./route-book.ts";

/** Rounds of `more` a turn may need; a turn that asks for more is a bug, not a big turn. */
const roundsMax = 200;
const busyPauseMsMax = 16;
/** A turn of fewer commands than this is not worth splitting: it costs two calls to the store, however small. */
const shareMin = 128;
const nobody: ReadonlySet<WorkerId> = new Set();
const plansMax = 1_000;
/** A turn this many idle periods late means the scheduler or its store was away. */
const awayPeriods = 5;

/** For tests alone: the bugs worth planting. */
export type Plant = "ack-before-commit" | "requeue-forgets-fence";

export function createEngine(world: World, settings: Settings): Engine {
  return new Driver(world, settings, null);
}

/** When to look again: at once, at an instant, or after a pause although something waits (the store needs a moment). */
type Next = Millis | "again" | { readonly pauseUntil: Millis };

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
  #lastLook: Millis = 0;
  #backAt: Millis = 0;
  #running: Promise<void> | null = null;
  #woken = false;
  #stopping = false;
  readonly #leftovers: Leftovers;
  #failedCommits = 0;
  /** Why the store was last away: reported once, until it is there again or says something else. */
  #trouble: string | null = null;
  /** Turns in a row in which every command met a busy root. */
  #stuckTurns = 0;
  readonly #sky = new Sky();
  #isLanding = false;
  /** The outcome of the first turn in the air cannot be had from the store yet: nothing begins before it can. */
  #isUnsettled = false;
  /** What the turns that landed ask for: the earliest wake, or a pause. */
  #wakeAt: Millis = Number.POSITIVE_INFINITY;
  #pauseUntil: Millis | null = null;
  /** Resolved when a command came or a turn landed. */
  #stir = Promise.withResolvers<void>();
  readonly #count = { turns: 0, commands: 0, grants: 0, retriedTurns: 0 };

  constructor(world: World, settings: Settings, plant: Plant | null) {
    this.#world = world;
    this.#settings = settings;
    this.#plant = plant;
    this.#leftovers = new Leftovers(world);
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
    this.#woken = true;
    this.#stir.resolve();
    if (this.#running !== null) return;
    this.#running = this.#loop().finally(() => {
      this.#running = null;
      // Something may have come between the loop's last look and now.
      if (this.#woken && !this.#stopping) this.wake();
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
      ...this.#count,
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
    this.#pauseUntil = null;
    if (this.#isUnsettled) await this.#landAll();
    for (;;) {
      const isHeld = this.#isUnsettled || this.#pauseUntil !== null || this.#stopping;
      if (!isHeld && this.#woken && this.#sky.size < this.#settings.turnsInFlight) {
        this.#woken = false;
        if (this.#sky.size === 0) this.#wakeAt = Number.POSITIVE_INFINITY;
        await this.#takeOff();
      } else if (this.#sky.size === 0 || this.#isUnsettled) break;
      else await this.#stirred();
    }
    const wakeAt = this.#pauseUntil ?? Math.min(this.#wakeAt, this.#now + this.#settings.idleMs);
    if (!this.#stopping) this.#world.idle(wakeAt, this.#now);
  }

  /** Begins a turn and decides it; its commit is left under way. With others in the air it takes only what they do not concern. */
  async #takeOff(): Promise<void> {
    const isAlone = this.#sky.size === 0;
    const { turnBytesMax, claimLinesMax } = this.#settings;
    const gate = isAlone ? null : this.#sky.gate();
    const batch = this.#inbox.take(this.#share(), turnBytesMax, gate === null ? null : (item) => gate.admits(item));
    this.#floor.air = gate === null ? clearAir : this.#sky.air(gate.waiting);
    const claims = wantedClaims(this.#tools, slotsComing(batch.map((item) => item.command)));
    if (!isAlone && batch.length === 0 && claims.length === 0) return;
    if (claims.length >= claimLinesMax) this.#floor.putBehind(claims.map((claim) => claim.line));
    let tx: Tx;
    let mark: number;
    try {
      mark = await this.#routes.open(this.#world.store, isAlone);
      tx = await this.#world.store.begin(this.#want(batch, claims));
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
    if (this.#plant === "ack-before-commit") this.#speak(decided, new Map());
    this.#launch(tx, decided);
    if (this.#settings.turnsInFlight === 1) while (this.#sky.size > 0 && !this.#isUnsettled) await this.#stirred();
  }

  /** How many commands a turn takes: where others may fly beside it, what waits is shared among them, so that deciding overlaps committing. */
  #share(): number {
    const { turnCommandsMax, turnsInFlight } = this.#settings;
    const others = turnsInFlight - this.#sky.size - 1;
    if (others <= 0) return turnCommandsMax;
    return Math.min(turnCommandsMax, Math.max(shareMin, Math.ceil(this.#inbox.size / (others + 1))));
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
    this.#count.retriedTurns++;
    for (const worker of outcome.doubts ?? []) this.#floor.doubted.add(worker);
    const root = outcome.unit === undefined ? null : (flight.groups[outcome.unit] ?? null);
    if (root === null && outcome.doubts === undefined) this.#failedCommits++;
    this.#inbox.putBack(this.#leftovers.failed(flight, root, outcome.fault));
    // Whoever was relied on in vain is looked at first by the next turn.
    return root === null && outcome.doubts === undefined ? this.#pause() : "again";
  }

  #note(next: Next): void {
    if (next === "again" || this.#inbox.size > 0) this.#woken = true;
    if (typeof next === "object") {
      this.#pauseUntil = Math.max(this.#pauseUntil ?? 0, next.pauseUntil);
      this.#woken = false;
    } else if (next !== "again") this.#wakeAt = Math.min(this.#wakeAt, next);
  }

  #want(batch: readonly Waiting[], claims: readonly Claim[]): Parameters<World["store"]["begin"]>[0] {
    const rows: Key[] = [];
    for (const item of batch) {
      if (item.command.type === "run.start") item.run ??= this.#world.ids.next(this.#now);
      for (const key of rowsFor(item.command, item.run)) rows.push(key);
    }
    rows.push(...rowsForTimers(this.#tools, this.#now));
    const skip = [...this.#leftovers.quarantine];
    const lists = batch.flatMap((item) => listsFor(item.command));
    return { rows, claims, lists, due: this.#settings.dueMax, mail: this.#settings.mailMax, skip };
  }

  /** A jump of the store's clock between two turns means that nobody could have renewed a lease meanwhile. */
  #notice(now: Millis): void {
    const away = this.#now === 0 || now - this.#now > this.#settings.idleMs * awayPeriods;
    if (away) this.#backAt = now;
    this.#now = now;
  }

  async #decide(tx: Tx, batch: readonly Waiting[], claims: readonly Claim[]): Promise<Decision> {
    const when = { backAt: this.#backAt, horizon: this.#inbox.oldestWord() };
    const looks = tx.now - this.#lastLook >= this.#settings.idleMs;
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
      if (this.#failedCommits === 0)
        this.#report("E.STORE.UNKNOWN_OUTCOME", `turn ${turn} cannot be settled yet`, { turn }, problem);
      this.#isUnsettled = true;
      this.#failedCommits++;
      this.#note(this.#pause());
      return null;
    }
  }

  /** The turn is on disk (or wrote nothing): now the floor moves and the doors hear of it. */
  #applied(decided: Decided, first: ReadonlyMap<string, number>): void {
    this.#failedCommits = 0;
    this.#trouble = null;
    this.#world.failpoint("turn.committed");
    for (const move of decided.board.moves) {
      this.#floor.apply(move);
      if (move.move === "heat" && this.#sky.size > 0) this.#routes.told(move.line);
    }
    this.#routes.close(decided.mark);
    if (decided.board.now - this.#lastLook >= this.#settings.idleMs) {
      this.#lastLook = decided.board.now;
      // Hints may be lost and heads of lines busy when they were asked for: looking again is what counts.
      this.#floor.heatServed();
      this.#routes.doubt();
    }
    this.#joins.landed(decided.decision.taken);
    this.#count.turns++;
    this.#count.commands += decided.decision.answers.length;
    if (this.#plant !== "ack-before-commit") this.#speak(decided, first);
    this.#inbox.putBack(decided.later);
    this.#world.failpoint("turn.spoken");
  }

  #speak(decided: Decided, first: ReadonlyMap<string, number>): void {
    const effects: Effect[] = [...decided.decision.answers, ...decided.board.effects, ...decided.board.latencies.counted()];
    for (const effect of decided.board.effects) if (effect.type === "dispatch") this.#count.grants++;
    for (const [tenant, facts] of decided.board.factsByTenant()) {
      const from = first.get(tenant);
      effects.push({ type: "log", tenant, head: from === undefined ? null : from + facts - 1 });
    }
    if (effects.length > 0) this.#world.out(effects);
    for (const problem of decided.board.problems) this.#world.report(problem);
  }

  /** The store did not even begin, or not to the end. */
  #storeAway(batch: readonly Waiting[], problem: unknown): Next {
    const error = asFault(problem);
    this.#failedCommits++;
    if (error.code !== this.#trouble) this.#report(error.code, error.message, {}, problem);
    this.#trouble = error.code;
    this.#inbox.putBack(this.#leftovers.away(batch, error));
    return this.#pause();
  }

  /** Longer with every failure in a row, so that a full disk is not asked a thousand times a second. */
  #pause(): Next {
    return { pauseUntil: this.#now + Math.min(this.#settings.idleMs, 2 ** Math.min(this.#failedCommits, 20)) };
  }

  #nextWake({ tx, board, decision, later }: Flight): Next {
    const isStuck = decision.busy.length > 0 && decision.taken.length === 0 && this.#inbox.size === later.length;
    this.#stuckTurns = isStuck ? this.#stuckTurns + 1 : 0;
    // Nothing else waits, and whoever holds the roots needs a moment; asking without a pause would only keep the store busy.
    if (isStuck) return { pauseUntil: tx.now + Math.min(busyPauseMsMax, 2 ** Math.min(this.#stuckTurns, 10) / 2) };
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
