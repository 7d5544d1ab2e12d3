// One turn on the memory store: all change sets or none. In weak mode a row that was not asked for is unknown, a root that another turn
// holds is busy, and the commit ends as the cluster's script or fault rates decide.

import type {
  ChangeSet,
  CommitOutcome,
  Mail,
  Millis,
  QueueName,
  Row,
  RowKey,
  StoreHint,
  TaskListQuery,
  TaskRow,
  TurnRequest,
  TurnTransaction,
  WorkerId,
  WorkerRow,
} from "@astraflow/engine";
import { keyOf, rootOf, runKey, workerKey } from "@astraflow/engine";
import { type Fault, fault } from "@astraflow/protocol";
import {
  changedWorkersFault,
  findChangedWorkers,
  findInvalidChangeSet,
  type InvalidChangeSet,
  invalidChangeSet,
} from "../common/change-set-check.ts";
import { advanceTaskQueueClocks, assignRanks, FairnessClocks, withRank } from "../common/fairness-ranks.ts";
import { assignPositions, type PositionedFacts } from "../common/log-rows.ts";
import { compareText } from "../common/row-order.ts";
import { hasEnded, rowProblem } from "../common/row-shape.ts";
import { LoadedTurn, taskListKey } from "../common/turn.ts";
import type { MemoryCluster, MemoryHandle } from "./cluster.ts";
import { type MemoryTables, takeFirst } from "./tables.ts";

export class MemoryTurn extends LoadedTurn implements TurnTransaction {
  readonly now: Millis;
  readonly nextDue: Millis | null;
  readonly claimed: ReadonlyMap<QueueName, readonly TaskRow[]>;
  readonly due: readonly Row[];
  readonly mail: readonly Mail[];
  readonly #handle: MemoryHandle;
  readonly #cluster: MemoryCluster;
  readonly #tables: MemoryTables;
  readonly #takenRoots = new Set<RowKey>();

  constructor(handle: MemoryHandle, want: TurnRequest) {
    super();
    this.#handle = handle;
    this.#cluster = handle.cluster;
    this.#tables = handle.cluster.tables;
    this.now = this.#cluster.clock.now();
    const skip = new Set(want.skip);
    this.#load(want.rows);
    this.claimed = this.#claimTasks(want, skip);
    this.due = this.#takeDue(want.due, skip);
    this.nextDue = this.#tables.nextDueAfter(this.now);
    this.#loadTaskLists(want.lists);
    this.mail = this.#takeMail(want.mail);
    handle.turns.add(this);
  }

