// The state of runs, tasks and workers, computed from the facts of the logs. It only records.

import { getOrCreate } from "../kernel/get-or-create.ts";
import type { TrueTime } from "../observation/observation.ts";
import type { ObservedFact } from "./merged-log.ts";
import { nodeOfTask, parseTaskId, type RequestedNode, type RequestedRun, type RequestedRuns } from "./requested-runs.ts";

export class ProjectedRun {
  readonly id: string;
  readonly tenant: string;
  readonly requested: RequestedRun | null;
  /** Store time of its creation. */
  readonly createdAt: number;
  readonly readAt: TrueTime;
  isStarted = false;
  isCancelling = false;
  /** Something in it has failed or was cancelled: it ends early, and nothing of it is granted any more. */
  isEndingEarly = false;
  /** An operator has said where its work goes. */
  isRebound = false;
  endStatus: string | null = null;
  readonly tasks = new Map<string, ProjectedTask>();
  readonly facts: ObservedFact[] = [];

  constructor(id: string, { tenant, at, readAt }: ObservedFact, requested: RequestedRun | null) {
    this.id = id;
    this.tenant = tenant;
    this.requested = requested;
    this.createdAt = at;
    this.readAt = readAt;
  }
}

export class ProjectedTask {
  readonly id: string;
  readonly run: ProjectedRun;
  readonly node: RequestedNode | null;
  /** The last fence that a fact has named. */
  fence = 0;
  attempt = 0;
  /** Who holds it now. */
  worker: string | null = null;
  /** The boot of its holder when it was granted or bound again. */
  boot: string | null = null;
  isReady = false;
  /** Carried out by other tasks. */
  isHosting = false;
  /** Requests for the next of its chain that were not answered yet. */
  readonly openNextRequests = new Set<string>();
  /** Store time at which the last of them was answered; 0 before that. */
  lastNextAnswerAt = 0;
  endStatus: string | null = null;
  /** Store time of the grant it is held under. */
  grantedAt = 0;
  /** Store time at which it was last bound again; its holder's join is of the same turn. */
  reboundAt = 0;
  /** When its last fact was read. */
  readAt: TrueTime = 0;

  constructor(id: string, run: ProjectedRun) {
    this.id = id;
    this.run = run;
    this.node = nodeOfTask(run.requested, id);
  }
}

export class ProjectedWorker {
  readonly id: string;
  presence: "online" | "away" | "lost" = "away";
  isDraining = false;
  boot = "";
  slots = 0;
  joinCount = 0;
  readAt: TrueTime = 0;

  constructor(id: string) {
    this.id = id;
  }
}

export const endStatusOf = (type: string): string | null =>
  /^task\.(succeeded|skipped|failed|cancelled)$/.exec(type)?.[1] ?? null;
export const hasEndedWell = (endStatus: string | null | undefined): boolean =>
  endStatus === "succeeded" || endStatus === "skipped";

/** Facts that tell of a new phase of a task; all others leave it where it is. */
export const changesTaskPhase = (type: string): boolean =>
  endStatusOf(type) !== null || /^(task\.(ready|parked|granted|requeued|retrying|hosting)|frame\.(opened|ended))$/.test(type);

/** Whether the run ends with this task: a node of the top level, or the outermost around one; what is inside answers for itself. */
function endsItsRun(node: RequestedNode | null, task: string): boolean {
  const { scope, call, iteration: frame } = parseTaskId(task);
  return scope === "" && call === null && frame === null && (node?.chainIndex ?? 0) === 0;
}

export class LogProjection {
  readonly runs = new Map<string, ProjectedRun>();
  readonly workers = new Map<string, ProjectedWorker>();
  /** Every grant that was ever made, by `<task>#<fence>`: to whom, and to which boot. */
  readonly grants = new Map<string, { readonly worker: string; readonly boot: string | null; readonly fact: ObservedFact }>();
  /** When the last complete reading of a tenant's log began: what was committed before is known, so what should be there by then can be asked. */
  readonly completeReadAt = new Map<string, TrueTime>();
  /** What each worker holds. */
  readonly heldTasks = new Map<string, Set<string>>();
  readonly #requestedRuns: RequestedRuns;

  constructor(requestedRuns: RequestedRuns) {
    this.#requestedRuns = requestedRuns;
  }

  task(id: string): ProjectedTask | undefined {
    return this.runs.get(runIdOfTask(id))?.tasks.get(id);
  }

  /**
   * How many of a worker's slots are taken, or how many by tasks of one node type: what waits for the next of its chain takes none.
   * `answeredSince`: what was answered after this store time still counts as waiting; another scheduler may not have heard of it.
   */
  countBusySlots(worker: string, options: { readonly nodeType?: string; readonly answeredSince?: number } = {}): number {
    const { nodeType, answeredSince = Number.POSITIVE_INFINITY } = options;
    let count = 0;
    for (const id of this.heldTasks.get(worker) ?? []) {
      const task = this.task(id);
      const isMeant = task !== undefined && (nodeType === undefined || task.node?.type === nodeType);
      if (isMeant && task.openNextRequests.size === 0 && task.lastNextAnswerAt < answeredSince) count++;
    }
    return count;
  }

