// Replays a tenant's log, turn by turn, against the invariants. It reads the log alone, which is the order of commits; the entries of one
// turn share a time that no other turn has, so invariants between turns are checked at that boundary.

import type { LoggedFact, RunDetail } from "@astraflow/engine";
import { compilePlan, type Plan } from "@astraflow/graph";
import type { Workflow } from "@astraflow/protocol";

export interface WorkerCapacity {
  readonly slots: number;
  readonly pool: string;
}

interface ReplayedTask {
  readonly id: string;
  readonly run: string;
  fence: number;
  /** Who has it now; null between attempts. */
  worker: string | null;
  end: string | null;
}

interface ReplayedRun {
  readonly plan: Plan;
  end: string | null;
}

const taskEndFacts = new Set(["task.succeeded", "task.skipped", "task.failed", "task.cancelled"]);
/** Facts about a task that nobody need hold. */
const factsWithoutHolder = new Set(["task.failed", "task.cancelled", "task.waiting", "task.ready", "task.parked"]);

export class LogChecker {
  readonly #tenant: string;
  readonly #capacities: ReadonlyMap<string, WorkerCapacity>;
  readonly #runs = new Map<string, ReplayedRun>();
  readonly #tasks = new Map<string, ReplayedTask>();
  readonly #workerPhases = new Map<string, "online" | "away" | "lost" | "left">();
  readonly #draining = new Set<string>();
  /** Workers short of memory, with the process that reported it: another process starts afresh. */
  readonly #pressured = new Set<string>();
  readonly #boots = new Map<string, unknown>();
  /** Grants of the turn that is being read, by task. */
  #granted = new Map<string, string>();

  constructor(tenant: string, details: readonly RunDetail[], capacities: ReadonlyMap<string, WorkerCapacity>) {
    this.#tenant = tenant;
    this.#capacities = capacities;
    for (const { run, workflow } of details)
      this.#runs.set(run.id, { plan: compilePlan(JSON.parse(workflow) as Workflow), end: null });
  }

  /** The first broken promise, or null. */
  replay(entries: readonly LoggedFact[]): string | null {
    for (const [at, entry] of entries.entries()) {
      if (entry.position !== at + 1) return `position ${at + 1} of ${this.#tenant} is missing`;
      const problem = entry.subject.startsWith("run/") ? this.#applyRunFact(entry) : this.#applyWorkerFact(entry);
      if (problem !== null) return `at position ${entry.position} of ${this.#tenant}, ${entry.type}: ${problem}`;
      const next = entries[at + 1];
      const broken = next?.at === entry.at ? null : this.#checkAfterTurn();
      if (broken !== null) return `after position ${entry.position} of ${this.#tenant}: ${broken}`;
    }
    return null;
  }

  endFactOf(run: string): string | null {
    return this.#runs.get(run)?.end ?? null;
  }

  #applyWorkerFact({ subject, type, data }: LoggedFact): string | null {
    const worker = subject.slice("worker/".length);
    if (!worker.startsWith(`${this.#tenant}/`)) return `${worker} is of another tenant`;
    if (type === "worker.joined") {
      this.#workerPhases.set(worker, "online");
      if (this.#boots.get(worker) !== data["boot"]) this.#pressured.delete(worker);
      this.#boots.set(worker, data["boot"]);
    }
    if (type === "worker.strained") this.#pressured.add(worker);
    if (type === "worker.relieved") this.#pressured.delete(worker);
    if (type === "worker.kicked" && this.#workerPhases.get(worker) === "online") this.#workerPhases.set(worker, "away");
    if (type === "worker.left") this.#workerPhases.set(worker, "away");
    if (type === "worker.lost") this.#workerPhases.set(worker, "lost");
    if (type === "worker.gone") this.#workerPhases.set(worker, "left");
    if (type === "worker.draining") this.#draining.add(worker);
    if (type === "worker.undrained") this.#draining.delete(worker);
    return null;
  }

  #applyRunFact({ subject, type, data }: LoggedFact): string | null {
    const id = subject.slice("run/".length);
    const run = this.#runs.get(id);
    if (run === undefined) return `run ${id} is told of and not stored`;
    // What an operator asked of a run that was over is kept too.
    if (type.startsWith("audit.")) return null;
    if (type === "task.feedback" && data["isLate"] === true) return this.#checkLateFeedback(data);
    // An outcome that came too late changes nothing, and may follow any end.
    if (type === "task.refused") return null;
    if (run.end !== null) return `run ${id} had ended (${run.end})`;
    if (type === "run.succeeded" || type === "run.failed" || type === "run.cancelled") {
      run.end = type;
      for (const task of this.#tasks.values())
        if (task.run === id && task.end === null) return `task ${task.id} of run ${id} has not ended`;
    }
    return type.startsWith("task.") ? this.#applyTaskFact(id, run, type, data) : null;
  }

  /** What a result has overtaken: only of the attempt that ended its task. */
  #checkLateFeedback(data: LoggedFact["data"]): string | null {
    const task = this.#tasks.get(String(data["task"]));
    if (task === undefined || task.end === null)
      return `${String(data["task"])} has not ended, and feedback of it is called late`;
    return task.fence === Number(data["fence"])
      ? null
      : `late feedback of ${task.id} under ${String(data["fence"])}, not ${task.fence}`;
  }

