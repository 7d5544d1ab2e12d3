// What doors send to the engine: plain data without callbacks, so that the engine can run in a thread of its own.
// A command names its sender (tenant, worker, session) as the door authenticated it; the engine never trusts a body for that.

import type { TaskId } from "../storage/rows.ts";
import type { CallerCommand, FaultData } from "./caller-commands.ts";
import type { AttemptRef, SessionReport, WorkerSessionCommand } from "./worker-session-commands.ts";

export type * from "./caller-commands.ts";
export type * from "./worker-session-commands.ts";

export type Command = CallerCommand | WorkerSessionCommand | AttemptReportCommand;

/** One incoming command; its answer has the same `ref`. */
export interface CommandRequest {
  readonly ref: number;
  readonly command: Command;
}

/** What a worker reports about the attempts it was granted. */
export type AttemptReportCommand =
  | AckDispatchesCommand
  | ReportResultCommand
  | ReportErrorCommand
  | ReportFeedbackCommand
  | RequestNextCommand;

/** The sender of a report. `fence: null` where the dialect has no fence: matched by worker and boot alone. */
interface TaskReport extends SessionReport {
  readonly task: TaskId;
  readonly fence: number | null;
}

/** The worker has received these dispatches; one frame may acknowledge many. */
export interface AckDispatchesCommand extends SessionReport {
  readonly type: "task.ack";
  readonly held: readonly AttemptRef[];
}

export interface ReportResultCommand extends TaskReport {
  readonly type: "task.result";
  readonly status: "succeeded" | "failed" | "cancelled" | "skipped";
  /** JSON text of the result object. */
  readonly result: string;
  readonly error: FaultData | null;
  readonly durationMs: number | null;
  /** What stays with the worker under a name. */
  readonly artifacts?: readonly ReportedArtifact[];
  /** JSON text of the node's metadata about its result; only shown. */
  readonly metadata?: string;
}

export interface ReportedArtifact {
  readonly resource: string;
  readonly type: string;
  readonly sizeBytes?: number;
  readonly inline?: boolean;
  /** Absent: the default time to live. */
  readonly expiresAt?: number;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** A middleware requests the next node of its chain. Identified by (boot, request): a repeat is answered, not run again. */
export interface RequestNextCommand extends TaskReport {
  readonly type: "task.next";
  readonly request: string;
  /** Merged over the parameters of what is called, key by key; null removes. JSON text of an object, or null. */
  readonly payload: string | null;
  /** JSON texts; handed to what is called under `__next`. */
  readonly hostCtx: string | null;
  readonly middlewareCtx: string | null;
  readonly timeoutMs: number | null;
}

/** The worker could not run it, or the handler threw. */
export interface ReportErrorCommand extends TaskReport, FaultData {
  readonly type: "task.error";
  /** Its dispatch was sent more than once, without a number by which the worker could tell: the refusal may be of the repeat alone. */
  readonly isRepeated?: true;
}

export interface ReportFeedbackCommand extends TaskReport {
  readonly type: "task.feedback";
  /** What the log records of it: stage, progress, message, chunks, metrics, metadata; size limited by the door. */
  readonly data: Readonly<Record<string, unknown>>;
}
