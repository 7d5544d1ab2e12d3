// The lives of runs, tasks and workers as the logs tell them. Folds facts and judges nothing.

import type { TrueTime } from "../observation.ts";
import type { Fact } from "./log-book.ts";
import { type NodePlan, nodeOfTask, type Plans, placeOf, type RunPlan } from "./plans.ts";

export interface RunLife {
  readonly id: string;
  readonly tenant: string;
  readonly client: string;
  readonly plan: RunPlan | null;
  /** Store time of its creation. */
  readonly createdAt: number;
  readonly readAt: TrueTime;
  isStarted: boolean;
  isCancelling: boolean;
  /** Something in it has failed or was cancelled: it ends early, and nothing of it is granted any more. */
  isCondemned: boolean;
  /** An operator has said where its work goes. */
  isRebound: boolean;
  end: string | null;
  readonly tasks: Map<string, TaskLife>;
  readonly facts: Fact[];
}

export interface TaskLife {
  readonly id: string;
  readonly run: RunLife;
  readonly node: NodePlan | null;
  /** The last fence that a fact has named. */
  fence: number;
  attempt: number;
  /** Who holds it now. */
  worker: string | null;
  /** The boot of its holder when it was granted or bound again. */
  boot: string | null;
  isReady: boolean;
  /** Carried out by other tasks. */
  isHosting: boolean;
  /** Requests for the next of its chain that were not answered yet. */
  readonly calls: Set<string>;
  /** Store time at which the last of them was answered; 0 before that. */
  answeredAt: number;
  end: string | null;
  /** Store time of the grant it is held under. */
  grantedAt: number;
  /** Store time at which it was last bound again; its holder's join is of the same turn. */
  reboundAt: number;
  /** When its last fact was read. */
  readAt: TrueTime;
}

export interface WorkerLife {
  readonly id: string;
  standing: "online" | "away" | "lost";
  isDraining: boolean;
  boot: string;
  slots: number;
  joins: number;
  readAt: TrueTime;
}

const ends: Readonly<Record<string, string>> = {
  "task.succeeded": "succeeded",
  "task.skipped": "skipped",
  "task.failed": "failed",
  "task.cancelled": "cancelled",
};
export const endOf = (type: string): string | null => ends[type] ?? null;

/** Facts that tell of a new phase of a task; all others leave it where it is. */
export const isPhase = (type: string): boolean => phases.has(type);
const phases: ReadonlySet<string> = new Set([
  ...Object.keys(ends),
  "task.ready",
  "task.parked",
  "task.granted",
  "task.requeued",
  "task.retrying",
  "task.hosting",
  "frame.opened",
  "frame.ended",
]);

/** Whether the run ends with this task: a node of the top level, or the outermost around one; what is inside answers for itself. */
function condemns(node: NodePlan | null, task: string): boolean {
  const { scope, call, frame } = placeOf(task);
  return scope === "" && call === null && frame === null && (node?.chainIndex ?? 0) === 0;
}

export class Lives {
  readonly runs = new Map<string, RunLife>();
  readonly workers = new Map<string, WorkerLife>();
  /** Every grant that was ever made, by `<task>#<fence>`: to whom, and to which boot. */
  readonly grants = new Map<string, { readonly worker: string; readonly boot: string | null; readonly fact: Fact }>();
  /** When the last complete reading of a tenant's log began: what was committed before is known, so what should be there by then can be asked. */
  readonly knownAt = new Map<string, TrueTime>();
  /** What each worker holds. */
  readonly held = new Map<string, Set<string>>();
  readonly #plans: Plans;

  constructor(plans: Plans) {
    this.#plans = plans;
  }

  run(id: string): RunLife | undefined {
    return this.runs.get(id);
  }

  task(id: string): TaskLife | undefined {
    return this.runs.get(runIn(id))?.tasks.get(id);
  }

  /**
   * How many of a worker's slots are taken, or how many by tasks of one node type: what waits for the next of its chain takes none.
   * `answeredSince`: what was answered after this store time still counts as waiting; another scheduler may not have heard of it.
   */
  busyOf(worker: string, wish: { readonly nodeType?: string; readonly answeredSince?: number } = {}): number {
    const { nodeType, answeredSince = Number.POSITIVE_INFINITY } = wish;
    let count = 0;
    for (const id of this.held.get(worker) ?? []) {
      const task = this.task(id);
      const isMeant = task !== undefined && (nodeType === undefined || task.node?.type === nodeType);
      if (isMeant && task.calls.size === 0 && task.answeredAt < answeredSince) count++;
    }
    return count;
  }

  apply(fact: Fact): void {
    if (fact.worker !== null) return this.#applyWorker(fact.worker, fact);
    if (fact.run === null) return;
    const run = this.#runOf(fact.run, fact);
    run.facts.push(fact);
    if (fact.type === "run.started") run.isStarted = true;
    if (fact.type === "run.rebound") run.isRebound = true;
    if (fact.type === "run.cancelling") run.isCancelling = run.isCondemned = true;
    if (fact.type === "task.failed" || fact.type === "task.cancelled") {
      const task = String(fact.data["task"]);
      if (condemns(nodeOfTask(run.plan, task), task)) run.isCondemned = true;
    }
    if (fact.type === "run.succeeded" || fact.type === "run.failed" || fact.type === "run.cancelled")
      run.end = fact.type.slice("run.".length);
    const { task } = fact.data;
    // A word about a node that was not reached yet makes no task of it.
    if (typeof task === "string" && (isPhase(fact.type) || run.tasks.has(task))) this.#applyTask(this.#taskOf(run, task), fact);
  }

