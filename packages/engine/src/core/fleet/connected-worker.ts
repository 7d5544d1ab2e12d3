// A worker whose session is at this scheduler, the attempts it holds, and how one change alters it. In memory only.

import type { AttemptRef, WorkerDescription } from "../../interface/command.ts";
import type { Millis, RunId, TaskId, Tenant, WorkerId, WorkerRow } from "../../storage/rows.ts";
import type { SessionLiveness } from "../rows/worker.ts";
import { readCondition } from "../rows/worker-condition.ts";

export interface LeasedAttempt extends AttemptRef {
  readonly run: RunId;
  readonly nodeType: string;
  /** When it was granted or, if it was sent again since, when that was: from here its ack deadline runs. */
  grantedAt: Millis;
  acked: boolean;
  /** Not acked in time and not to be repeated: it stays with the worker until a report, a heartbeat, a join or the lease decides. */
  isAwaited?: boolean;
  /** When the worker last reported anything about it; absent before the first ack. */
  reportedAt?: Millis;
  /** The ack is in the store too, or never needs to be. */
  stored: boolean;
  /** When it was kept over the join of a worker that cannot report, or silent for too long: its dispatch will be sent again. Null: no need to. */
  recheckFrom: Millis | null;
  /** Its dispatch was sent to this worker more than once. */
  isSentAgain?: true;
  /** The worker reported that an attempt of this task still runs there; it may be one under an older fence. */
  isRunningOlder: boolean;
  /** A middleware that waits for what it called: it takes no slot meanwhile, or a worker with one slot would wait for itself. */
  isWaiting?: boolean;
}

/** An attempt that is over for the scheduler, at a worker that cannot stop it: its handler runs on and takes a slot. */
export interface UnstoppedAttempt extends AttemptRef {
  readonly nodeType: string;
  readonly grantedAt: Millis;
  /** One that is not acked in time never began. */
  acked: boolean;
  /** When its slot counts as free, if its outcome has not arrived by then. */
  until: Millis;
}

/** By task and fence. */
export type UnstoppedAttempts = Map<string, UnstoppedAttempt>;

export const unstoppedKey = ({ task, fence }: AttemptRef): string => `${task}#${fence}`;

export interface ConnectedWorker {
  readonly worker: WorkerId;
  readonly tenant: Tenant;
  readonly name: string;
  readonly session: string;
  readonly boot: string;
  readonly epoch: number;
  /** As it announced itself, but for versions that are withdrawn: the fleet marks them. */
  about: WorkerDescription;
  draining: boolean;
  healthy: boolean;
  /** What it has too little of to get anything new; null when nothing. */
  resourcePressure: string | null;
  liveness: SessionLiveness;
  heartbeatAt: Millis;
  /** Whether its last heartbeat named the attempts it holds; absent before the first one of this session. */
  hasList?: boolean;
  /** Since when every check has found no free slot here; null when the last one found some. */
  fullSince: Millis | null;
  isSaturated: boolean;
  readonly attempts: Map<TaskId, LeasedAttempt>;
  /** How many of them wait in `next`; maintained by the fleet. */
  waitingCount?: number;
  /** Absent while there is none. */
  unstopped?: UnstoppedAttempts;
  /** Tasks that it handed back in this session and gets again only after this time; absent while there is none. */
  handedBack?: Map<TaskId, Millis>;
}

/** The connection as its row shows it. */
export function newConnectedWorker(
  row: WorkerRow,
  session: string,
  about: WorkerDescription,
  now: Millis,
  attempts: ConnectedWorker["attempts"] = new Map(),
): ConnectedWorker {
  const { id: worker, tenant, name, boot, epoch, draining } = row;
  const { healthy, strain: resourcePressure, saturatedAt: fullSince } = readCondition(row.condition);
  const load = { fullSince, isSaturated: fullSince !== null, liveness: "fresh", heartbeatAt: now } as const;
  return { worker, tenant, name, session, boot, epoch, about, draining, healthy, resourcePressure, ...load, attempts };
}

/** Slots of the connected worker that its attempts take, and handlers that it could not stop. */
export const usedSlots = ({ attempts, waitingCount = 0, unstopped }: ConnectedWorker): number =>
  attempts.size - waitingCount + (unstopped?.size ?? 0);

/** The worker's own id: names are for people and may repeat, series of numbers must not meet. */
export const instanceIdOf = ({ worker, tenant }: Pick<ConnectedWorker, "worker" | "tenant">): string =>
  worker.slice(tenant.length + 1);

/** One attempt of a connected worker. */
export interface HeldAttempt extends AttemptRef {
  readonly worker: WorkerId;
}

export const isSameAttempt = (a: AttemptRef, b: AttemptRef): boolean => a.task === b.task && a.fence === b.fence;

