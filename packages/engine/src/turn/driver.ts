// The driver of turns, the engine's only asynchronous file: begin, decide (again where rows were missing), commit, then speak.
// It decides nothing about work, only what happens when something throws, a root is busy, a commit fails or its outcome is unknown.

import { compilePlanInSteps } from "@astraflow/graph";
import { type Fault, fault, type Workflow } from "@astraflow/protocol";
import { Fleet, noPendingChanges } from "../core/fleet/fleet.ts";
import { chooseClaims, slotsFreedBy } from "../core/placement/place.ts";
import { BrokenChangeSet } from "../core/unit-of-work/change-sets.ts";
import type { DecisionContext } from "../core/unit-of-work/decision-context.ts";
import { type CompiledPlan, createDefinitionCaches, TurnPlans } from "../core/unit-of-work/definition-caches.ts";
import { TurnChecks } from "../core/unit-of-work/turn-checks.ts";
import type { UnitOfWork } from "../core/unit-of-work/unit-of-work.ts";
import type { CommandRequest } from "../interface/command.ts";
import type { EngineSettings } from "../interface/settings.ts";
import type { Engine, EngineGauge, World } from "../interface/world.ts";
import type { CommitOutcome, QueueClaim, TurnTransaction } from "../storage/port.ts";
import type { Millis, WorkerId } from "../storage/rows.ts";
import { CommitEffects } from "./commit-effects.ts";
import { Decision } from "./decision.ts";
import { CommandInbox, newWaitingCommand, PendingWorkerJoins, type WaitingCommand } from "./inbox.ts";
import { type DecidedTurn, type PendingTurn, PendingTurns } from "./pending-turns.ts";
import { refusalAnswer, toFault } from "./refusal.ts";
import { RetryAndQuarantine } from "./retry-and-quarantine.ts";
import { RouteRegistry } from "./route-registry.ts";
import { buildTurnRequest, commandsForTurn } from "./turn-request.ts";
import { type NextTurn, TurnSchedule } from "./turn-schedule.ts";

/** Rounds of loading a turn may need; a turn that needs more is a bug, not a big turn. */
const roundsMax = 200;
/** So long turns may follow each other before the thread looks for messages. */
const uninterruptedMsMax = 20;
const noWorkers: ReadonlySet<WorkerId> = new Set();
/** A turn this many idle periods late means the scheduler or its store was away. */
const absenceIdlePeriods = 5;

/** For tests alone: the bugs worth planting. */
export type EngineMutant = "ack-before-commit" | "requeue-forgets-fence";

export function createEngine(world: World, settings: EngineSettings): Engine {
  return new TurnDriver(world, settings, null);
}

export class TurnDriver implements Engine {
  readonly #world: World;
  readonly #settings: EngineSettings;
  readonly #fleet = new Fleet();
  readonly #routes = new RouteRegistry(this.#fleet);
  readonly #inbox = new CommandInbox();
  readonly #joins = new PendingWorkerJoins();
  readonly #mutant: EngineMutant | null;
  #context: DecisionContext;
  #turn = 0;
  #now: Millis = 0;
  #availableSince: Millis = 0;
  /** When everything else that waits for this thread last had its turn, as far as this loop knows. */
  #yieldedAt: Millis = 0;
  #running: Promise<void> | null = null;
  #stopping = false;
  readonly #retries: RetryAndQuarantine;
  readonly #commitEffects: CommitEffects;
  readonly #schedule: TurnSchedule;
  readonly #pendingTurns = new PendingTurns();
  #isFinishingTurns = false;
  /** The outcome of the first turn pending cannot be had from the store yet: nothing begins before it can. */
  #isUnsettled = false;
  /** Resolved when a command arrives or a turn is finished. */
  #activity = Promise.withResolvers<void>();