  #runOf(id: string, fact: Fact): RunLife {
    let run = this.runs.get(id);
    if (run === undefined) {
      const client = String(fact.data["client"] ?? "");
      run = {
        id,
        tenant: fact.tenant,
        client,
        plan: this.#plans.of(fact.tenant, client),
        createdAt: fact.at,
        readAt: fact.readAt,
        isStarted: false,
        isCancelling: false,
        isCondemned: false,
        isRebound: false,
        end: null,
        tasks: new Map(),
        facts: [],
      };
      this.runs.set(id, run);
    }
    return run;
  }

  #taskOf(run: RunLife, id: string): TaskLife {
    let task = run.tasks.get(id);
    if (task === undefined) {
      const node = nodeOfTask(run.plan, id);
      const blank = {
        fence: 0,
        attempt: 0,
        worker: null,
        boot: null,
        isReady: false,
        isHosting: false,
        answeredAt: 0,
        end: null,
        grantedAt: 0,
        reboundAt: 0,
        readAt: 0,
      };
      run.tasks.set(id, (task = { id, run, node, calls: new Set<string>(), ...blank }));
    }
    return task;
  }

  #applyTask(task: TaskLife, { type, data, at, readAt }: Fact): void {
    task.readAt = readAt;
    const before = task.worker;
    if (type === "next.asked") task.calls.add(String(data["request"]));
    if (type === "next.answered" && task.calls.delete(String(data["request"]))) task.answeredAt = at;
    if (isPhase(type)) {
      task.isReady = type === "task.ready" || type === "task.requeued";
      // A container that tries an iteration again stays what it is.
      task.isHosting = type === "task.hosting" || type === "frame.opened" || (task.isHosting && type === "task.retrying");
    }
    if (type === "task.granted") {
      task.fence = Number(data["fence"]);
      task.attempt = Number(data["attempt"]);
      task.worker = String(data["worker"]);
      task.boot = this.workers.get(task.worker)?.boot ?? null;
      task.grantedAt = at;
    }
    if (type === "task.rebound") {
      task.boot = this.workers.get(String(data["worker"]))?.boot ?? task.boot;
      task.reboundAt = at;
    }
    if (type === "task.requeued") task.fence = Number(data["fence"]);
    if (type === "task.retrying" && data["nextFence"] !== undefined) task.fence = Number(data["nextFence"]);
    if (type === "task.requeued" || type === "task.retrying" || endOf(type) !== null) task.worker = null;
    task.end ??= type === "frame.ended" ? String(data["status"]) : endOf(type);
    if (before === task.worker) return;
    if (before !== null) this.held.get(before)?.delete(task.id);
    if (task.worker === null) return;
    const held = this.held.get(task.worker) ?? new Set<string>();
    this.held.set(task.worker, held.add(task.id));
  }

  #applyWorker(id: string, { type, data, at, readAt }: Fact): void {
    let worker = this.workers.get(id);
    if (worker === undefined) {
      worker = { id, standing: "away", isDraining: false, boot: "", slots: 0, joins: 0, readAt };
      this.workers.set(id, worker);
    }
    worker.readAt = readAt;
    if (type === "worker.joined") {
      worker.standing = "online";
      worker.boot = String(data["boot"]);
      worker.slots = Number(data["slots"]);
      worker.joins++;
      // The order of units within a turn is nobody's promise: what this join bound again may have been told before it.
      for (const held of this.held.get(id) ?? []) {
        const task = this.task(held);
        if (task?.reboundAt === at) task.boot = worker.boot;
      }
    }
    if (type === "worker.described") worker.slots = Number(data["slots"]);
    if (type === "worker.left" || (type === "worker.kicked" && worker.standing === "online")) worker.standing = "away";
    if (type === "worker.lost") worker.standing = "lost";
    if (type === "worker.draining") worker.isDraining = true;
    if (type === "worker.undrained") worker.isDraining = false;
  }

  /** The fence of the last grant of a task below another. */
  lastGrantOf(task: string, below: number): number | null {
    const run = this.runs.get(runIn(task));
    const fact = run?.facts.findLast(
      ({ type, data }) => type === "task.granted" && data["task"] === task && Number(data["fence"]) < below,
    );
    return fact === undefined ? null : Number(fact.data["fence"]);
  }

  /** Remembers a grant; called before `apply`, so that it has the boot of that moment. */
  noteGrant(fact: Fact): void {
    if (fact.type !== "task.granted") return;
    const worker = String(fact.data["worker"]);
    const boot = this.workers.get(worker)?.boot ?? null;
    this.grants.set(`${String(fact.data["task"])}#${Number(fact.data["fence"])}`, { worker, boot, fact });
  }
}

/** A task's id names its run. */
const runIn = (task: string): string => task.slice(0, task.lastIndexOf("."));
