// The working copy of one turn: its rows, and the facts, mail, effects and fleet changes that follow from them. A command that fails is
// rolled back to its savepoint, so that the others of the turn are not affected. Nothing here calls the store.

import type { Effect } from "../../interface/effect.ts";
import type { EngineProblem } from "../../interface/world.ts";
import type { ChangeSet } from "../../storage/port.ts";
import {
  type ChunkRow,
  type Fact,
  type Mail,
  type RowKey,
  type RunRow,
  runOf,
  type TaskId,
  type Tenant,
  type WorkerId,
} from "../../storage/rows.ts";
import type { FleetChange } from "../fleet/fleet.ts";
import {
  buildChangeSets,
  type OutgoingMail,
  type PrintedChunks,
  type RecordedFact,
  type RootPrecondition,
} from "./change-sets.ts";
import { ResultLatencies } from "./result-latencies.ts";
import { type RootRef, rootKey } from "./root.ts";
import { type RowSavepoint, RowSet } from "./row-set.ts";
import { SlotChanges } from "./slot-changes.ts";
import { workerNoticeFor } from "./worker-notices.ts";

export interface Savepoint extends RowSavepoint {
  readonly facts: number;
  readonly effects: number;
  readonly fleetChanges: number;
  readonly newlyReady: number;
  readonly mail: number;
  readonly preconditions: number;
  readonly chunks: number;
  readonly problems: number;
}

export class UnitOfWork extends RowSet {
  readonly effects: Effect[] = [];
  readonly fleetChanges: FleetChange[] = [];
  readonly problems: EngineProblem[] = [];
  /** Tasks that became ready in this turn; they may be granted before they ever enter a queue of the store. */
  readonly newlyReady: TaskId[] = [];
  /** Workers whose row was found to agree with their connected worker; all commands are decided by then, so it stays true for the turn. */
  readonly verifiedWorkers = new Set<WorkerId>();

  /** Nodes reached in this turn. A command undone later leaves its own behind; all it does is to end the turn's fan-outs sooner. */
  nodesReached = 0;

  /** How long results took from their grants. */
  readonly resultLatencies = new ResultLatencies();
  readonly #slotChanges = new SlotChanges();
  readonly freedSlots = this.#slotChanges.freedSlots;
  readonly changedWorkers = this.#slotChanges.changedWorkers;
  readonly waitingAttempts = this.#slotChanges.waitingAttempts;
  readonly #facts: RecordedFact[] = [];
  readonly #mail: OutgoingMail[] = [];
  readonly #preconditions: RootPrecondition[] = [];
  readonly #chunks: PrintedChunks[] = [];

  /** What a task printed, written with the change set of its run. */
  storeChunks(chunks: ChunkRow): void {
    this.#chunks.push({ root: runOf(chunks.task), chunks });
    this.rootGroups.touch(runOf(chunks.task));
  }

  /** A fact about a run. */
  recordRunFact(run: RunRow, type: string, data: Fact["data"]): void {
    this.#facts.push({ tenant: run.tenant, subject: run.id, type, data });
    this.rootGroups.touch(run.id);
  }

  /** A fact about anything but a run. */
  recordFact(tenant: Tenant, subject: RowKey, type: string, data: Fact["data"]): void {
    this.#facts.push({ tenant, subject, type, data });
    this.rootGroups.touch(subject);
    const notice = workerNoticeFor(tenant, subject, type, data);
    if (notice !== null) this.emit(notice);
  }

  emit(effect: Effect): void {
    this.effects.push(effect);
  }

  /** A message for a socket that another scheduler holds. It is written with the change set of `root`, so it is sent exactly if that is stored. */
  sendMail(root: RootRef, mail: Mail): void {
    this.#mail.push({ root, mail });
    this.rootGroups.touch(root);
  }

  /** The change set of `root` grants to this worker and is refused if the worker is not as the fleet shows it. */
  requireWorker(root: RootRef, worker: WorkerId, epoch: number): void {
    this.#preconditions.push({ root, worker, epoch });
  }

  incrementMetric(name: string, labels: Readonly<Record<string, string>>): void {
    this.effects.push({ type: "count", name, labels, values: [1] });
  }

  observeMetric(name: string, labels: Readonly<Record<string, string>>, value: number): void {
    this.effects.push({ type: "count", name, labels, values: [value] });
  }

  /** Something an operator should know that is not part of any answer; reported once the turn is stored. */
  reportProblem(problem: EngineProblem): void {
    this.problems.push(problem);
  }

  changeFleet(change: FleetChange): void {
    this.fleetChanges.push(change);
    this.#slotChanges.add(change);
  }

  /** Start of a command. */
  savepoint(): Savepoint {
    this.rootGroups.beginCommand();
    return {
      undoSteps: this.undoStepCount(),
      written: this.written.length,
      facts: this.#facts.length,
      effects: this.effects.length,
      fleetChanges: this.fleetChanges.length,
      newlyReady: this.newlyReady.length,
      mail: this.#mail.length,
      preconditions: this.#preconditions.length,
      deletions: this.deletions.length,
      chunks: this.#chunks.length,
      problems: this.problems.length,
    };
  }

  /** Undoes everything since the savepoint. */
  rollbackTo(savepoint: Savepoint): void {
    this.rollBackRows(savepoint);
    this.#slotChanges.revertFrom(this.fleetChanges, savepoint.fleetChanges);
    this.#facts.length = savepoint.facts;
    this.effects.length = savepoint.effects;
    this.fleetChanges.length = savepoint.fleetChanges;
    this.newlyReady.length = savepoint.newlyReady;
    this.#mail.length = savepoint.mail;
    this.#preconditions.length = savepoint.preconditions;
    this.#chunks.length = savepoint.chunks;
    this.problems.length = savepoint.problems;
  }

  /** The root of the present command's change set; null when it changed nothing. */
  get touchedRoot(): RootRef | null {
    return this.rootGroups.touched;
  }

  /** The root that names the change set of this one, to find the commands of a refused change set. */
  changeSetRootOf(root: RootRef): RowKey {
    return rootKey(this.rootGroups.groupOf(root));
  }

  /** How many facts this turn adds to each tenant's log. */
  factCountByTenant(): Map<Tenant, number> {
    const counts = new Map<Tenant, number>();
    for (const { tenant } of this.#facts) counts.set(tenant, (counts.get(tenant) ?? 0) + 1);
    return counts;
  }

  changeSets(): { units: ChangeSet[]; roots: RowKey[] } {
    return buildChangeSets(
      this.written,
      {
        facts: this.#facts,
        mail: this.#mail,
        preconditions: this.#preconditions,
        deletedRows: this.deletedRows(),
        chunks: this.#chunks,
      },
      (root) => this.rootGroups.groupOf(root),
      (run) => this.tenantOfRun(run),
    );
  }
}