  // A strong store reads through; a weak one answers what was loaded.
  override row(kind: Row["kind"], id: string): Row | null | "busy" | undefined {
    this.assertOpen();
    if (!this.#cluster.isWeak) this.#load([`${kind}/${id}`]);
    return super.row(kind, id);
  }

  override tasks(list: TaskListQuery): readonly TaskRow[] | undefined {
    this.assertOpen();
    if (!this.#cluster.isWeak) this.#loadTaskLists([list]);
    return super.tasks(list);
  }

  override peekWorker(worker: WorkerId): WorkerRow | null | undefined {
    this.assertOpen();
    if (!this.#cluster.isWeak) this.#lookUp(worker);
    return super.peekWorker(worker);
  }

  #lookUp(worker: WorkerId): void {
    this.addresses.set(worker, this.#tables.find("worker", worker));
  }

  async loadMore(rows: readonly RowKey[], lists: readonly TaskListQuery[], addresses: readonly WorkerId[] = []): Promise<void> {
    this.assertOpen();
    this.#load(rows);
    this.#loadTaskLists(lists);
    for (const worker of addresses) this.#lookUp(worker);
  }

  protected async write(turn: number, units: readonly ChangeSet[]): Promise<CommitOutcome> {
    const { mutant } = this.#cluster.options;
    const replica = this.#handle.replica;
    if (this.#tables.replicas.get(replica)?.turns.has(turn)) throw new Error(`turn ${turn} of ${replica} was committed before`);
    const bad = findInvalidChangeSet(units, (root) => this.#takenRoots.has(root)) ?? findInvalidRow(units, this.#tables);
    if (bad !== null) return this.#fail(bad);
    const earlyPositions = mutant === "sequence-positions" ? this.#assignPositionsEarly(units) : undefined;
    const outcome = this.#cluster.chooseOutcome({ step: "commit", replica, turn });
    await this.#cluster.options.pauseAt?.({ step: "commit", replica, turn });
    if (outcome === "failed")
      return this.#fail({ fault: fault("E.STORE.BUSY", `turn ${turn} could not be serialized; try it again`) });
    if (outcome === "committed") {
      const answer = this.#apply(turn, units, earlyPositions);
      this.#release();
      return answer;
    }
    // The answer was lost, the transaction was not: it holds its roots until it is over, and `settle` waits for that.
    const finish = async () => {
      await this.#cluster.options.pauseAt?.({ step: "late", replica, turn });
      if (outcome === "unknown-committed") this.#apply(turn, units, earlyPositions);
      this.#release();
    };
    this.#handle.unsettledTurns.set(turn, finish());
    return { outcome: "unknown" };
  }

  /** The commit itself: everything between here and the return happens in one go, positions last. */
  #apply(turn: number, units: readonly ChangeSet[], earlyPositions: PositionedFacts | undefined): CommitOutcome {
    const superseded = this.#handle.supersededFault();
    if (superseded !== null) return { outcome: "failed", fault: superseded };
    const tables = this.#tables;
    const changedWorkers = findChangedWorkers(units, (worker) => this.#findFreeWorker(worker));
    if (changedWorkers.length > 0) return { outcome: "failed", changedWorkers, fault: changedWorkersFault(changedWorkers) };
    const written = this.#cluster.options.mutant === "drop-unit" && units.length > 1 ? units.slice(0, -1) : units;
    const clocks = new FairnessClocks({
      tenantClock: (name) => tables.tenant(name).clock,
      taskQueueClock: (line) => tables.taskQueueClocks.get(line) ?? 0,
    });
    advanceTaskQueueClocks(written, clocks, (id) => tables.find("task", id));
    const ranks = assignRanks(written, clocks);
    const hints: StoreHint[] = [];
    const lines = new Set<QueueName>();
    for (const unit of written) {
      for (const row of unit.puts) {
        tables.put(withRank(row, ranks));
        if (row.kind === "task" && row.line !== null && ranks.has(row.id)) lines.add(row.line);
      }
      for (const key of unit.deletes) tables.drop(key);
      for (const chunk of unit.chunks ?? []) tables.putChunk(chunk);
      for (const mail of unit.mail) tables.putMail(mail);
    }
    for (const mail of this.mail) tables.mail.splice(tables.mail.indexOf(mail), 1);
    for (const [tenant, clock] of clocks.tenants) tables.tenant(tenant).clock = clock;
    for (const [line, clock] of clocks.lines) tables.taskQueueClocks.set(line, clock);
    const placed = earlyPositions ?? assignPositions(written, this.now, (tenant) => tables.tenant(tenant).position);
    for (const row of placed.rows) tables.tenant(row.tenant).log.add(row);
    for (const [tenant, head] of placed.heads) {
      tables.tenant(tenant).position = Math.max(head, tables.tenant(tenant).position);
      hints.push({ type: "log", tenant });
    }
    const replica = tables.replicas.get(this.#handle.replica);
    if (replica === undefined) throw new Error(`replica ${this.#handle.replica} has no row`);
    replica.turns.add(turn);
    replica.lastTurn = Math.max(replica.lastTurn, turn);
    for (const line of lines) hints.push({ type: "line", line });
    if (written.some((unit) => unit.mail.length > 0)) hints.push({ type: "mail" });
    this.#cluster.sendHints(this.#handle, hints);
    return { outcome: "committed", first: placed.first };
  }

  /** A worker as stored, unless another turn has it in hand and may be changing it. */
  #findFreeWorker(id: WorkerId): WorkerRow | null {
    const holder = this.#cluster.taken.get(workerKey(id));
    return holder === undefined || holder === this ? this.#tables.find("worker", id) : null;
  }

  /** The planted bug: numbers are drawn before the commit, so a slow commit shows low ones after a reader has passed. */
  #assignPositionsEarly(units: readonly ChangeSet[]): PositionedFacts {
    const placed = assignPositions(units, this.now, (tenant) => this.#tables.tenant(tenant).sequence);
    for (const [tenant, head] of placed.heads) this.#tables.tenant(tenant).sequence = head;
    return placed;
  }

  #take(root: RowKey): boolean {
    if (this.#takenRoots.has(root)) return true;
    const kind = root.slice(0, root.indexOf("/"));
    // What never changes needs no lock once it is there; else every run of one workflow would be in the others' way.
    const isShared = (kind === "route" || kind === "workflow") && this.#tables.rows.has(root);
    if (!isShared && this.#cluster.options.mutant !== "no-root-lock") {
      if (this.#cluster.taken.has(root) || this.#cluster.isRandomlyBusy()) return false;
      this.#cluster.taken.set(root, this);
    }
    this.#takenRoots.add(root);
    return true;
  }

  #load(keys: readonly RowKey[]): void {
    for (const key of [...keys].sort(compareText)) {
      if (this.rows.has(key)) continue;
      this.rows.set(key, this.#take(rootOf(key)) ? (this.#tables.rows.get(key) ?? null) : "busy");
    }
  }

  /** A task that came by an index brings its run along: deciding about it needs both. */
  #loadWithRoot(row: Row): void {
    this.#load([keyOf(row), rootOf(keyOf(row))]);
  }

  #claimTasks(want: TurnRequest, skip: ReadonlySet<RowKey>): Map<QueueName, TaskRow[]> {
    const claimed = new Map<QueueName, TaskRow[]>();
    for (const { line, limit } of want.claims) {
      const tasks = claimed.get(line) ?? [];
      claimed.set(line, tasks);
      let remaining = limit;
      if (remaining > 0)
        for (const task of this.#tables.tasksInQueue(line)) {
          if (tasks.includes(task) || skip.has(runKey(task.run)) || !this.#take(runKey(task.run))) continue;
          tasks.push(task);
          if (--remaining === 0) break;
        }
      for (const task of tasks) this.#loadWithRoot(task);
    }
    return claimed;
  }

  #takeDue(limit: number, skip: ReadonlySet<RowKey>): Row[] {
    const due: Row[] = [];
    if (limit <= 0) return due;
    for (const row of this.#tables.rowsDueBy(this.now)) {
      const root = rootOf(keyOf(row));
      if (skip.has(root) || !this.#take(root)) continue;
      due.push(row);
      if (due.length === limit) break;
    }
    for (const row of due) this.#loadWithRoot(row);
    return due;
  }

  #loadTaskLists(lists: readonly TaskListQuery[]): void {
    for (const list of lists) {
      if (this.lists.has(taskListKey(list))) continue;
      const found = list.limit > 0 ? this.#findTasks(list) : [];
      this.lists.set(taskListKey(list), found);
      if ("run" in list) for (const task of found) this.#loadWithRoot(task);
    }
  }

  /** Lists of a run take it; the others are a look, and what is looked at may be in other hands. */
  #findTasks(list: TaskListQuery): TaskRow[] {
    if (list.of === "held") return takeFirst(this.#tables.tasksHeldBy(list.worker), list.limit);
    if (list.of === "line") return takeFirst(this.#tables.tasksInQueue(list.line), list.limit);
    this.#load([runKey(list.run)]);
    if (this.rows.get(runKey(list.run)) === "busy") return [];
    const tasks = this.#tables.tasksOf(list.run, list.after);
    if (list.of === "open") return takeFirst(tasks, list.limit, (task) => !hasEnded(task));
    return takeFirst(tasks, list.limit).filter((task) => task.id <= list.last);
  }

  #takeMail(limit: number): Mail[] {
    const mine = this.#tables.mail.filter(
      (mail) => mail.replica === this.#handle.replica && mail.epoch === this.#handle.epoch && !this.#cluster.mailTaken.has(mail),
    );
    const taken = mine.slice(0, limit);
    for (const mail of taken) this.#cluster.mailTaken.add(mail);
    return taken;
  }

  #fail(why: { readonly unit?: number; readonly fault: Fault }): CommitOutcome {
    this.#release();
    return { outcome: "failed", ...why };
  }

  protected rollBack(): void {
    this.#release();
  }

  #release(): void {
    this.#handle.turns.delete(this);
    this.#cluster.turnsInFlight--;
    for (const root of this.#takenRoots) if (this.#cluster.taken.get(root) === this) this.#cluster.taken.delete(root);
    for (const mail of this.mail) this.#cluster.mailTaken.delete(mail);
  }
}

function findInvalidRow(units: readonly ChangeSet[], tables: MemoryTables): InvalidChangeSet | null {
  for (const [unit, { puts, inserted: born }] of units.entries())
    for (const row of puts) {
      const isDoubled = born !== undefined && born.has(keyOf(row)) && tables.rows.has(keyOf(row));
      const problem = isDoubled ? `${keyOf(row)} should be new but exists already` : rowProblem(row);
      if (problem !== null) return invalidChangeSet(unit, problem);
    }
  return null;
}
