// The working copy of one turn: its rows, and the facts, mail, effects and fleet changes that follow from them. A command that fails is
// rolled back to its savepoint, so that the others of the turn are not affected. Nothing here calls the store.

import { compilePlan, type Plan, type PlanNode } from "@astraflow/graph";
import type { Workflow } from "@astraflow/protocol";
import type { Effect } from "../../interface/effect.ts";
import type { EngineProblem } from "../../interface/world.ts";
import type { ChangeSet } from "../../storage/port.ts";
import {
  type ChunkRow,
  type Fact,
  type Mail,
  type RouteId,
  type RowKey,
  type RunRow,
  runOf,
  type TaskId,
  type TaskRow,
  type Tenant,
  type WorkerId,
} from "../../storage/rows.ts";
import type { FleetChange } from "../fleet/fleet.ts";
import { requirementsOf, requirementsText } from "../fleet/route.ts";
import { nodeAt, taskPathOf } from "../rows/task-path.ts";
import { buildChangeSets, TurnRecords } from "./change-sets.ts";
import type { DecisionContext } from "./decision-context.ts";
import { ResultLatencies, workerNoticeFor } from "./recorded-effects.ts";
import { type RootRef, rootKey } from "./root.ts";
import { RowSet, type TurnRows } from "./row-set.ts";
import { SlotChanges } from "./slot-changes.ts";

export interface Savepoint {
  readonly undoSteps: number;
  readonly fleetChanges: number;
  /** Of each list that a command may have made longer. */
  readonly lengths: readonly number[];
}

export class UnitOfWork extends RowSet {
  readonly settings: DecisionContext["settings"];
  /** As it was before this turn. */
  readonly fleet: DecisionContext["fleet"];
  readonly self: DecisionContext["self"];
  readonly #context: DecisionContext;
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
  readonly #records = new TurnRecords();
  readonly #lists: readonly unknown[][] = [
    ...Object.values(this.#records),
    ...[this.written, this.deletions, this.effects, this.fleetChanges, this.newlyReady, this.problems],
  ];

  constructor(rows: TurnRows, context: DecisionContext) {
    super(rows, !context.forgetsFence);
    this.#context = context;
    this.settings = context.settings;
    this.fleet = context.fleet;
    this.self = context.self;
  }

  random(): number {
    return this.#context.random();
  }

  nextId(): string {
    return this.#context.nextId(this.now);
  }

  get forgetsFence(): boolean {
    return this.#context.forgetsFence;
  }

  planOf(run: RunRow): Plan {
    return this.#compiledPlan(run).plan;
  }

  /** The node of a task; for an iteration its container. */
  nodeOf(run: RunRow, task: Pick<TaskRow, "id" | "run">): PlanNode {
    const node = nodeAt(this.planOf(run), taskPathOf(task));
    if (node === null) throw new Error(`run ${run.id} has no node for ${task.id}`);
    return node;
  }

  /** The route of a node; a new one is stored as a row and added to the fleet. */
  routeIdOf(run: RunRow, node: PlanNode): RouteId {
    const { routes } = this.#compiledPlan(run);
    const known = routes.get(node);
    if (known !== undefined && this.fleet.routes.has(known)) return known;
    const requirements = requirementsOf(run.tenant, node);
    const needs = requirementsText(requirements);
    const id = this.#context.digest(needs);
    if (!this.fleet.routes.has(id)) {
      if (this.route(id) === null) this.put({ kind: "route", id, tenant: run.tenant, needs });
      this.changeFleet({ type: "route", route: id, needs: requirements });
    }
    routes.set(node, id);
    return id;
  }

  #compiledPlan({ workflow }: RunRow): NonNullable<ReturnType<DecisionContext["plans"]["get"]>> {
    const { plans } = this.#context;
    const found = plans.get(workflow);
    if (found !== undefined) return found;
    const row = this.workflow(workflow);
    if (row === null) throw new Error(`workflow ${workflow} is not stored`);
    const compiled = { plan: compilePlan(JSON.parse(row.body) as Workflow), routes: new Map<PlanNode, RouteId>() };
    plans.set(workflow, compiled);
    return compiled;
  }

  /** What a task printed, written with the change set of its run. */
  storeChunks(chunks: ChunkRow): void {
    this.#records.chunks.push({ root: runOf(chunks.task), chunks });
    this.rootGroups.touch(runOf(chunks.task));
  }

  /** A fact about a run. */
  recordRunFact(run: RunRow, type: string, data: Fact["data"]): void {
    this.#records.facts.push({ tenant: run.tenant, subject: run.id, type, data });
    this.rootGroups.touch(run.id);
  }

  /** A fact about an attempt of a task, or about its end. */
  recordTaskFact(run: RunRow, type: string, { id: task, fence, worker }: TaskRow, more: Fact["data"] = {}): void {
    this.recordRunFact(run, type, { task, fence, worker, ...more });
  }

  /** A fact about anything but a run. */
  recordFact(tenant: Tenant, subject: RowKey, type: string, data: Fact["data"]): void {
    this.#records.facts.push({ tenant, subject, type, data });
    this.rootGroups.touch(subject);
    const notice = workerNoticeFor(tenant, subject, type, data);
    if (notice !== null) this.emit(notice);
  }

  emit(effect: Effect): void {
    this.effects.push(effect);
  }

  /** A message for a socket that another scheduler holds. It is written with the change set of `root`, so it is sent exactly if that is stored. */
  sendMail(root: RootRef, mail: Mail): void {
    this.#records.mail.push({ root, mail });
    this.rootGroups.touch(root);
  }

  /** The change set of `root` grants to this worker and is refused if the worker is not as the fleet shows it. */
  requireWorker(root: RootRef, worker: WorkerId, epoch: number): void {
    this.#records.preconditions.push({ root, worker, epoch });
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
    const lengths = this.#lists.map((list) => list.length);
    return { undoSteps: this.undoStepCount(), fleetChanges: this.fleetChanges.length, lengths };
  }

  /** Undoes everything since the savepoint. */
  rollbackTo(savepoint: Savepoint): void {
    this.undoWrites(savepoint.undoSteps);
    this.#slotChanges.revertFrom(this.fleetChanges, savepoint.fleetChanges);
    for (const [at, list] of this.#lists.entries()) list.length = savepoint.lengths[at] ?? 0;
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
    for (const { tenant } of this.#records.facts) counts.set(tenant, (counts.get(tenant) ?? 0) + 1);
    return counts;
  }

  changeSets(): { units: ChangeSet[]; roots: RowKey[] } {
    return buildChangeSets(
      this.written,
      this.deletedRows(),
      this.#records,
      (root) => this.rootGroups.groupOf(root),
      (run) => this.tenantOfRun(run),
    );
  }
}
