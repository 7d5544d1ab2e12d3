// Turns whose commits are under way: commands on the same roots, or about a worker they concern, wait for them. Turns finish in the order
// they were started, so the fleet and the doors see the same as with one turn at a time.

import { rowsNeededBy } from "../core/decide.ts";
import type { LeasedAttempt } from "../core/fleet/connected-worker.ts";
import { type FleetChange, noPendingChanges, type PendingChanges } from "../core/fleet/fleet.ts";
import type { UnitOfWork } from "../core/unit-of-work/unit-of-work.ts";
import type { ChangeSet, CommitOutcome, TurnTransaction } from "../storage/port.ts";
import { type RowKey, rootOf, type WorkerId } from "../storage/rows.ts";
import type { Decision } from "./decision.ts";
import type { WaitingCommand } from "./inbox.ts";

export interface DecidedTurn {
  readonly decision: Decision;
  readonly work: UnitOfWork;
  /** Which queue activity this turn could know of. */
  readonly routeVersion: number;
  /** Commands left for another turn. */
  readonly deferred: readonly WaitingCommand[];
}

export interface PendingTurn extends DecidedTurn {
  readonly turn: number;
  readonly tx: TurnTransaction;
  readonly changeSets: readonly ChangeSet[];
  /** One root of each change set, at the same index. */
  readonly changeSetRoots: readonly RowKey[];
  /** The outcome of its commit; null while it is unknown. */
  outcome: CommitOutcome | null;
}

export class PendingTurns {
  readonly #turns: PendingTurn[] = [];
  /** Computed on demand since the last change; not needed with one turn at a time. */
  #scope: PendingScope | null = null;

  get size(): number {
    return this.#turns.length;
  }

  /** The first that must land. */
  get first(): PendingTurn | undefined {
    return this.#turns[0];
  }

  add(pendingTurn: PendingTurn): void {
    this.#turns.push(pendingTurn);
    this.#scope = null;
  }

  removeFirst(): void {
    this.#turns.shift();
    this.#scope = null;
  }

  /** What the fleet must know of these turns; `waiting`: workers whose own commands wait for them to finish. */
  pendingChanges(waiting: ReadonlySet<WorkerId>): PendingChanges {
    if (this.#turns.length === 0) return noPendingChanges;
    const { unsettledWorkers: unsettled, concernedWorkers, grantedAttempts } = this.#pendingScope();
    const unsettledWorkers = waiting.size === 0 ? unsettled : new Set([...unsettled, ...waiting]);
    return { unsettledWorkers, concernedWorkers, grantedAttempts };
  }

  /** Decides command by command, in their order, which may be taken now. */
  admission(): CommandAdmission {
    return new CommandAdmission(this.#pendingScope());
  }

  commands(): WaitingCommand[] {
    return this.#turns.flatMap(({ decision, deferred }) => [...decision.decided, ...deferred]);
  }

  #pendingScope(): PendingScope {
    return (this.#scope ??= pendingScopeOf(this.#turns));
  }
}

/** What the turns pending decided about. */
interface PendingScope extends PendingChanges {
  readonly roots: ReadonlySet<RowKey>;
}

function pendingScopeOf(pendingTurns: readonly PendingTurn[]): PendingScope {
  const roots = new Set<RowKey>();
  const unsettledWorkers = new Set<WorkerId>();
  const concernedWorkers = new Set<WorkerId>();
  const grantedAttempts = new Map<WorkerId, LeasedAttempt[]>();
  for (const { decision, work, deferred, changeSets } of pendingTurns) {
    for (const items of [decision.decided, deferred])
      for (const item of items) for (const root of rootsOfCommand(item)) roots.add(root);
    for (const unit of changeSets) for (const root of unit.roots) roots.add(root);
    for (const change of work.fleetChanges) {
      const worker = workerOfChange(change);
      if (worker === null) continue;
      concernedWorkers.add(worker);
      if (change.type === "grant") {
        const list = grantedAttempts.get(worker);
        if (list === undefined) grantedAttempts.set(worker, [change.attempt]);
        else list.push(change.attempt);
      } else if (!keepsWorkerReady(change)) unsettledWorkers.add(worker);
    }
  }
  return { roots, unsettledWorkers, concernedWorkers, grantedAttempts };
}

/** Changes after which the worker can take as much work as before. */
function keepsWorkerReady(one: FleetChange): boolean {
  // An attempt that goes on after waiting takes its slot back; one that begins to wait frees it.
  if (one.type === "wait") return one.isWaiting;
  // One that waited and cannot be stopped takes a slot from now on.
  if (one.type === "release") return one.unstoppedUntil === undefined || one.wasWaiting !== true;
  return slotKeepingChanges.has(one.type);
}

const slotKeepingChanges: ReadonlySet<FleetChange["type"]> = new Set<FleetChange["type"]>([
  ...(["free-slot", "ack", "doubt"] as const),
  ...(["recheck", "verify", "load"] as const),
]);

function workerOfChange(change: FleetChange): WorkerId | null {
  return change.type === "connect" ? change.connected.worker : "worker" in change ? change.worker : null;
}

/** Roots a command is about, as far as is known before it is decided. Workflows never change: all runs of one must not wait for each other. */
function rootsOfCommand(item: WaitingCommand): RowKey[] {
  return rowsNeededBy(item.command, item.newRunId)
    .filter((key) => !key.startsWith("workflow/"))
    .map(rootOf);
}

/** A command about the worker itself: a join, a heartbeat, a drain. The fleet must be up to date for it. */
function isAboutWorker({ command }: WaitingCommand): boolean {
  return command.type.startsWith("worker.");
}

export class CommandAdmission {
  readonly #scope: PendingScope;
  /** What commands that were held back are about: nothing overtakes them there. */
  readonly #heldBackRoots = new Set<RowKey>();
  /** Workers whose own commands were held back: they get no grants until those are decided, or the commands might wait for ever. */
  readonly waitingWorkers = new Set<WorkerId>();

  constructor(scope: PendingScope) {
    this.#scope = scope;
  }

  admits(item: WaitingCommand): boolean {
    const roots = rootsOfCommand(item);
    const worker = "worker" in item.command ? item.command.worker : null;
    const isClear =
      !roots.some((root) => this.#scope.roots.has(root) || this.#heldBackRoots.has(root)) &&
      (worker === null ||
        (!this.waitingWorkers.has(worker) && !(isAboutWorker(item) && this.#scope.concernedWorkers.has(worker))));
    if (isClear) return true;
    for (const root of roots) this.#heldBackRoots.add(root);
    if (worker !== null && isAboutWorker(item)) this.waitingWorkers.add(worker);
    return false;
  }
}
