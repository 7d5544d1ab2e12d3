// One round of deciding every command and timer, each after its own savepoint. A round that lacked rows is repeated from the start.

import { Fault, fault } from "@astraflow/protocol";
import { decide } from "../core/decide.ts";
import { liftExpiredLimits } from "../core/delivery/waiting-attempts.ts";
import { handleMail } from "../core/delivery/worker-mail.ts";
import { placeTasks } from "../core/placement/place.ts";
import {
  doubtSilentAttempts,
  type ExpiryLimits,
  expireDueRows,
  expireUnackedGrants,
  recheckAttempts,
  storeAcks,
  updateSessionLiveness,
} from "../core/timers.ts";
import type { DecisionContext } from "../core/unit-of-work/decision-context.ts";
import type { TurnPlans } from "../core/unit-of-work/definition-caches.ts";
import { PlanMissing, RootBusy, type RootRef, RowsMissing, rootKey } from "../core/unit-of-work/root.ts";
import type { TurnChecks } from "../core/unit-of-work/turn-checks.ts";
import { UnitOfWork } from "../core/unit-of-work/unit-of-work.ts";
import { updateSaturation } from "../core/workers/saturation.ts";
import type { CommandAnswer } from "../interface/effect.ts";
import type { QueueClaim, TaskListQuery, TurnTransaction } from "../storage/port.ts";
import type { RowKey, WorkerId } from "../storage/rows.ts";
import type { WaitingCommand } from "./inbox.ts";
import { refusalAnswer } from "./refusal.ts";

export interface DecisionRound {
  readonly tx: TurnTransaction;
  readonly batch: readonly WaitingCommand[];
  readonly claims: readonly QueueClaim[];
  readonly expiryLimits: ExpiryLimits;
  /** Whether it is time to check how alive the sessions are. */
  readonly isFullCheck: boolean;
  readonly quarantine: ReadonlySet<RowKey>;
  readonly turnPlans: TurnPlans;
  readonly turnChecks: TurnChecks;
}

export class Decision {
  readonly work: UnitOfWork;
  /** Commands that are part of this turn, and the answer each gets after the commit, at the same place. */
  readonly decided: WaitingCommand[] = [];
  readonly answers: CommandAnswer[] = [];
  /** Which change set (by a root of it) each command or timer wrote to. */
  readonly writers: { readonly root: RootRef; readonly item: WaitingCommand | null }[] = [];
  /** Rows that must be loaded before the round can be repeated. */
  readonly missing = {
    rows: new Set<RowKey>(),
    lists: new Map<string, TaskListQuery>(),
    peekedWorkers: new Set<WorkerId>(),
    /** Definitions that must be compiled, by workflow. */
    plans: new Map<string, string>(),
  };
  /** Commands whose root another turn has locked. */
  readonly busyCommands: { readonly item: WaitingCommand; readonly root: RowKey }[] = [];
  /** Commands of tenants whose checks have taken their share of the turn. */
  readonly postponedCommands: WaitingCommand[] = [];
  /** Commands and timers that threw. */
  readonly failedCommands: { readonly item: WaitingCommand; readonly problem: unknown }[] = [];
  readonly failedTimers: { readonly root: RowKey; readonly problem: unknown }[] = [];
  readonly #quarantine: ReadonlySet<RowKey>;

  constructor(context: DecisionContext, round: DecisionRound) {
    const { tx, expiryLimits: limits } = round;
    this.work = new UnitOfWork(tx, context, round.turnPlans, round.turnChecks);
    this.#quarantine = round.quarantine;
    const { turnChecks } = round;
    turnChecks.beginRound();
    for (const item of round.batch)
      if (turnChecks.isSpent(item.command.tenant)) this.postponedCommands.push(item);
      else this.#decideCommand(item);
    const attempt = (root: RootRef, work: () => void) => this.#isolate(root, work);
    for (const mail of tx.mail) attempt(`mail/${mail.id}` as RowKey, () => handleMail(this.work, mail));
    expireUnackedGrants(this.work, limits, attempt);
    storeAcks(this.work, attempt);
    recheckAttempts(this.work, attempt);
    if (round.isFullCheck) {
      updateSessionLiveness(this.work, attempt);
      updateSaturation(this.work, attempt);
      liftExpiredLimits(this.work);
      doubtSilentAttempts(this.work);
    }
    expireDueRows(this.work, tx.due, limits, attempt);
    placeTasks(this.work, tx.claimed, round.claims, attempt);
  }

  get isComplete(): boolean {
    const { rows, lists, peekedWorkers, plans } = this.missing;
    return rows.size + lists.size + peekedWorkers.size + plans.size === 0 && this.work.checks.isComplete;
  }

  answer(item: WaitingCommand, answer: CommandAnswer): void {
    this.decided.push(item);
    this.answers.push(answer);
  }

  #decideCommand(item: WaitingCommand): void {
    if (item.isSessionGone) {
      const gone = fault("E.SESSION.UNKNOWN", "this session ended before its join was decided; handshake again");
      return this.answer(item, refusalAnswer(item.ref, gone));
    }
    const savepoint = this.work.savepoint();
    try {
      const answer = decide(this.work, item.command, item.newRunId);
      const { ref } = item;
      this.answer(
        item,
        answer instanceof Fault ? refusalAnswer(ref, answer) : { type: "answer", ref, body: answer, fault: null },
      );
      const root = this.work.touchedRoot;
      if (root !== null) this.writers.push({ root, item });
    } catch (problem) {
      this.work.rollbackTo(savepoint);
      if (this.#isMissing(problem)) return;
      if (problem instanceof RootBusy) this.busyCommands.push({ item, root: problem.root });
      else this.failedCommands.push({ item, problem });
    }
  }

  #isolate(root: RootRef, work: () => void): void {
    if (this.#quarantine.size > 0 && this.#quarantine.has(rootKey(root))) return;
    const savepoint = this.work.savepoint();
    try {
      work();
      const touched = this.work.touchedRoot;
      if (touched !== null) this.writers.push({ root: touched, item: null });
    } catch (problem) {
      this.work.rollbackTo(savepoint);
      // A timer whose root is busy is due again in the next turn.
      if (!this.#isMissing(problem) && !(problem instanceof RootBusy)) this.failedTimers.push({ root: rootKey(root), problem });
    }
  }

  /** True, and noted, if something has to be loaded or compiled first. */
  #isMissing(problem: unknown): boolean {
    if (problem instanceof RowsMissing) this.#addMissing(problem);
    else if (problem instanceof PlanMissing) this.missing.plans.set(problem.workflow, problem.body);
    else return false;
    return true;
  }

  #addMissing(problem: RowsMissing): void {
    for (const key of problem.rows) this.missing.rows.add(key);
    for (const worker of problem.peekedWorkers) this.missing.peekedWorkers.add(worker);
    for (const list of problem.lists) this.missing.lists.set(JSON.stringify(list), list);
  }
}
