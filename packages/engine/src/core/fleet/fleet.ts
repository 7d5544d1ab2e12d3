// The workers connected to this replica and the queues that may have tasks, in memory only: after a restart workers join again.
// Changes are recorded during a turn and applied after its commit, so a turn that fails leaves no trace here.

import { LruMap } from "@astraflow/protocol";
import type { Millis, QueueName, RouteId, Tenant, WorkerId } from "../../storage/rows.ts";
import {
  applyToWorker,
  type ConnectedWorker,
  type HeldAttempt,
  type LeasedAttempt,
  type UnstoppedAttempts,
  unstoppedKey,
  type WorkerChange,
} from "./connected-worker.ts";
import { findMismatch, markWithdrawn, parseQueueName, queueName, type TaskRequirements } from "./route.ts";

export type FleetChange =
  | WorkerChange
  /** `unstoppedUntil`: outcomes may have been lost with the session before, so slots of unstopped attempts count as free then. */
  | { readonly type: "connect"; readonly connected: ConnectedWorker; readonly unstoppedUntil?: Millis }
  /** The lease of its process is over. */
  | { readonly type: "lose"; readonly worker: WorkerId }
  | { readonly type: "disconnect"; readonly worker: WorkerId; readonly session: string }
  /** The worker's row was read and agrees with the fleet. */
  | { readonly type: "verify"; readonly worker: WorkerId }
  /** All withdrawn versions of the tenant, as `name@version`. */
  | { readonly type: "withdraw"; readonly tenant: Tenant; readonly versions: ReadonlySet<string> }
  | { readonly type: "route"; readonly route: RouteId; readonly needs: TaskRequirements }
  | { readonly type: "activate" | "deactivate" | "stall"; readonly line: QueueName };

/** Effects of turns that are decided and not applied yet: the fleet may be behind the store about these workers. */
export interface PendingChanges {
  /** Whose connected workers they change, or whose own commands wait for them to land: these get no grants. */
  readonly unsettledWorkers: ReadonlySet<WorkerId>;
  /** Workers they concern in any way: nobody is judged by reports that are not applied yet. */
  readonly concernedWorkers: ReadonlySet<WorkerId>;
  /** What they grant. */
  readonly grantedAttempts: ReadonlyMap<WorkerId, readonly LeasedAttempt[]>;
}

export const noPendingChanges: PendingChanges = {
  unsettledWorkers: new Set(),
  concernedWorkers: new Set(),
  grantedAttempts: new Map(),
};

export interface AttemptTimer extends HeldAttempt {
  readonly at: Millis;
}

/** In the order they pass: a list has one constant delay, so the oldest is first and no turn walks it all. */
class AttemptDeadlines {
  readonly #isPending: (timer: AttemptTimer) => boolean;
  #timers: AttemptTimer[] = [];

  /** `isPending`: whether what the timer waits for can still happen. */
  constructor(isPending: (timer: AttemptTimer) => boolean) {
    this.#isPending = isPending;
  }

  push(timer: AttemptTimer): void {
    this.#timers.push(timer);
  }