  #applyTaskFact(runId: string, run: ReplayedRun, type: string, data: LoggedFact["data"]): string | null {
    const id = String(data["task"]);
    const fence = Number(data["fence"]);
    let task = this.#tasks.get(id);
    if (task === undefined) this.#tasks.set(id, (task = { id, run: runId, fence: 0, worker: null, end: null }));
    if (task.run !== runId) return `task ${id} belongs to run ${task.run}`;
    if (task.end !== null) return `task ${id} had ended (${task.end})`;
    // Its failure follows, as its last fact.
    if (type === "task.dead" || type === "task.warning") return null;
    if (type === "task.granted") return this.#applyGrant(run, task, fence, String(data["worker"]));
    if (type === "task.requeued") {
      if (task.worker === null || task.worker !== data["from"])
        return `${id} was with ${task.worker}, not ${String(data["from"])}`;
      if (fence <= task.fence) return `fence of ${id} did not rise: ${task.fence}, then ${fence}`;
      task.fence = fence;
      task.worker = null;
      return null;
    }
    const isWord = !factsWithoutHolder.has(type);
    if (isWord && task.worker === null) return `nobody held ${id}`;
    if ((isWord || task.worker !== null) && fence !== task.fence) return `${id} is under fence ${task.fence}, not ${fence}`;
    if (isWord && data["worker"] !== undefined && data["worker"] !== task.worker)
      return `${id} was with ${task.worker}, not ${String(data["worker"])}`;
    if (taskEndFacts.has(type)) task.end = type;
    if (taskEndFacts.has(type) || type === "task.retrying") task.worker = null;
    return null;
  }

  #applyGrant(run: ReplayedRun, task: ReplayedTask, fence: number, worker: string): string | null {
    if (task.worker !== null) return `${task.id} was still with ${task.worker}`;
    if (fence <= task.fence) return `fence of ${task.id} did not rise: ${task.fence}, then ${fence}`;
    const node = run.plan.nodes[Number(task.id.slice(task.run.length + 1))];
    if (node === undefined) return `${task.id} has no node`;
    for (const before of node.before) {
      const end = this.#tasks.get(`${task.run}.${before}`)?.end;
      if (end !== "task.succeeded" && end !== "task.skipped") return `${task.id} started before node ${before} had ended well`;
    }
    const capacity = this.#capacities.get(worker);
    if (capacity === undefined || !worker.startsWith(`${this.#tenant}/`)) return `${worker} is a stranger`;
    if (node.policy.pool !== undefined && capacity.pool !== node.policy.pool) return `${worker} is in pool ${capacity.pool}`;
    task.fence = fence;
    task.worker = worker;
    this.#granted.set(task.id, worker);
    return null;
  }

  /** What must hold between any two turns. */
  #checkAfterTurn(): string | null {
    const granted = this.#granted;
    this.#granted = new Map();
    for (const [task, worker] of granted) {
      if (this.#draining.has(worker)) return `${task} was granted to ${worker}, which drains`;
      if (this.#pressured.has(worker)) return `${task} was granted to ${worker}, which is short of memory`;
      if (this.#workerPhases.get(worker) !== "online")
        return `${task} was granted to ${worker}, which is ${this.#workerPhases.get(worker)}`;
    }
    const slots = new Map<string, number>();
    const keys = new Map<string, number>();
    for (const { id, run, worker } of this.#tasks.values()) {
      if (worker === null) continue;
      const used = (slots.get(worker) ?? 0) + 1;
      slots.set(worker, used);
      if (used > (this.#capacities.get(worker)?.slots ?? 0)) return `${worker} holds ${used} attempts, more than its slots`;
      const { concurrency } = this.#runs.get(run)?.plan.nodes[Number(id.slice(run.length + 1))]?.policy ?? {};
      if (concurrency === undefined) continue;
      const holders = (keys.get(concurrency.key) ?? 0) + 1;
      keys.set(concurrency.key, holders);
      if (holders > (concurrency.limit ?? 1)) return `${holders} attempts run under key ${concurrency.key}`;
    }
    return null;
  }
}