  constructor(world: World, settings: EngineSettings, mutant: EngineMutant | null) {
    this.#world = world;
    this.#settings = settings;
    this.#mutant = mutant;
    this.#retries = new RetryAndQuarantine(world);
    this.#commitEffects = new CommitEffects(world, this.#fleet, this.#routes, settings);
    this.#schedule = new TurnSchedule(settings.idleMs);
    this.#context = this.#createContext({ replica: "", epoch: 0 });
  }

  #createContext(me: DecisionContext["self"]): DecisionContext {
    const world = this.#world;
    return {
      settings: this.#settings,
      fleet: this.#fleet,
      self: me,
      ...createDefinitionCaches(),
      digest: (text) => world.digest(text),
      random: () => world.random.next(),
      nextId: (now) => world.ids.next(now),
      forgetsFence: this.#mutant === "requeue-forgets-fence",
    };
  }

  async start(me: { replica: string; cluster: string }): Promise<void> {
    const { lastTurn, epoch } = await this.#world.store.open(me);
    this.#turn = lastTurn;
    this.#context = this.#createContext({ replica: me.replica, epoch });
    // Listen before the routes are read, so that no hint is missed meanwhile.
    this.#world.store.onHint((hint) => {
      // News of the log is for readers; only work and mail are a reason for a turn.
      if (hint.type === "log") return;
      if (hint.type === "line") this.#routes.handleQueueHint(hint.line);
      this.wake();
    });
    await this.#routes.loadRoutes(this.#world.store);
    this.wake();
    await this.#running;
  }

  push(items: readonly CommandRequest[]): void {
    for (const item of items) {
      if (this.#stopping)
        this.#refuse(item.ref, fault("E.SHUTTING_DOWN", "the scheduler is shutting down; try another or later"));
      else if (this.#inbox.size >= this.#settings.inboxMax)
        this.#refuse(item.ref, fault("E.OVERLOADED", `${this.#settings.inboxMax} commands wait already; try again later`));
      else this.#accept(item);
    }
    this.wake();
  }

  #accept({ ref, command }: CommandRequest): void {
    const item = newWaitingCommand(ref, command, this.#now);
    this.#joins.commandArrived(item);
    this.#inbox.push(item);
  }

  #refuse(ref: number, problem: Fault): void {
    this.#world.emit([refusalAnswer(ref, problem)]);
  }

  wake(): void {
    this.#schedule.isWoken = true;
    this.#activity.resolve();
    if (this.#running !== null) return;
    this.#running = this.#loop().finally(() => {
      this.#running = null;
      // Something may have arrived between the loop's last check and now.
      if (this.#schedule.isWoken && !this.#stopping) this.wake();
    });
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    this.#activity.resolve();
    while (this.#running !== null) await this.#running;
    await this.#finishTurns();
    const unknown = "the outcome is unknown: the store did not confirm the commit. Check before you repeat it";
    for (const item of this.#pendingTurns.commands()) this.#refuse(item.ref, fault("E.STORE.UNKNOWN_OUTCOME", unknown));
    for (const item of this.#inbox.drainAll())
      this.#refuse(item.ref, fault("E.SHUTTING_DOWN", "the scheduler is shutting down; try another or later"));
  }

  gauge(): EngineGauge {
    return {
      ...this.#commitEffects.counters,
      waiting: this.#inbox.size,
      quarantined: this.#retries.quarantine.size,
      sessions: this.#fleet.workers.size,
      held: this.#fleet.attemptCount,
      saturated: this.#fleet.saturatedByTenant,
      now: this.#now,
    };
  }

  /** Turns follow each other while anything waits; no timer delays one. Where the store allows it, one begins while others commit. */
  async #loop(): Promise<void> {
    this.#yieldedAt = this.#now;
    this.#schedule.resume();
    if (this.#isUnsettled) await this.#finishTurns();
    for (;;) {
      const isHeld = this.#isUnsettled || this.#schedule.isPaused || this.#stopping;
      if (!isHeld && this.#schedule.isWoken && this.#pendingTurns.size < this.#settings.turnsInFlight) {
        this.#schedule.turnStarted(this.#pendingTurns.size === 0);
        await this.#startTurn();
        await this.#yieldAfterManyTurns();
      } else if (this.#pendingTurns.size === 0 || this.#isUnsettled) break;
      else await this.#waitForActivity();
    }
    if (!this.#stopping) this.#world.scheduleWake(this.#schedule.wakeAt(this.#now), this.#now);
  }

  /** Turns of a store that answers at once follow each other without a pause, and nothing would be received meanwhile. */
  async #yieldAfterManyTurns(): Promise<void> {
    if (this.#now - this.#yieldedAt < uninterruptedMsMax) return;
    await this.#world.yieldLoop?.();
    this.#yieldedAt = this.#now;
  }

  /** Begins a turn and decides it; its commit is left under way. With others pending it takes only what they do not concern. */
  async #startTurn(): Promise<void> {
    const isAlone = this.#pendingTurns.size === 0;
    const { turnBytesMax, claimLinesMax } = this.#settings;
    const commandsMax = commandsForTurn(this.#inbox.size, this.#pendingTurns.size, this.#settings);
    const admission = isAlone ? null : this.#pendingTurns.admission();
    const batch = this.#inbox.take(commandsMax, turnBytesMax, admission === null ? null : (item) => admission.admits(item));
    this.#fleet.pendingChanges =
      admission === null ? noPendingChanges : this.#pendingTurns.pendingChanges(admission.waitingWorkers);
    const claims = chooseClaims(this.#context, slotsFreedBy(batch.map((item) => item.command)));
    if (!isAlone && batch.length === 0 && claims.length === 0) return;
    if (claims.length >= claimLinesMax) this.#fleet.moveToBack(claims.map((claim) => claim.line));
    let tx: TurnTransaction;
    let routeVersion: number;
    try {
      routeVersion = await this.#routes.beginTurn(this.#world.store, isAlone);
      const skip = this.#retries.quarantine;
      tx = await this.#world.store.begin(buildTurnRequest(this.#context, batch, claims, { now: this.#now, skip }));
    } catch (problem) {
      return this.#planNext(this.#handleStoreOutage(batch, problem));
    }
    this.#detectAbsence(tx.now);
    this.#world.failpoint("turn.begun");
    let decision: Decision;
    try {
      decision = await this.#decide(tx, batch, claims);
    } catch (problem) {
      // The store failed in the middle of the turn: nothing is written, all of it is tried again.
      await tx.abort().catch((cause: unknown) => this.#report("E.STORE.BUSY", "a turn could not be given up", {}, cause));
      return this.#planNext(this.#handleStoreOutage(batch, problem));
    }
    const decided = { decision, work: decision.work, routeVersion, deferred: this.#retries.deferUndecided(decision) };
    this.#world.failpoint("turn.decided");
    if (this.#mutant === "ack-before-commit") this.#commitEffects.publish(decided, new Map());
    this.#commitTurn(tx, decided);
    if (this.#settings.turnsInFlight === 1)
      while (this.#pendingTurns.size > 0 && !this.#isUnsettled) await this.#waitForActivity();
  }

  async #waitForActivity(): Promise<void> {
    await this.#activity.promise;
    this.#activity = Promise.withResolvers();
  }

  #commitTurn(tx: TurnTransaction, decided: DecidedTurn): void {
    const changes = this.#buildChangeSets(decided);
    const isEmpty = changes.units.length === 0 && tx.mail.length === 0;
    // Never reuse a turn number: a commit reported as failed may still be found committed.
    if (!isEmpty) this.#turn++;
    const { units: changeSets, roots: changeSetRoots } = changes;
    const pendingTurn: PendingTurn = { ...decided, turn: this.#turn, tx, changeSets, changeSetRoots, outcome: null };
    this.#pendingTurns.add(pendingTurn);
    const commit: Promise<CommitOutcome> =
      changes.broken !== null || isEmpty
        ? tx.abort().then(() => changes.broken ?? { outcome: "committed", first: new Map() })
        : tx.commit(pendingTurn.turn, changes.units);
    void commit
      .catch((problem: unknown): CommitOutcome => ({ outcome: "failed", fault: toFault(problem) }))
      .then(async (outcome) => {
        pendingTurn.outcome = outcome;
        await this.#finishTurns();
        this.#activity.resolve();
      });
  }

  /** A change set that breaks an invariant is treated like one that the store refused: its commands are tried alone, then quarantined. */
  #buildChangeSets({ work }: DecidedTurn): ReturnType<UnitOfWork["changeSets"]> & { broken: CommitOutcome | null } {
    try {
      return { ...work.changeSets(), broken: null };
    } catch (problem) {
      if (!(problem instanceof BrokenChangeSet)) throw problem;
      return { units: [], roots: [problem.root], broken: { outcome: "failed", unit: 0, fault: toFault(problem) } };
    }
  }

  /** Finishes turns in the order they were started, as far as their outcomes are known. */
  async #finishTurns(): Promise<void> {
    if (this.#isFinishingTurns) return;
    this.#isFinishingTurns = true;
    this.#isUnsettled = false;
    for (let pendingTurn = this.#pendingTurns.first; pendingTurn?.outcome; pendingTurn = this.#pendingTurns.first) {
      const outcome = pendingTurn.outcome.outcome === "unknown" ? await this.#settleOutcome(pendingTurn) : pendingTurn.outcome;
      if (outcome === null) break;
      this.#pendingTurns.removeFirst();
      this.#fleet.pendingChanges = this.#pendingTurns.pendingChanges(noWorkers);
      this.#planNext(this.#finishTurn(pendingTurn, outcome));
    }
    this.#isFinishingTurns = false;
  }

  #finishTurn(pendingTurn: PendingTurn, outcome: Exclude<CommitOutcome, { outcome: "unknown" }>): NextTurn {
    if (outcome.outcome === "committed") {
      this.#applyCommitted(pendingTurn, outcome.first);
      return this.#nextWake(pendingTurn);
    }
    this.#commitEffects.counters.retriedTurns++;
    for (const worker of outcome.changedWorkers ?? []) this.#fleet.unverifiedWorkers.add(worker);
    const root = outcome.unit === undefined ? null : (pendingTurn.changeSetRoots[outcome.unit] ?? null);
    this.#inbox.putBack(this.#retries.retryAfterFailedCommit(pendingTurn, root, outcome.fault));
    // The next turn first verifies the workers that were not as expected.
    return root === null && outcome.changedWorkers === undefined ? this.#schedule.backOffAfterFailure(this.#now) : "again";
  }

  #planNext(next: NextTurn): void {
    this.#schedule.planNext(next, this.#inbox.size > 0);
  }

  /** A jump of the store's clock between two turns means that no lease could have been renewed meanwhile. */
  #detectAbsence(now: Millis): void {
    const away = this.#now === 0 || now - this.#now > this.#settings.idleMs * absenceIdlePeriods;
    if (away) this.#availableSince = now;
    this.#now = now;
  }

  async #decide(tx: TurnTransaction, batch: readonly WaitingCommand[], claims: readonly QueueClaim[]): Promise<Decision> {
    const { quarantine } = this.#retries;
    const expiryLimits = { availableSince: this.#availableSince, reportsAppliedUntil: this.#inbox.oldestWorkerCommandAt() };
    const isFullCheck = this.#commitEffects.isFullCheckDue(tx.now);
    const turnPlans = new TurnPlans();
    const turnChecks = new TurnChecks();
    for (let round = 1; ; round++) {
      const decision = new Decision(this.#context, {
        tx,
        batch,
        claims,
        expiryLimits,
        isFullCheck,
        quarantine,
        turnPlans,
        turnChecks,
      });
      if (decision.isComplete) return decision;
      for (const [workflow, body] of decision.missing.plans) turnPlans.add(workflow, await this.#compilePlan(workflow, body));
      for (const _ of turnChecks.completeMissing()) await this.#world.yieldLoop?.();
      const rows = [...decision.missing.rows];
      if (round >= roundsMax) throw new Error(`a turn asked for rows ${roundsMax} times: ${rows.join(", ")}`);
      await tx.loadMore(rows, [...decision.missing.lists.values()], [...decision.missing.peekedWorkers]);
    }
  }

  /** A large definition, in steps: what arrives meanwhile is received, and shown to wait, although the turn goes on. */
  async #compilePlan(workflow: string, body: string): Promise<CompiledPlan> {
    const steps = compilePlanInSteps(JSON.parse(body) as Workflow);
    for (let step = steps.next(); ; step = steps.next()) {
      if (step.done !== true) {
        await this.#world.yieldLoop?.();
        continue;
      }
      const compiled: CompiledPlan = { plan: step.value, routes: new Map(), chars: body.length };
      this.#context.plans.set(workflow, compiled);
      return compiled;
    }
  }

  /** Nothing is emitted or retried before the store knows the outcome of the turn; until then no other turn begins. */
  async #settleOutcome({ turn }: PendingTurn): Promise<Exclude<CommitOutcome, { outcome: "unknown" }> | null> {
    try {
      const verdict = await this.#world.store.settle(turn);
      return verdict === "committed"
        ? { outcome: "committed", first: new Map() }
        : { outcome: "failed", fault: fault("E.STORE.BUSY", "the commit did not arrive") };
    } catch (problem) {
      if (!this.#schedule.isFailing)
        this.#report("E.STORE.UNKNOWN_OUTCOME", `turn ${turn} cannot be settled yet`, { turn }, problem);
      this.#isUnsettled = true;
      this.#planNext(this.#schedule.backOffAfterFailure(this.#now));
      return null;
    }
  }

  /** The turn is stored (or wrote nothing): update the fleet, then emit its effects. */
  #applyCommitted(decided: DecidedTurn, first: ReadonlyMap<string, number>): void {
    this.#schedule.turnCommitted();
    this.#world.failpoint("turn.committed");
    this.#commitEffects.applyToFleet(decided, this.#pendingTurns.size === 0);
    this.#joins.turnCommitted(decided.decision.decided);
    if (this.#mutant !== "ack-before-commit") this.#commitEffects.publish(decided, first);
    this.#inbox.putBack(decided.deferred);
    this.#world.failpoint("turn.spoken");
  }

  /** The store did not even begin, or not to the end. */
  #handleStoreOutage(batch: readonly WaitingCommand[], problem: unknown): NextTurn {
    const error = toFault(problem);
    if (this.#schedule.isNewOutage(error.code)) this.#report(error.code, error.message, {}, problem);
    this.#inbox.putBack(this.#retries.retryAfterOutage(batch, error));
    return this.#schedule.backOffAfterFailure(this.#now);
  }

  #nextWake({ tx, work, decision, deferred }: PendingTurn): NextTurn {
    const isStuck = decision.busyCommands.length > 0 && decision.decided.length === 0 && this.#inbox.size === deferred.length;
    // Nothing else waits, and the holder of the roots needs a moment; retrying without a pause would only load the store.
    const pause = this.#schedule.backOffIfBusy(isStuck, tx.now);
    if (pause !== null) return pause;
    if (deferred.length > 0) return "again";
    if (this.#fleet.activeQueues.size > 0 && chooseClaims(this.#context, new Map()).length > 0) return "again";
    const { idleMs, ackDeadlineMs, recheckMs } = this.#settings;
    let wakeAt = tx.now + idleMs;
    for (const at of [tx.nextDue, work.earliestDue(), this.#fleet.nextDeadline(tx.now, ackDeadlineMs, recheckMs)])
      if (at !== null) wakeAt = Math.min(wakeAt, at);
    return wakeAt <= tx.now ? (tx.due.length > 0 || work.earliestDue() !== null ? "again" : tx.now + 1) : wakeAt;
  }

  #report(code: string, message: string, details: Readonly<Record<string, unknown>>, cause: unknown): void {
    this.#world.reportProblem({ code, message, details, cause });
  }
}
