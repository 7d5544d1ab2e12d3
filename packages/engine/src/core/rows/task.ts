// The state machine of a task: one table of moves and one function that makes them. An attempt lasts from a grant to its end.
// Nothing here reads or writes; what follows from a move (successors, keys, iterations) is decided elsewhere.

import { type Fault, fault } from "@astraflow/protocol";
import type { EndedTask, LeasedTask, Millis, QueueName, TaskRow, TaskRowPhase, WorkerId } from "../../storage/rows.ts";
import { requireLegalMove } from "./invariant-broken.ts";
import { type RowAfter, type Steps, takeStep } from "./moves.ts";

export type TaskTransition =
  | { readonly type: "arrive" }
  /** Other tasks carry it out: a container or a host with middlewares. */
  | { readonly type: "host"; readonly params: string | null }
  | { readonly type: "ready"; readonly line: QueueName; readonly due: Millis | null; readonly params: string | null }
  | { readonly type: "park"; readonly line: QueueName; readonly due: Millis | null; readonly params: string | null }
  /** It waits for another worker from now on, or for any. `queue` is null for a parked task: it stays where it is. */
  | {
      readonly type: "repin";
      readonly pin: WorkerId | null;
      readonly queue: { readonly line: QueueName; readonly due: Millis | null } | null;
    }
  | {
      readonly type: "grant";
      readonly worker: WorkerId;
      readonly boot: string;
      readonly epoch: number;
      readonly due: Millis | null;
    }
  /** `due`: when the attempt must be over. */
  | { readonly type: "ack"; readonly due: Millis | null }
  /** Kept over a join. `acked: false`: a resumed session has not acked its dispatch yet. */
  | {
      readonly type: "rebind";
      readonly boot: string;
      readonly epoch: number;
      readonly acked: boolean;
      readonly due: Millis | null;
    }
  | { readonly type: "requeue"; readonly line: QueueName; readonly due: Millis | null }
  /** Refused by its worker without a verdict: queued again when its pause is over. Not counted as a delivery. */
  | { readonly type: "defer"; readonly due: Millis }
  /** At once, or when its pause is over. */
  | { readonly type: "retry"; readonly line: QueueName; readonly due: Millis | null; readonly key: string | null }
  | { readonly type: "retry"; readonly line: null; readonly due: Millis; readonly key: string | null }
  | { readonly type: "succeed" | "skip"; readonly result: string }
  | { readonly type: "fail"; readonly error: string; readonly result: string | null }
  | { readonly type: "cancel"; readonly error: string | null };

/** Every move a task can make; any other is refused. docs/architecture.md draws this table. */
export const taskMoves = {
  waiting: {
    arrive: ["waiting"],
    ready: ["ready"],
    park: ["parked"],
    host: ["hosting"],
    // What was done before this run need not be done again.
    succeed: ["succeeded"],
    skip: ["skipped"],
    fail: ["failed"],
    cancel: ["cancelled"],
  },
  parked: { repin: ["parked"], ready: ["ready"], park: ["parked"], skip: ["skipped"], cancel: ["cancelled"], fail: ["failed"] },
  ready: { repin: ["ready"], grant: ["leased"], park: ["parked"], skip: ["skipped"], cancel: ["cancelled"], fail: ["failed"] },
  hosting: { succeed: ["succeeded"], skip: ["skipped"], fail: ["failed"], cancel: ["cancelled"] },
  leased: {
    ack: ["leased"],
    rebind: ["leased"],
    requeue: ["ready"],
    defer: ["parked"],
    retry: ["parked", "ready"],
    succeed: ["succeeded"],
    skip: ["skipped"],
    fail: ["failed"],
    cancel: ["cancelled"],
  },
  succeeded: {},
  failed: {},
  cancelled: {},
  skipped: {},
} as const satisfies Record<TaskRowPhase, Partial<Record<TaskTransition["type"], readonly TaskRowPhase[]>>>;

/** The moves of one attempt: what may happen to a leased task depends on whether its worker has acked it. An ack is stored once. */
export const attemptMoves = {
  granted: {
    ack: ["acked"],
    rebind: ["granted", "acked"],
    succeed: ["ended"],
    skip: ["ended"],
    fail: ["ended"],
    cancel: ["ended"],
    requeue: ["revoked"],
    defer: ["revoked"],
    retry: ["revoked"],
  },
  acked: {
    rebind: ["acked"],
    succeed: ["ended"],
    skip: ["ended"],
    fail: ["ended"],
    cancel: ["ended"],
    requeue: ["revoked"],
    defer: ["revoked"],
    retry: ["revoked"],
  },
  revoked: {},
  ended: {},
} as const satisfies Record<string, Partial<Record<TaskTransition["type"], readonly string[]>>>;

