// The working copy of one turn: its rows, and the facts, mail, effects and fleet changes that follow from them. A command that fails is
// rolled back to its savepoint, so that the others of the turn are not affected. Nothing here calls the store.

import { compilePlan, type Plan, type PlanNode } from "@astraflow/graph";
import type { Workflow } from "@astraflow/protocol";
import type { Effect, MetricSamples, WorkerNotice } from "../../interface/effect.ts";
import { type PackageDocument, packageCollection } from "../../interface/package-document.ts";
import type { EngineProblem } from "../../interface/world.ts";
import type { ChangeSet } from "../../storage/port.ts";
import {
  type ChunkRow,
  docId,
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
import { attemptVersion } from "../rows/task-state.ts";
import { buildChangeSets, TurnRecords } from "./change-sets.ts";
import type { DecisionContext } from "./decision-context.ts";
import { type CompiledPlan, type ManifestRules, readManifestRules, TurnPlans } from "./definition-caches.ts";
import { PlanMissing, type RootRef, rootKey } from "./root.ts";
import { RowSet, type TurnRows } from "./row-set.ts";
import { TurnChecks } from "./turn-checks.ts";

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
  readonly #turnPlans: TurnPlans;
  readonly checks: TurnChecks;
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
  readonly handedBack = this.#slotChanges.handedBack;
  readonly #records = new TurnRecords();
  readonly #lists: readonly unknown[][] = [
    ...Object.values(this.#records),
    ...[this.written, this.deletions, this.effects, this.fleetChanges, this.newlyReady, this.problems],
  ];

  constructor(
    rows: TurnRows,
    context: DecisionContext,
    turnPlans: TurnPlans = new TurnPlans(),
    checks: TurnChecks = new TurnChecks(),
  ) {
    super(rows, !context.forgetsFence);
    this.#context = context;
    this.#turnPlans = turnPlans;
    this.checks = checks;
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

  digest(text: string): string {
    return this.#context.digest(text);
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
    const id = this.digest(needs);
    if (!this.fleet.routes.has(id)) {
      if (this.route(id) === null) this.put({ kind: "route", id, tenant: run.tenant, needs });
      this.changeFleet({ type: "route", route: id, needs: requirements });
    }
    routes.set(node, id);
    return id;
  }

  #compiledPlan({ workflow }: RunRow): CompiledPlan {
    const { plans } = this.#context;
    const found = plans.get(workflow) ?? this.#turnPlans.get(workflow);
    if (found !== undefined) return found;
    const row = this.workflow(workflow);
    if (row === null) throw new Error(`workflow ${workflow} is not stored`);
    if (this.#turnPlans.takes(row.body)) throw new PlanMissing(workflow, row.body);
    const plan = compilePlan(JSON.parse(row.body) as Workflow);
    const compiled: CompiledPlan = { plan, routes: new Map<PlanNode, RouteId>(), chars: row.body.length };
    plans.set(workflow, compiled);
    return compiled;
  }

  /** What a manifest says of its node types, from the document of its package's version; undefined: it is not there. */
  manifestRules(tenant: Tenant, packageVersion: string, digest: string): ManifestRules | undefined {
    const { manifests } = this.#context;
    const found = manifests.get(`${tenant}/${digest}`);
    if (found !== undefined) return found.rules;
    const row = this.doc(docId(tenant, packageCollection, packageVersion));
    // What a revision does not hold is looked for once.
    const absenceKey = `${tenant}/${digest}@${row?.rev ?? 0}`;
    if (row === null || manifests.get(absenceKey) !== undefined) return undefined;
    const document = JSON.parse(row.body) as PackageDocument;
    const stored = [document, ...(document.others ?? [])].find((one) => one.digest === digest);
    const rules = stored === undefined ? new Map<string, never>() : readManifestRules(stored.manifest);
    const chars = stored === undefined ? 0 : row.body.length;
    manifests.set(stored === undefined ? absenceKey : `${tenant}/${digest}`, { rules, chars });
    return stored === undefined ? undefined : rules;
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
  recordTaskFact(run: RunRow, type: string, task: TaskRow, more: Fact["data"] = {}): void {
    const { id, fence, worker } = task;
    const about = { task: id, fence, worker, ...more };
    this.recordRunFact(run, type, task.state === null || worker === null ? about : { ...about, ...attemptVersion(task) });
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

  recordMetric(name: string, labels: Readonly<Record<string, string>>, value = 1): void {
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

/** What the fleet changes of a turn mean before they are applied. */
class SlotChanges {
  /** Slots freed (+) and used (-) in this turn, by worker. */
  readonly freedSlots = new Map<WorkerId, number>();
  /** Workers that this turn changes: the fleet does not show it yet, so they get no tasks before the next turn. */
  readonly changedWorkers = new Set<WorkerId>();
  /** Attempts that began to wait for their calls in this turn, or went on: the fleet does not show it yet. */
  readonly waitingAttempts = new Map<TaskId, boolean>();

  /** Tasks that a worker handed back in this turn and does not get again at once. */
  readonly handedBack = new Map<TaskId, WorkerId>();

  add(change: FleetChange): void {
    if (change.type === "hand-back" && change.until !== null) this.handedBack.set(change.task, change.worker);
    this.#countSlots(change, 1);
    this.#noteWait(change);
    if (change.type === "connect") this.changedWorkers.add(change.connected.worker);
    if (change.type === "disconnect" || change.type === "describe" || change.type === "drain")
      this.changedWorkers.add(change.worker);
    if (change.type === "heartbeat" && !change.healthy) this.changedWorkers.add(change.worker);
  }

  /** Reverts the changes from an index on. Changed workers stay excluded for this turn; that only delays them. */
  revertFrom(changes: readonly FleetChange[], from: number): void {
    let wasWaiting = false;
    for (let at = from; at < changes.length; at++) {
      const change = changes[at] as FleetChange;
      this.#countSlots(change, -1);
      if (change.type === "hand-back") this.handedBack.delete(change.task);
      if (change.type === "wait" || (change.type === "release" && change.wasWaiting === true)) wasWaiting = true;
    }
    if (!wasWaiting) return;
    this.waitingAttempts.clear();
    for (let at = 0; at < from; at++) this.#noteWait(changes[at] as FleetChange);
  }

  /** `times` is 1 for a change that is applied and -1 for one that is reverted. */
  #countSlots(change: FleetChange, times: 1 | -1): void {
    if (change.type === "grant") this.#addSlots(change.worker, -times);
    else if (change.type === "release")
      this.#addSlots(change.worker, times * (Number(change.wasWaiting !== true) - Number(change.unstoppedUntil !== undefined)));
    else if (change.type === "free-slot") this.#addSlots(change.worker, times);
    else if (change.type === "wait") this.#addSlots(change.worker, change.isWaiting ? times : -times);
  }

  #addSlots(worker: WorkerId, by: number): void {
    this.freedSlots.set(worker, (this.freedSlots.get(worker) ?? 0) + by);
  }

  #noteWait(change: FleetChange): void {
    if (change.type === "wait") this.waitingAttempts.set(change.task, change.isWaiting);
    else if (change.type === "release" && change.wasWaiting === true) this.waitingAttempts.delete(change.task);
  }
}

const alarmingFacts = new Set(["worker.lost", "worker.strained", "worker.saturated", "worker.cloned"]);
const recoveryFacts = new Set(["worker.relieved", "worker.unsaturated"]);

/** Joins, leaves, drains and kicks are logged where they happen, at the doors. */
function workerNoticeFor(tenant: Tenant, subject: RowKey, event: string, data: Fact["data"]): WorkerNotice | null {
  if (!subject.startsWith("worker/")) return null;
  // 1x WARN, 2x DEGRADED, 3x UNHEALTHY, and back.
  const isGood = event === "worker.liveness" ? data["to"] === "fresh" : recoveryFacts.has(event);
  if (!isGood && !alarmingFacts.has(event) && event !== "worker.liveness") return null;
  return { type: "worker", tenant, worker: subject.slice("worker/".length), event, isRecovery: isGood, data };
}

/** How long results took, collected over a turn and emitted once: no effect for each. By tenant and node type. A command undone later may leave one behind; no decision depends on it. */
class ResultLatencies {
  readonly #byTenant = new Map<Tenant, Map<string, number[]>>();

  observe(tenant: Tenant, nodeType: string, ms: number): void {
    let types = this.#byTenant.get(tenant);
    if (types === undefined) this.#byTenant.set(tenant, (types = new Map()));
    const values = types.get(nodeType);
    if (values === undefined) types.set(nodeType, [ms]);
    else values.push(ms);
  }

  toMetricSamples(): MetricSamples[] {
    const counted: MetricSamples[] = [];
    for (const [tenant, types] of this.#byTenant)
      for (const [nodeType, values] of types)
        counted.push({ type: "count", name: "result_latency_ms", labels: { tenant, node_type: nodeType }, values });
    return counted;
  }
}