  apply(fact: ObservedFact): void {
    if (fact.worker !== null) return this.#applyWorkerFact(fact.worker, fact);
    if (fact.run === null) return;
    const id = fact.run;
    const run = getOrCreate(this.runs, id, () => {
      const client = String(fact.data["client"] ?? "");
      return new ProjectedRun(id, fact, this.#requestedRuns.find(fact.tenant, client));
    });
    run.facts.push(fact);
    if (fact.type === "run.started") run.isStarted = true;
    if (fact.type === "run.rebound") run.isRebound = true;
    if (fact.type === "run.cancelling") run.isCancelling = run.isEndingEarly = true;
    if (fact.type === "task.failed" || fact.type === "task.cancelled") {
      const task = String(fact.data["task"]);
      if (endsItsRun(nodeOfTask(run.requested, task), task)) run.isEndingEarly = true;
    }
    if (fact.type === "run.succeeded" || fact.type === "run.failed" || fact.type === "run.cancelled")
      run.endStatus = fact.type.slice("run.".length);
    const { task } = fact.data;
    // A fact about a node that was not reached yet creates no task.
    if (typeof task === "string" && (changesTaskPhase(fact.type) || run.tasks.has(task)))
      this.#applyTaskFact(
        getOrCreate(run.tasks, task, () => new ProjectedTask(task, run)),
        fact,
      );
  }

  #applyTaskFact(task: ProjectedTask, fact: ObservedFact): void {
    const { type, data, at, readAt } = fact;
    task.readAt = readAt;
    const before = task.worker;
    if (type === "next.asked") task.openNextRequests.add(String(data["request"]));
    if (type === "next.answered" && task.openNextRequests.delete(String(data["request"]))) task.lastNextAnswerAt = at;
    if (changesTaskPhase(type)) {
      // A task that its worker refused waits for its pause.
      task.isReady = type === "task.ready" || (type === "task.requeued" && data["delayMs"] === undefined);
      // A container that tries an iteration again stays what it is.
      task.isHosting = type === "task.hosting" || type === "frame.opened" || (task.isHosting && type === "task.retrying");
    }
    if (type === "task.granted") {
      task.fence = Number(data["fence"]);
      task.attempt = Number(data["attempt"]);
      task.worker = String(data["worker"]);
      task.boot = this.workers.get(task.worker)?.boot ?? null;
      task.grantedAt = at;
      this.grants.set(`${task.id}#${task.fence}`, { worker: task.worker, boot: task.boot, fact });
    }
    if (type === "task.rebound") {
      task.boot = this.workers.get(String(data["worker"]))?.boot ?? task.boot;
      task.reboundAt = at;
    }
    if (type === "task.repeated") task.attempt = Number(data["attempt"]);
    if (type === "task.requeued") {
      task.fence = Number(data["fence"]);
      // Nobody ran it: its number is free again.
      if (data["attempt"] !== undefined) task.attempt = Number(data["attempt"]);
    }
    if (type === "task.retrying" && data["nextFence"] !== undefined) task.fence = Number(data["nextFence"]);
    if (type === "task.requeued" || type === "task.retrying" || endStatusOf(type) !== null) task.worker = null;
    task.endStatus ??= type === "frame.ended" ? String(data["status"]) : endStatusOf(type);
    if (before === task.worker) return;
    if (before !== null) this.heldTasks.get(before)?.delete(task.id);
    if (task.worker === null) return;
    getOrCreate(this.heldTasks, task.worker, () => new Set<string>()).add(task.id);
  }

  #applyWorkerFact(id: string, { type, data, at, readAt }: ObservedFact): void {
    const worker = getOrCreate(this.workers, id, () => new ProjectedWorker(id));
    worker.readAt = readAt;
    if (type === "worker.joined") {
      worker.presence = "online";
      worker.boot = String(data["boot"]);
      worker.slots = Number(data["slots"]);
      worker.joinCount++;
      // The order within a turn is not guaranteed: facts about attempts that this join rebound may precede it.
      for (const held of this.heldTasks.get(id) ?? []) {
        const task = this.task(held);
        if (task?.reboundAt === at) task.boot = worker.boot;
      }
    }
    if (type === "worker.described") worker.slots = Number(data["slots"]);
    if (type === "worker.left" || (type === "worker.kicked" && worker.presence === "online")) worker.presence = "away";
    if (type === "worker.lost" || type === "worker.gone") worker.presence = "lost";
    if (type === "worker.draining") worker.isDraining = true;
    if (type === "worker.undrained") worker.isDraining = false;
  }

  /** The fence of the last grant of a task below another. */
  lastGrantFenceBelow(task: string, below: number): number | null {
    const run = this.runs.get(runIdOfTask(task));
    const fact = run?.facts.findLast(
      ({ type, data }) => type === "task.granted" && data["task"] === task && Number(data["fence"]) < below,
    );
    return fact === undefined ? null : Number(fact.data["fence"]);
  }
}

/** A task's id names its run. */
const runIdOfTask = (task: string): string => task.slice(0, task.lastIndexOf("."));