/** What happens to one connected worker. */
export type WorkerChange =
  | { readonly type: "describe"; readonly worker: WorkerId; readonly about: WorkerDescription }
  | {
      readonly type: "heartbeat";
      readonly worker: WorkerId;
      readonly at: Millis;
      readonly healthy: boolean;
      readonly resourcePressure: string | null;
      /** It named the attempts that the worker holds. */
      readonly hasList: boolean;
    }
  | { readonly type: "load"; readonly worker: WorkerId; readonly since: Millis | null; readonly isSaturated: boolean }
  | { readonly type: "liveness"; readonly worker: WorkerId; readonly liveness: SessionLiveness }
  | { readonly type: "drain"; readonly worker: WorkerId; readonly on: boolean }
  | { readonly type: "grant"; readonly worker: WorkerId; readonly attempt: LeasedAttempt }
  /** `at`: when the worker reported it; absent where the ack is only stored. */
  | (HeldAttempt & { readonly type: "ack"; readonly stored: boolean; readonly at?: Millis; readonly isRunningOlder?: true })
  /** Its ack deadline has passed, and it is left with the worker. */
  | (HeldAttempt & { readonly type: "await" })
  /** Nothing was reported of it for too long: it is to be rechecked. */
  | (HeldAttempt & { readonly type: "doubt"; readonly at: Millis })
  /** It need not be rechecked any more; `sentAt`: its dispatch was sent again then, and a new ack is awaited. */
  | (HeldAttempt & { readonly type: "recheck"; readonly sentAt: Millis | null })
  /** A middleware begins to wait for its call, or goes on: its slot is free meanwhile. */
  | (HeldAttempt & { readonly type: "wait"; readonly nodeType: string; readonly isWaiting: boolean })
  /** `wasWaiting`: its slot was free already. `unstoppedUntil`: the worker cannot stop it, so its slot is taken until then. */
  | (HeldAttempt & { readonly type: "release"; readonly wasWaiting?: boolean; readonly unstoppedUntil?: Millis })
  /** A handler that the worker could not stop is over, or given up. */
  | (HeldAttempt & { readonly type: "free-slot"; readonly nodeType: string })
  /** It handed a task back and does not get it again until then; null: it may. */
  | { readonly type: "hand-back"; readonly worker: WorkerId; readonly task: TaskId; readonly until: Millis | null };

export function applyToWorker(connected: ConnectedWorker, change: WorkerChange): void {
  switch (change.type) {
    case "grant": {
      // An older attempt of the task that was never released here: if it waited, its slot must not count as free any more.
      const older = connected.attempts.get(change.attempt.task);
      if (older !== undefined) setWaiting(connected, older, false);
      connected.attempts.set(change.attempt.task, change.attempt);
      return;
    }
    case "heartbeat":
      connected.heartbeatAt = change.at;
      connected.hasList = change.hasList;
      connected.healthy = change.healthy;
      connected.resourcePressure = change.resourcePressure;
      connected.liveness = "fresh";
      return;
    case "load":
      connected.fullSince = change.since;
      connected.isSaturated = change.isSaturated;
      return;
    case "liveness":
      connected.liveness = change.liveness;
      return;
    case "drain":
      connected.draining = change.on;
      return;
    case "describe":
      connected.about = change.about;
      return;
    case "hand-back":
      if (change.until === null) connected.handedBack?.delete(change.task);
      else (connected.handedBack ??= new Map()).set(change.task, change.until);
      return;
    case "free-slot":
      connected.unstopped?.delete(unstoppedKey(change));
      return;
    default: {
      const attempt = connected.attempts.get(change.task);
      if (attempt?.fence === change.fence) return applyToAttempt(connected, attempt, change);
      const unstopped = change.type === "ack" ? connected.unstopped?.get(unstoppedKey(change)) : undefined;
      if (unstopped !== undefined) unstopped.acked = true;
    }
  }
}

function applyToAttempt(
  connected: ConnectedWorker,
  attempt: LeasedAttempt,
  change: Exclude<Extract<WorkerChange, { task: TaskId }>, { type: "free-slot" | "hand-back" }>,
): void {
  switch (change.type) {
    case "ack":
      attempt.acked = true;
      attempt.isAwaited = false;
      if (change.at !== undefined) attempt.reportedAt = change.at;
      if (change.stored) attempt.stored = true;
      if (change.isRunningOlder === true) attempt.isRunningOlder = true;
      return;
    case "await":
      attempt.isAwaited = true;
      return;
    case "doubt":
      attempt.recheckFrom = change.at;
      return;
    case "recheck":
      attempt.recheckFrom = null;
      if (change.sentAt === null) return;
      attempt.acked = false;
      attempt.isSentAgain = true;
      attempt.grantedAt = change.sentAt;
      return;
    case "wait":
      setWaiting(connected, attempt, change.isWaiting);
      return;
    case "release":
      setWaiting(connected, attempt, false);
      connected.attempts.delete(change.task);
      if (change.unstoppedUntil !== undefined) keepSlot(connected, attempt, change.unstoppedUntil);
  }
}

function keepSlot(connected: ConnectedWorker, attempt: LeasedAttempt, until: Millis): void {
  const { task, fence, nodeType, grantedAt } = attempt;
  const acked = attempt.acked || attempt.isSentAgain === true;
  connected.unstopped ??= new Map();
  connected.unstopped.set(unstoppedKey(attempt), { task, fence, nodeType, grantedAt, acked, until });
}

function setWaiting(connected: ConnectedWorker, attempt: LeasedAttempt, isWaiting: boolean): void {
  if ((attempt.isWaiting === true) === isWaiting) return;
  attempt.isWaiting = isWaiting;
  connected.waitingCount = (connected.waitingCount ?? 0) + (isWaiting ? 1 : -1);
}
