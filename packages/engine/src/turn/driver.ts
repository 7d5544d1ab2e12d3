// The driver of turns, the engine's only asynchronous file: begin, decide (again where rows were missing), commit, then speak.
// It decides nothing about work; it decides what happens when a unit throws, a root is busy, a commit fails or its outcome is unknown.

import { type Fault, fault } from "@astraflow/protocol";
import type { Inbound } from "../command.ts";
import type { Board } from "../core/board.ts";
import { rowsFor } from "../core/decide.ts";
import { Floor } from "../core/floor.ts";
import { slotsComing, wantedClaims } from "../core/place.ts";
import { Plans, type Tools } from "../core/tools.ts";
import type { Answer, Effect } from "../effect.ts";
import type { Claim, Tx } from "../port.ts";
import type { Key, Millis } from "../rows.ts";
import type { Engine, EngineGauge, Settings, World } from "../world.ts";
import { Decision } from "./decision.ts";
import { bytesOf, Inbox, type Waiting } from "./inbox.ts";
import { asFault, refusal } from "./refusal.ts";
import { RouteBook } from "./route-book.ts";

/** Rounds of `more` a turn may need; a turn that asks for more is a bug, not a big turn. */
const roundsMax = 200;
/** A command that met only busy roots or failed commits this often is answered E.STORE.BUSY. */
const triesMax = 10;
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

interface Decided {
  readonly decision: Decision;
  readonly board: Board;
  /** Commands left for another turn. */
  readonly later: readonly Waiting[];
}

export class Driver implements Engine {
  readonly #world: World;
  readonly #settings: Settings;
  readonly #floor = new Floor();
  readonly #routes = new RouteBook(this.#floor);
  readonly #inbox = new Inbox();
  readonly #plant: Plant | null;
  #tools: Tools;
  #turn = 0;
  #now: Millis = 0;
  #lastLook: Millis = 0;
  #graceUntil: Millis = 0;
  #running: Promise<void> | null = null;
  #woken = false;
  #stopping = false;
  /** Roots whose timers threw: once = suspected, twice = left alone until a restart. */
  readonly #suspects = new Map<Key, number>();
  readonly #quarantine = new Set<Key>();
  #failedCommits = 0;
  #unsettled: { readonly turn: number; readonly decided: Decided; readonly tx: Tx } | null = null;
  readonly #count = { turns: 0, commands: 0, grants: 0, retriedTurns: 0 };

  constructor(world: World, settings: Settings, plant: Plant | null) {
    this.#world = world;
    this.#settings = settings;
    this.#plant = plant;
    this.#tools = this.#makeTools("");
  }

