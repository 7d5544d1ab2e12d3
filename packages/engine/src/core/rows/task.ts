// The state machine of a task: one table of moves and one function that makes them. An attempt lasts from a grant to its end.
// Nothing here reads or writes; what follows from a move (successors, keys, iterations) is decided elsewhere.

import { type Fault, fault } from "@astraflow/protocol";
import type { Millis, QueueName, TaskRow, TaskRowPhase, WorkerId } from "../../storage/rows.ts";
import { requireLegalMove } from "./invariant-broken.ts";

export type TaskTransition =
  | { readonly type: "arrive" }
  /** Other tasks carry it out: a container or a host with middlewares. */
  | { readonly type: "host"; readonly params: string | null }
  | { readonly type: "ready"; readonly line: QueueName; readonly due: Millis | null; readonly params: string | null }
  | { readonly type: "park"; readonly line: QueueName | null; readonly due: Millis | null; readonly params: string | null }
  /** It waits for another worker from now on, or for any. A task that waits for a concurrency key stays in that queue. */
  | { readonly type: "repin"; readonly pin: WorkerId | null; readonly line: QueueName | null; readonly due: Millis | null }
  | {
      readonly type: "grant";
      readonly worker: WorkerId;
      readonly boot: string;
      readonly epoch: number;
      readonly due: Millis | null;
    }
  | { readonly type: "ack" }
  /** Kept over a join. `acked: false`: a resumed session has not acked its dispatch yet. */
  | { readonly type: "rebind"; readonly boot: string; readonly epoch: number; readonly acked: boolean }
  | { readonly type: "requeue"; readonly line: QueueName; readonly due: Millis | null }
  | { readonly type: "retry"; readonly line: QueueName | null; readonly due: Millis | null; readonly key: string | null }
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
    retry: ["revoked"],
  },
  acked: {
    rebind: ["acked"],
    succeed: ["ended"],
    skip: ["ended"],
    fail: ["ended"],
    cancel: ["ended"],
    requeue: ["revoked"],
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

export const isEnded = (task: TaskRow): boolean =>
  task.phase === "succeeded" || task.phase === "failed" || task.phase === "cancelled" || task.phase === "skipped";

/** Strictly increasing even when a backup of yesterday is restored: the clock has moved on meanwhile. */
export const nextFence = (previous: number, now: Millis): number => Math.max(previous + 1, now);

export function stepTask(task: TaskRow, event: TaskTransition, now: Millis): TaskRow | Fault {
  const isAllowed =
    event.type in taskMoves[task.phase] && (task.phase !== "leased" || event.type in attemptMoves[attemptPhase(task)]);
  if (!isAllowed)
    return fault("E.TASK.MOVE_REFUSED", `task ${task.id} is ${task.phase} and cannot ${event.type}`, {
      task: task.id,
      phase: task.phase,
    });
  switch (event.type) {
    case "arrive":
      return { ...task, needs: task.needs - 1 };
    case "host":
      return { ...task, phase: "hosting", needs: 0, readyAt: now, params: event.params };
    case "ready":
    case "park":
      return {
        ...task,
        phase: event.type === "ready" ? "ready" : "parked",
        needs: 0,
        line: event.line,
        rank: null,
        due: event.due,
        readyAt: now,
        params: event.params,
      };
    case "repin":
      return { ...task, pin: event.pin, line: event.line, rank: event.line === task.line ? task.rank : null, due: event.due };
    case "grant":
      return {
        ...task,
        phase: "leased",
        line: null,
        rank: null,
        fence: nextFence(task.fence, now),
        attempt: task.attempt + 1,
        // Counted before the dispatch leaves: a task that kills its worker must not be granted for ever.
        deliveries: task.deliveries + 1,
        worker: event.worker,
        boot: event.boot,
        epoch: event.epoch,
        acked: false,
        due: event.due,
        grantedAt: now,
      };
    case "ack":
      return { ...task, acked: true };
    case "rebind":
      return { ...task, boot: event.boot, epoch: event.epoch, acked: task.acked || event.acked };
    case "requeue":
      return { ...withoutHolder(task, now), phase: "ready", line: event.line, rank: null, due: event.due, readyAt: now };
    case "retry":
      return {
        ...withoutHolder(task, now),
        phase: event.line === null || event.line.startsWith("k|") ? "parked" : "ready",
        line: event.line,
        rank: null,
        due: event.due,
        readyAt: now,
        deliveries: 0,
        failures: task.failures + 1,
        key: event.key,
      };
    case "succeed":
    case "skip":
      return { ...withEndTime(task, now), phase: event.type === "succeed" ? "succeeded" : "skipped", result: event.result };
    case "fail":
      return { ...withEndTime(task, now), phase: "failed", result: event.result, error: event.error };
    case "cancel":
      return { ...withEndTime(task, now), phase: "cancelled", error: event.error };
  }
}

/** A task taken from its holder: the fence rises in the same write, so reports of the old holder are refused. */
function withoutHolder(task: TaskRow, now: Millis): TaskRow {
  return { ...task, fence: nextFence(task.fence, now), worker: null, boot: null, epoch: 0, acked: false };
}

function withEndTime(task: TaskRow, now: Millis): TaskRow {
  return { ...task, line: null, rank: null, due: null, endedAt: now };
}

export function applyTaskTransition(task: TaskRow, event: TaskTransition, now: Millis): TaskRow {
  return requireLegalMove(stepTask(task, event, now));
}