  /** Those that began at this instant or before. */
  startedUntil(at: Millis): AttemptTimer[] {
    this.#trim();
    const old: AttemptTimer[] = [];
    for (const timer of this.#timers) {
      if (timer.at > at) break;
      if (this.#isPending(timer)) old.push(timer);
    }
    return old;
  }

  /** When the oldest one began. */
  get oldestStart(): Millis | null {
    this.#trim();
    return this.#timers[0]?.at ?? null;
  }

  /** Drops the finished ones at the front; those further back wait until they get there. */
  #trim(): void {
    let done = 0;
    while (done < this.#timers.length && !this.#isPending(this.#timers[done] as AttemptTimer)) done++;
    if (done > 0) this.#timers = this.#timers.slice(done);
  }
}

/** Absent workers whose unstopped attempts are remembered. */
const absentMax = 10_000;

export class Fleet {
  readonly workers = new Map<WorkerId, ConnectedWorker>();
  readonly routes = new Map<RouteId, TaskRequirements>();
  /** Queues that may have tasks in the store; a queue leaves when a claim finds its end. */
  readonly activeQueues = new Set<QueueName>();
  /** Active queues whose head could not be placed although there were free slots; tried again when a worker changes. */
  readonly stalledQueues = new Set<QueueName>();
  /** What turns that are decided and not yet finished mean for the others. */
  pendingChanges: PendingChanges = noPendingChanges;
  /** Workers whose row was not as the fleet shows them: verified before they get another task. */
  readonly unverifiedWorkers = new Set<WorkerId>();
  /** Of processes whose session has ended and that may join again: what they could not stop. */
  readonly #unstoppedOfAbsent = new LruMap<WorkerId, { readonly boot: string; readonly unstopped: UnstoppedAttempts }>({
    entriesMax: absentMax,
  });
  readonly #withdrawn = new Map<Tenant, ReadonlySet<string>>();
  readonly #matchingWorkers = new Map<RouteId, ConnectedWorker[]>();
  readonly #queueNames = new Map<RouteId, QueueName>();
  /** Where the next search for a connected worker of a route begins. A preference only: losing it costs nothing. */
  readonly roundRobinStarts = new Map<RouteId, number>();
  /** All three are a constant delay after a grant or a join. A dispatch that is sent again starts a new timer and ends the first. */
  readonly #unacked = new AttemptDeadlines((timer) => {
    const attempt = this.#attemptOfGrant(timer);
    return attempt?.acked === false && attempt.isAwaited !== true;
  });
  readonly #unstored = new AttemptDeadlines((timer) => this.#attemptOfGrant(timer)?.stored === false);
  readonly #rechecks = new AttemptDeadlines((timer) => this.#attemptOf(timer)?.recheckFrom === timer.at);

  workerInSession(worker: WorkerId, session: string): ConnectedWorker | null {
    const connected = this.workers.get(worker);
    return connected !== undefined && connected.session === session ? connected : null;
  }

  /** Connected workers that can run this route, in the order they joined. */
  matchingWorkers(route: RouteId): readonly ConnectedWorker[] {
    let matching = this.#matchingWorkers.get(route);
    if (matching === undefined) {
      const requirements = this.routes.get(route);
      matching =
        requirements === undefined
          ? []
          : [...this.workers.values()].filter((connected) => findMismatch(requirements, connected) === null);
      this.#matchingWorkers.set(route, matching);
    }
    return matching;
  }

  /** The queue of a route. One string for all its tasks, so that lookups need no new hash; the number of routes limits it. */
  queueFor(route: RouteId, pin: WorkerId | null): QueueName {
    const known = pin === null ? this.#queueNames.get(route) : undefined;
    if (known !== undefined) return known;
    const queue = queueName(route, pin);
    if (pin === null && this.routes.has(route)) this.#queueNames.set(route, queue);
    return queue;
  }

  apply(change: FleetChange): void {
    if (this.stalledQueues.size > 0 && !freesNoSlot(change)) this.stalledQueues.clear();
    switch (change.type) {
      case "connect":
        this.#inheritUnstopped(change.connected, change.unstoppedUntil);
        this.workers.set(change.connected.worker, change.connected);
        change.connected.waitingCount = [...change.connected.attempts.values()].filter(
          (attempt) => attempt.isWaiting === true,
        ).length;
        this.unverifiedWorkers.delete(change.connected.worker);
        for (const attempt of change.connected.attempts.values()) this.#startTimers(change.connected.worker, attempt);
        this.#workerChanged(change.connected);
        break;
      case "disconnect":
        if (this.workerInSession(change.worker, change.session) !== null) this.#removeWorker(change.worker);
        this.unverifiedWorkers.delete(change.worker);
        this.#matchingWorkers.clear();
        break;
      case "lose":
        this.#unstoppedOfAbsent.delete(change.worker);
        break;
      case "verify":
        this.unverifiedWorkers.delete(change.worker);
        break;
      case "withdraw":
        this.#withdrawn.set(change.tenant, change.versions);
        for (const connected of this.workers.values()) if (connected.tenant === change.tenant) this.#workerChanged(connected);
        break;
      case "route":
        this.routes.set(change.route, change.needs);
        this.#matchingWorkers.delete(change.route);
        break;
      case "activate": {
        // Ignore queues pinned to a worker connected elsewhere; when it connects here its queues are activated.
        const pin = parseQueueName(change.line)?.pin ?? null;
        if (pin === null || this.workers.has(pin)) this.activeQueues.add(change.line);
        break;
      }
      case "deactivate":
        this.activeQueues.delete(change.line);
        break;
      case "stall":
        this.stalledQueues.add(change.line);
        break;
      default: {
        const connected = this.workers.get(change.worker);
        if (connected === undefined) {
          if (change.type === "free-slot") this.#unstoppedOfAbsent.get(change.worker)?.unstopped.delete(unstoppedKey(change));
          break;
        }
        applyToWorker(connected, change);
        if (change.type === "describe") this.#workerChanged(connected);
        if (change.type === "grant") this.#startTimers(change.worker, change.attempt);
        if (change.type === "doubt") this.#rechecks.push(change);
        if (change.type === "recheck" && change.sentAt !== null) {
          const attempt = connected.attempts.get(change.task);
          if (attempt?.fence === change.fence) this.#startTimers(change.worker, attempt);
        }
      }
    }
  }

  /** What the process of an absent worker could not stop. */
  unstoppedOfAbsent(worker: WorkerId, boot: string): UnstoppedAttempts | undefined {
    const absent = this.#unstoppedOfAbsent.get(worker);
    return absent?.boot === boot ? absent.unstopped : undefined;
  }

  #removeWorker(worker: WorkerId): void {
    const { boot, unstopped } = this.workers.get(worker) ?? {};
    this.workers.delete(worker);
    if (boot !== undefined && unstopped !== undefined && unstopped.size > 0)
      this.#unstoppedOfAbsent.set(worker, { boot, unstopped });
  }

  /** A new session of the same process: what it could not stop before may still run. */
  #inheritUnstopped(connected: ConnectedWorker, until: Millis | undefined): void {
    const { worker, boot } = connected;
    const before = this.workers.get(worker);
    const unstopped =
      before === undefined ? this.unstoppedOfAbsent(worker, boot) : before.boot === boot ? before.unstopped : undefined;
    this.#unstoppedOfAbsent.delete(worker);
    if (unstopped === undefined) return;
    if (until !== undefined) for (const attempt of unstopped.values()) attempt.until = Math.min(attempt.until, until);
    connected.unstopped = unstopped;
  }

  #startTimers(worker: WorkerId, { task, fence, acked, stored, grantedAt, recheckFrom }: LeasedAttempt): void {
    if (!acked) this.#unacked.push({ worker, task, fence, at: grantedAt });
    if (!stored) this.#unstored.push({ worker, task, fence, at: grantedAt });
    if (recheckFrom !== null) this.#rechecks.push({ worker, task, fence, at: recheckFrom });
  }

  /** A new or changed worker may serve queues that no other worker here could serve before. */
  #workerChanged(connected: ConnectedWorker): void {
    connected.about = markWithdrawn(connected.about, this.#withdrawn.get(connected.tenant));
    this.#matchingWorkers.clear();
    for (const [route, requirements] of this.routes) {
      if (findMismatch(requirements, connected) !== null) continue;
      this.activeQueues.add(`r|${route}`);
      this.activeQueues.add(`r|${route}|${connected.worker}`);
    }
  }

  /** Every queue that a worker here can serve may have tasks. */
  activateServedQueues(): void {
    for (const route of this.routes.keys())
      if (this.matchingWorkers(route).length > 0) this.apply({ type: "activate", line: `r|${route}` });
  }

  /** Claimed queues go behind the others, so that more queues than fit into a turn take turns. */
  moveToBack(queues: readonly QueueName[]): void {
    for (const queue of queues) {
      this.activeQueues.delete(queue);
      this.activeQueues.add(queue);
    }
  }

  /** Grants older than `ms` without an ack. */
  unackedGrants(now: Millis, ms: number): AttemptTimer[] {
    return this.#unacked.startedUntil(now - ms);
  }

  /** Acked attempts older than `ms` whose ack is only in memory. */
  unstoredAcks(now: Millis, ms: number): AttemptTimer[] {
    return this.#unstored.startedUntil(now - ms).filter((timer) => this.#attemptOfGrant(timer)?.acked === true);
  }

  /** Attempts kept `ms` ago over the join of a worker that cannot report, or silent for too long then, and not rechecked since. */
  attemptsToRecheck(now: Millis, ms: number): AttemptTimer[] {
    return this.#rechecks.startedUntil(now - ms);
  }

  /** When the next of these deadlines passes; a recheck that is overdue waits for the next turn. */
  nextDeadline(now: Millis, ackMs: number, recheckMs: number): Millis | null {
    const [ack, asked] = [this.#unacked.oldestStart, this.#rechecks.oldestStart];
    const recheckAt = asked === null || asked + recheckMs <= now ? null : asked + recheckMs;
    if (ack === null) return recheckAt;
    return recheckAt === null ? ack + ackMs : Math.min(ack + ackMs, recheckAt);
  }

  #attemptOf(timer: AttemptTimer): LeasedAttempt | undefined {
    const attempt = this.workers.get(timer.worker)?.attempts.get(timer.task);
    return attempt?.fence === timer.fence ? attempt : undefined;
  }

  /** The attempt of a grant's timer: a dispatch that was sent again has a newer timer. */
  #attemptOfGrant(timer: AttemptTimer): LeasedAttempt | undefined {
    const attempt = this.#attemptOf(timer);
    return attempt?.grantedAt === timer.at ? attempt : undefined;
  }

  /** Sessions without a free slot for long, by tenant. */
  get saturatedByTenant(): Record<Tenant, number> {
    const counts: Record<Tenant, number> = {};
    for (const { tenant, isSaturated } of this.workers.values()) if (isSaturated) counts[tenant] = (counts[tenant] ?? 0) + 1;
    return counts;
  }

  get attemptCount(): number {
    let held = 0;
    for (const connected of this.workers.values()) held += connected.attempts.size;
    return held;
  }
}

/** Changes after which no worker has more free slots than before. */
const freesNoSlot = ({ type }: FleetChange): boolean =>
  type === "stall" || type === "ack" || type === "await" || type === "doubt" || type === "recheck" || type === "load";