  #makeTools(replica: string): Tools {
    const world = this.#world;
    return {
      settings: this.#settings,
      floor: this.#floor,
      replica,
      plans: new Plans((text) => world.digest(text), plansMax),
      roll: () => world.dice.roll(),
      nextId: (now) => world.ids.next(now),
      forgetsFence: this.#plant === "requeue-forgets-fence",
    };
  }

  async start(me: { replica: string; cluster: string }): Promise<void> {
    const { lastTurn } = await this.#world.store.open(me);
    this.#turn = lastTurn;
    this.#tools = this.#makeTools(me.replica);
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
      else
        this.#inbox.push({
          ref: item.ref,
          command: item.command,
          bytes: bytesOf(item),
          at: this.#now,
          run: null,
          tries: 0,
          solo: false,
        });
    }
    this.wake();
  }

  #refuse(ref: number, problem: Fault): void {
    this.#world.out([refusal(ref, problem)]);
  }

  wake(): void {
    this.#woken = true;
    if (this.#running !== null) return;
    this.#running = this.#loop().finally(() => {
      this.#running = null;
      // Something may have come between the loop's last look and now.
      if (this.#woken && !this.#stopping) this.wake();
    });
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    while (this.#running !== null) await this.#running;
    const open = this.#unsettled;
    if (open !== null) await this.#settle(open.turn, open.decided, open.tx);
    if (this.#unsettled !== null)
      for (const item of [...this.#unsettled.decided.decision.taken, ...this.#unsettled.decided.later])
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
      quarantined: this.#quarantine.size,
      sessions: this.#floor.seats.size,
      held: this.#floor.held,
      now: this.#now,
    };
  }

  /** Turns follow each other while anything waits; no timer delays one. */
  async #loop(): Promise<void> {
    let wakeAt = this.#now;
    while (this.#woken && !this.#stopping) {
      this.#woken = false;
      const next = await this.#oneTurn();
      if (typeof next === "object") {
        wakeAt = next.pauseUntil;
        break;
      }
      if (next === "again" || this.#inbox.size > 0) this.#woken = true;
      else wakeAt = next;
    }
    if (!this.#stopping) this.#world.idle(wakeAt, this.#now);
  }

  async #oneTurn(): Promise<Next> {
    if (this.#unsettled !== null) return await this.#settle(this.#unsettled.turn, this.#unsettled.decided, this.#unsettled.tx);
    const batch = this.#inbox.take(this.#settings.turnCommandsMax, this.#settings.turnBytesMax);
    const claims = wantedClaims(this.#tools, slotsComing(batch.map((item) => item.command)));
    if (claims.length >= this.#settings.claimLinesMax) this.#floor.putBehind(claims.map((claim) => claim.line));
    let tx: Tx;
    try {
      await this.#routes.open(this.#world.store);
      tx = await this.#world.store.begin(this.#want(batch, claims));
    } catch (problem) {
      return this.#storeAway(batch, problem);
    }
    this.#notice(tx.now);
    this.#world.failpoint("turn.begun");
    let decision: Decision;
    try {
      decision = await this.#decide(tx, batch, claims);
    } catch (problem) {
      // The store went away in the middle of the turn: nothing is written, all of it comes again.
      await tx.abort().catch((cause: unknown) => this.#report("E.STORE.BUSY", "a turn could not be given up", {}, cause));
      return this.#storeAway(batch, problem);
    }
    const decided = { decision, board: decision.board, later: this.#setAside(decision) };
    this.#world.failpoint("turn.decided");
    if (this.#plant === "ack-before-commit") this.#speak(decided, new Map());
    return await this.#commit(tx, decided);
  }

  #want(batch: readonly Waiting[], claims: readonly Claim[]): Parameters<World["store"]["begin"]>[0] {
    const rows: Key[] = [];
    for (const item of batch) {
      if (item.command.type === "run.start") item.run ??= this.#world.ids.next(this.#now);
      for (const key of rowsFor(item.command, item.run)) rows.push(key);
    }
    const skip = this.#quarantine.size === 0 ? [] : [...this.#quarantine];
    return { rows, claims, lists: [], due: this.#settings.dueMax, mail: this.#settings.mailMax, skip };
  }

  /** A jump of the store's clock between two turns means that nobody could have renewed a lease meanwhile. */
  #notice(now: Millis): void {
    const away = this.#now === 0 || now - this.#now > this.#settings.idleMs * awayPeriods;
    if (away) this.#graceUntil = now + this.#settings.leaseMs;
    this.#now = now;
  }

  async #decide(tx: Tx, batch: readonly Waiting[], claims: readonly Claim[]): Promise<Decision> {
    const when = { graceUntil: this.#graceUntil, horizon: this.#inbox.oldestWord() };
    const looks = tx.now - this.#lastLook >= this.#settings.idleMs;
    for (let round = 1; ; round++) {
      const decision = new Decision(this.#tools, { tx, batch, claims, when, looks, quarantine: this.#quarantine });
      if (decision.isComplete) return decision;
      const rows = [...decision.missing.rows];
      if (round >= roundsMax) throw new Error(`a turn asked for rows ${roundsMax} times: ${rows.join(", ")}`);
      await tx.more(rows, [...decision.missing.lists.values()]);
    }
  }

  /** What becomes of the commands and timers that could not be decided; the others go on. Returns the commands for another turn. */
  #setAside(decision: Decision): Waiting[] {
    const later: Waiting[] = [];
    for (const { root, problem } of decision.failing) this.#blame(root, problem);
    // A busy root: the command waits for the next turn, and no turn ever waits for another.
    for (const { item, root } of decision.busy)
      if (++item.tries < triesMax * 100) later.push(item);
      else decision.answer(item, refusal(item.ref, fault("E.STORE.BUSY", `${root} stayed busy; try again`)));
    for (const { item, problem } of decision.poisoned) {
      const { type, tenant } = item.command;
      if (!item.solo) {
        item.solo = true;
        later.push(item);
        continue;
      }
      this.#report("E.UNIT.QUARANTINED", `command ${type} cannot be decided`, { type, tenant }, problem);
      decision.answer(
        item,
        refusal(item.ref, fault("E.UNIT.QUARANTINED", `${type} could not be decided and was set aside; nothing was changed`)),
      );
    }
    return later;
  }

  /** A row whose timer cannot be decided is tried once more, then left alone, so that it never holds up the others. */
  #blame(root: Key, problem: unknown): void {
    const times = (this.#suspects.get(root) ?? 0) + 1;
    this.#suspects.set(root, times);
    if (times < 2) return;
    if (!this.#quarantine.has(root))
      this.#report("E.UNIT.QUARANTINED", `${root} cannot be decided and is left alone until a restart`, { root }, problem);
    this.#quarantine.add(root);
  }

  async #commit(tx: Tx, decided: Decided): Promise<Next> {
    const { units, roots } = decided.board.units();
    if (units.length === 0) {
      await tx.abort();
      this.#applied(decided, new Map());
      return this.#nextWake(tx, decided);
    }
    const turn = this.#turn + 1;
    const outcome = await tx
      .commit(turn, units)
      .catch((problem: unknown) => ({ outcome: "failed" as const, fault: asFault(problem), unit: undefined }));
    if (outcome.outcome === "committed") {
      this.#turn = turn;
      this.#applied(decided, outcome.first);
      return this.#nextWake(tx, decided);
    }
    if (outcome.outcome === "unknown") return await this.#settle(turn, decided, tx);
    this.#count.retriedTurns++;
    this.#failed(decided, outcome.unit === undefined ? null : (roots[outcome.unit] ?? null), outcome.fault);
    return outcome.unit === undefined ? this.#pause() : "again";
  }

  /** Nothing is said or tried again before the store knows what became of the turn; while it cannot say, no other turn begins. */
  async #settle(turn: number, decided: Decided, tx: Tx): Promise<Next> {
    let verdict: "committed" | "absent";
    try {
      verdict = await this.#world.store.settle(turn);
    } catch (problem) {
      if (this.#unsettled === null)
        this.#report("E.STORE.UNKNOWN_OUTCOME", `turn ${turn} cannot be settled yet`, { turn }, problem);
      this.#unsettled = { turn, decided, tx };
      this.#failedCommits++;
      return this.#pause();
    }
    this.#unsettled = null;
    if (verdict === "absent") {
      this.#failed(decided, null, fault("E.STORE.BUSY", "the commit did not arrive"));
      return this.#pause();
    }
    this.#turn = turn;
    this.#applied(decided, new Map());
    return this.#nextWake(tx, decided);
  }

  /** The turn is on disk (or wrote nothing): now the floor moves and the doors hear of it. */
  #applied(decided: Decided, first: ReadonlyMap<string, number>): void {
    this.#failedCommits = 0;
    this.#world.failpoint("turn.committed");
    for (const move of decided.board.moves) this.#floor.apply(move);
    this.#routes.close();
    if (decided.board.now - this.#lastLook >= this.#settings.idleMs) {
      this.#lastLook = decided.board.now;
      // Hints may be lost and heads of lines busy when they were asked for: looking again is what counts.
      this.#floor.heatServed();
    }
    this.#count.turns++;
    this.#count.commands += decided.decision.answers.length;
    if (this.#plant !== "ack-before-commit") this.#speak(decided, first);
    this.#inbox.putBack(decided.later);
    this.#world.failpoint("turn.spoken");
  }

  #speak(decided: Decided, first: ReadonlyMap<string, number>): void {
    const effects: Effect[] = [...decided.decision.answers, ...decided.board.effects, ...decided.board.latencies()];
    for (const effect of decided.board.effects) if (effect.type === "dispatch") this.#count.grants++;
    for (const [tenant, facts] of decided.board.factsByTenant()) {
      const from = first.get(tenant);
      effects.push({ type: "log", tenant, head: from === undefined ? null : from + facts - 1 });
    }
    if (effects.length > 0) this.#world.out(effects);
  }

  /** Nothing was written. A named unit is tried alone; the others go again at once. */
  #failed(decided: Decided, root: Key | null, problem: Fault): void {
    if (root === null) this.#failedCommits++;
    const blamed = new Set(
      decided.decision.wrote.filter((one) => root !== null && decided.board.unitOf(one.root) === root).map((one) => one.item),
    );
    // Timers and grants that share a unit with a command come after it; the command is suspected first.
    if (root !== null && ![...blamed].some((item) => item !== null)) this.#blame(root, problem);
    const again: Waiting[] = [];
    const refused: Answer[] = [];
    for (const item of [...decided.decision.taken, ...decided.later]) {
      item.tries++;
      if (blamed.has(item) && item.solo) {
        this.#report(problem.code, problem.message, { type: item.command.type }, problem);
        refused.push(
          refusal(
            item.ref,
            fault("E.UNIT.QUARANTINED", `${item.command.type} was refused by the store and set aside; nothing was changed`),
          ),
        );
      } else if (item.tries >= triesMax && root === null)
        refused.push(refusal(item.ref, fault("E.STORE.BUSY", `the store did not take it: ${problem.message}; try again`)));
      else {
        if (blamed.has(item)) item.solo = true;
        again.push(item);
      }
    }
    this.#inbox.putBack(again);
    if (refused.length > 0) this.#world.out(refused);
  }

  /** The store did not even begin: the commands wait a little, then their callers hear of it. */
  #storeAway(batch: readonly Waiting[], problem: unknown): Next {
    this.#failedCommits++;
    const error = asFault(problem);
    const again = batch.filter((item) => ++item.tries < triesMax);
    const refused = batch.filter((item) => item.tries >= triesMax);
    this.#inbox.putBack(again);
    if (refused.length > 0)
      this.#world.out(
        refused.map((item) => refusal(item.ref, fault("E.STORE.BUSY", `the store is away: ${error.message}; try again`))),
      );
    if (this.#failedCommits === 1) this.#report(error.code, error.message, {}, problem);
    return this.#pause();
  }

  /** Longer with every failure in a row, so that a full disk is not asked a thousand times a second. */
  #pause(): Next {
    return { pauseUntil: this.#now + Math.min(this.#settings.idleMs, 2 ** Math.min(this.#failedCommits, 20)) };
  }

  #nextWake(tx: Tx, decided: Decided): Millis | "again" {
    if (decided.later.length > 0 || this.#moreToPlace()) return "again";
    let wakeAt = tx.now + this.#settings.idleMs;
    for (const at of [tx.nextDue, decided.board.earliestDue(), this.#floor.nextDeadline(this.#settings.ackDeadlineMs)])
      if (at !== null) wakeAt = Math.min(wakeAt, at);
    return wakeAt <= tx.now ? (tx.due.length > 0 || decided.board.earliestDue() !== null ? "again" : tx.now + 1) : wakeAt;
  }

  #moreToPlace(): boolean {
    return this.#floor.hot.size > 0 && wantedClaims(this.#tools, new Map()).length > 0;
  }

  #report(code: string, message: string, details: Readonly<Record<string, unknown>>, cause: unknown): void {
    this.#world.report({ code, message, details, cause });
  }
}