export type TaskAttemptPhase = keyof typeof attemptMoves;

/** The phase of a task's last attempt; a task without a worker has had its last one revoked, or none yet. */
export function attemptPhase(task: TaskRow): TaskAttemptPhase {
  if (task.phase === "leased") return task.acked ? "acked" : "granted";
  return isEnded(task) && task.worker !== null ? "ended" : "revoked";
}

export const isEnded = (task: TaskRow): task is EndedTask =>
  task.phase === "succeeded" || task.phase === "failed" || task.phase === "cancelled" || task.phase === "skipped";

/** Strictly increasing even when a backup of yesterday is restored: the clock has moved on meanwhile. */
export const nextFence = (previous: number, now: Millis): number => Math.max(previous + 1, now);

const taskSteps: Steps<TaskRow, TaskTransition, typeof taskMoves> = {
  arrive: (task) => ({ ...task, needs: task.needs - 1 }),
  host: (task, { params }, now) => ({ ...task, phase: "hosting", needs: 0, readyAt: now, params }),
  ready: (task, { line, due, params }, now) => ({
    ...task,
    phase: "ready",
    needs: 0,
    line,
    rank: null,
    due,
    readyAt: now,
    params,
  }),
  park: (task, { line, due, params }, now) => ({
    ...task,
    phase: "parked",
    needs: 0,
    line,
    rank: null,
    due,
    readyAt: now,
    params,
  }),
  repin: (task, { pin, queue }) =>
    task.phase === "parked" || queue === null
      ? { ...task, pin }
      : { ...task, pin, line: queue.line, rank: queue.line === task.line ? task.rank : null, due: queue.due },
  grant: (task, { worker, boot, epoch, due }, now) => ({
    ...task,
    phase: "leased",
    line: null,
    rank: null,
    fence: nextFence(task.fence, now),
    attempt: task.attempt + 1,
    // Counted before the dispatch leaves: a task that kills its worker must not be granted for ever.
    deliveries: task.deliveries + 1,
    worker,
    boot,
    epoch,
    acked: false,
    due,
    grantedAt: now,
  }),
  ack: (task, { due }) => ({ ...task, acked: true, due }),
  rebind: (task, { boot, epoch, acked, due }) => ({ ...task, boot, epoch, acked: task.acked || acked, due }),
  requeue: (task, { line, due }, now) => ({ ...withoutHolder(task, now), phase: "ready", line, due }),
  defer: (task, { due }, now) => ({
    ...withoutHolder(task, now),
    phase: "parked",
    line: null,
    due,
    deliveries: Math.max(0, task.deliveries - 1),
  }),
  retry: (task, event, now) => {
    const { line, due, key } = event;
    const freed = withoutHolder(task, now);
    const failures = task.failures + 1;
    return line === null
      ? { ...freed, phase: "parked", line, due, deliveries: 0, failures, key }
      : { ...freed, phase: "ready", line, due, deliveries: 0, failures, key };
  },
  succeed: (task, { result }, now) => ({ ...task, phase: "succeeded", line: null, rank: null, due: null, endedAt: now, result }),
  skip: (task, { result }, now) => ({ ...task, phase: "skipped", line: null, rank: null, due: null, endedAt: now, result }),
  fail: (task, { error, result }, now) => ({
    ...task,
    phase: "failed",
    line: null,
    rank: null,
    due: null,
    endedAt: now,
    result,
    error,
  }),
  cancel: (task, { error }, now) => ({ ...task, phase: "cancelled", line: null, rank: null, due: null, endedAt: now, error }),
};

/** A task taken from its holder: the fence rises in the same write, so reports of the old holder are refused. */
const withoutHolder = (task: LeasedTask, now: Millis) => ({
  ...task,
  rank: null,
  fence: nextFence(task.fence, now),
  worker: null,
  boot: null,
  epoch: 0,
  acked: false,
  readyAt: now,
});

type TaskAfter<R extends TaskRow, E extends TaskTransition> = RowAfter<R, E, typeof taskMoves, TaskRow>;

export function stepTask<R extends TaskRow, E extends TaskTransition>(task: R, event: E, now: Millis): TaskAfter<R, E> | Fault {
  const isAllowed =
    event.type in taskMoves[task.phase] && (task.phase !== "leased" || event.type in attemptMoves[attemptPhase(task)]);
  if (!isAllowed)
    return fault("E.TASK.MOVE_REFUSED", `task ${task.id} is ${task.phase} and cannot ${event.type}`, {
      task: task.id,
      phase: task.phase,
    });
  return takeStep(taskSteps, task, event, now);
}

export function applyTaskTransition<R extends TaskRow, E extends TaskTransition>(
  task: R,
  event: E,
  now: Millis,
): TaskAfter<R, E> {
  return requireLegalMove(stepTask(task, event, now));
}
