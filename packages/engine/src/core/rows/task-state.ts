// What a task's row holds besides its phase, as data: reported progress, open calls, iterations and so on. The only reader and
// writer of `TaskRow.state`.

import type { FaultData, ReportedArtifact } from "../../interface/command.ts";
import type { ResourceRef } from "../../interface/effect.ts";
import type { Millis, TaskId, TaskRow, WorkerId } from "../../storage/rows.ts";
import { parsedColumn } from "./parsed-column.ts";

export interface TaskState {
  /** What the node last reported about itself. */
  readonly said?: ReportedProgress;
  /** Results as feedback has merged them so far; the result itself takes their place. */
  readonly results?: Readonly<Record<string, unknown>>;
  /** Next chunk of this attempt, and its next line; `fence` names the attempt. `isOpen`: the last text did not end its line. */
  readonly printed?: PrintProgress;
  /** What the result left with the worker. */
  readonly artifacts?: readonly StoredArtifact[];
  /** Metadata of the result. */
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** Of a middleware's attempt: its calls of the next node in the chain. */
  readonly calls?: readonly MiddlewareCall[];
  /** Of a task that was called through a chain: its caller. */
  readonly caller?: { readonly task: TaskId; readonly fence: number; readonly request: string };
  /** Of a host behind a chain: how often each of the chain was called so far, by ordinal. */
  readonly called?: Readonly<Record<number, number>>;
  /** Of such a host: calls of the whole chain that have not ended. */
  readonly inCall?: number;
  /** Of such a host: which call of each was the last that succeeded, by ordinal. */
  readonly ran?: Readonly<Record<number, number>>;
  /** Of such a host: the middleware that ended as skipped after the last success of the host. */
  readonly skippedBy?: string;
  /** Of a container: the state of its loop. */
  readonly loop?: LoopState;
  /** Of an iteration. */
  readonly frame?: IterationState;
  /** Being ended with all inside: what it will be once nothing inside is open. */
  readonly ending?: HostTaskEnding;
  readonly refs?: readonly ResourceRef[];
  readonly affinity?: { readonly key: string; readonly mode: "sticky" | "preferred"; readonly until: Millis | null };
  /** Version of the package that the attempt was granted with, where the node left it open. */
  readonly version?: string;
  /** Why it was not run: `pin`, `reuse`, `excluded`, or an operator's reason. */
  readonly why?: string;
  /** Values that did not match the schema of the node, and did not fail it. */
  readonly warnings?: readonly TaskWarning[];
  /** Its parameters are judged when its worker is known: workers have different manifests of its package. */
  readonly isUnjudged?: true;
  /** Digest of a result that was not stored because it does not match its schema or is too large. */
  readonly unusableResult?: string;
  /** Outcomes that came too late and were recorded as refused. */
  readonly refused?: number;
  /** Processes that know no fences, were given it and have not reported its end: it may still run there. */
  readonly formerHolders?: readonly FormerHolder[];
  /** Its last grant was taken back before any worker ran it: the next one has the same attempt number. */
  readonly isRedelivered?: true;
  /** Refusals in a row because another task held its concurrency key at the worker, and when the first one came. */
  readonly keyRefusals?: { readonly count: number; readonly since: Millis };
}

export interface FormerHolder {
  readonly worker: WorkerId;
  readonly boot: string;
}

export interface TaskWarning {
  readonly code: string;
  readonly message: string;
  /** JSON pointer that begins with `/parameters` or `/results`. */
  readonly field: string;
}

export interface PrintProgress {
  readonly fence: number;
  readonly chunks: number;
  readonly lines: number;
  readonly isOpen?: true;
}

export interface ReportedProgress {
  readonly stage?: string;
  readonly progress?: number;
  readonly message?: string;
  readonly at: Millis;
  readonly metrics?: Readonly<Record<string, number>>;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

export interface StoredArtifact extends ReportedArtifact {
  readonly worker: string;
  /** Why the worker has it no longer. */
  readonly removed?: string;
}

export interface MiddlewareCall {
  readonly request: string;
  readonly boot: string;
  readonly fence: number;
  readonly target: TaskId;
  readonly askedAt: Millis;
  readonly due: Millis | null;
  /** Set once answered: the code of its failure, or null. `isOwed`: not delivered to any session; the next join gets it. */
  readonly answer?: { readonly code: string | null; readonly message?: string; readonly isOwed?: true };
}

/** A container goes through its iterations; one without a loop has a single one. Each try of an iteration has its own number and row. */
export interface LoopState {
  /** Iterations known so far: all of a list, one more than have ended of a while loop. */
  readonly count: number;
  /** Next iteration to open for the first time, next row number, rows open now. */
  readonly next: number;
  readonly frames: number;
  readonly open: number;
  /** Iterations that wait to be tried again. */
  readonly again?: readonly { readonly index: number; readonly tries: number; readonly at: Millis }[];
  /** The row number of the last success, where iterations follow each other. */
  readonly lastFrame?: number;
  /** While collecting outputs: rows read so far, and the outputs found in them as JSON texts, by iteration. */
  readonly gathered?: number;
  readonly items?: readonly (string | null)[];
  /** Until when it must be over. */
  readonly deadline: Millis | null;
}

export interface IterationState {
  /** Of its iteration, from 0. */
  readonly index: number;
  /** Tries of this iteration that failed before. */
  readonly tries: number;
  /** Successors that are still to be reached, where they are too many for a turn. */
  readonly reach?: readonly FanOutCursor[];
}

/** A fan-out under way: the successors of `from` (null: the start nodes) are reached up to index `at`. */
export interface FanOutCursor {
  readonly from: number | null;
  readonly at: number;
}

export interface HostTaskEnding {
  readonly verdict: "failed" | "cancelled" | "skipped";
  readonly error: FaultData | null;
  /** How far this pass over the tasks inside has come, where one turn is not enough; absent at its start. */
  readonly cursor?: TaskId;
  /** Whether this pass has found anything open. */
  readonly isBusy?: boolean;
}

const emptyState: TaskState = {};
const stateColumn = parsedColumn((task: TaskRow) => task.state, emptyState);

/** Hot: most tasks have no state. */
export const readTaskState = (task: TaskRow): TaskState => (task.state === null ? emptyState : stateColumn.read(task));

/** For the facts of an attempt: the version of the package it was granted with, where that is not the one of the plan. */
export function attemptVersion(task: TaskRow): { readonly version?: string } {
  const { version } = readTaskState(task);
  return version === undefined ? {} : { version };
}

/** The row with these parts of its state changed; `undefined` removes a part. */
export function withTaskState<R extends TaskRow>(
  task: R,
  change: { readonly [K in keyof TaskState]: TaskState[K] | undefined },
): R {
  const state = Object.fromEntries(
    Object.entries({ ...readTaskState(task), ...change }).filter(([, value]) => value !== undefined),
  );
  if (Object.keys(state).length === 0) return task.state === null ? task : { ...task, state: null };
  const row = { ...task, state: JSON.stringify(state) };
  // Remember the parsed state: a task that reports often changes it many times in a turn, and parsing it each time would cost more.
  stateColumn.remember(row, state);
  return row;
}
