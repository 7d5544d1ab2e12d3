// What doors say to the engine: plain data, no callbacks, so that the engine can live in a thread of its own.
// A command names who speaks (tenant, worker, session) as the door authenticated it; the engine never trusts a body for that.

import type { RunId, TaskId, Tenant, WorkerId } from "./rows.ts";

/** One command on its way in; `ref` comes back on its answer. */
export interface Inbound {
  readonly ref: number;
  readonly command: Command;
}

export interface StartRun {
  readonly type: "run.start";
  readonly tenant: Tenant;
  /** Who asked, for the log: a user, a token. */
  readonly by: string;
  /** Digest of `body`; equal definitions are stored once per tenant. */
  readonly digest: string;
  /** The workflow as canonical JSON text, already validated. */
  readonly body: string;
  readonly client: string;
  /** 0..9, lower is sooner. */
  readonly priority: number;
  readonly timeoutMs: number | null;
  /** Idempotency-Key and a digest of the whole request: a repeat gives the same run, another request under the key is refused. */
  readonly ask: { readonly key: string; readonly digest: string } | null;
}

export interface CancelRun {
  readonly type: "run.cancel";
  readonly tenant: Tenant;
  readonly by: string;
  readonly run: RunId;
  readonly reason: string;
}

/** What a worker says of itself; routes are matched against this. */
export interface WorkerAbout {
  readonly slots: number;
  readonly perNodeLimits?: Readonly<Record<string, number>>;
  readonly packages: readonly { readonly name: string; readonly version: string; readonly status: string }[];
  readonly runtimes: readonly string[];
  readonly features: readonly string[];
  readonly payloadTypes: readonly string[];
  readonly pool: string;
  readonly tags: Readonly<Record<string, string>>;
  readonly hostname: string;
  readonly version: string;
  readonly dialect: string;
  /** What it can run, one entry per node type, bounded by the door; shown to operators, never decided upon. */
  readonly handlers?: readonly {
    readonly package: string;
    readonly version: string;
    readonly runtime: string;
    readonly nodeType: string;
    readonly capabilities: readonly string[];
  }[];
}

/** An attempt as a worker names it. */
export interface Held {
  readonly task: TaskId;
  readonly fence: number;
}

/**
 * A worker's session is up and its inventory known. `running: null` = it cannot or need not report.
 * `boot: null` = this dialect has no boot id, and by its frame counter this is the process of the last join.
 * `resumed`: the same session on a new socket. Nothing was lost between the two ends, so the worker keeps what the rows say it holds;
 * `unacked` are the dispatches that it has not acknowledged yet.
 */
export interface JoinWorker {
  readonly type: "worker.join";
  readonly tenant: Tenant;
  readonly worker: WorkerId;
  readonly name: string;
  readonly boot: string | null;
  readonly session: string;
  readonly about: WorkerAbout;
  readonly running: readonly Held[] | null;
  readonly resumed?: { readonly unacked: readonly Held[] };
}

export interface BeatWorker {
  readonly type: "worker.beat";
  readonly tenant: Tenant;
  readonly worker: WorkerId;
  readonly session: string;
  readonly healthy: boolean;
  /** Exactly the attempts it holds; null = cannot say, renew all. */
  readonly held: readonly Held[] | null;
  /** Percent of what the worker may use; absent where it did not say. */
  readonly memPct?: number;
  readonly diskPct?: number;
  /** JSON text of the heartbeat's numbers, already bounded by the door; shown to operators, never decided upon. */
  readonly vitals?: string;
}

/** The inventory of a live session changed (a package came or went). */
export interface DescribeWorker {
  readonly type: "worker.describe";
  readonly tenant: Tenant;
  readonly worker: WorkerId;
  readonly session: string;
  readonly about: WorkerAbout;
}

export interface LeaveWorker {
  readonly type: "worker.leave";
  readonly tenant: Tenant;
  readonly worker: WorkerId;
  readonly session: string;
  readonly reason: string;
}

export interface DrainWorker {
  readonly type: "worker.drain";
  readonly tenant: Tenant;
  readonly by: string;
  readonly worker: WorkerId;
  readonly on: boolean;
}

/** End the worker's session now, wherever its socket is. It may come back with a credential that is still good. */
export interface KickWorker {
  readonly type: "worker.kick";
  readonly tenant: Tenant;
  readonly by: string;
  readonly worker: WorkerId;
  readonly reason: string;
}

/** Hand a vendor's frame to a worker, wherever its socket is. Opaque: it is carried and never read. */
export interface TellWorker {
  readonly type: "worker.tell";
  readonly tenant: Tenant;
  readonly by: string;
  readonly worker: WorkerId;
  readonly frame: VendorFrame;
}

export interface VendorFrame {
  /** Begins with `ext.vendor.`. */
  readonly type: string;
  readonly id: string;
  readonly corr: string | null;
  /** JSON text of an object. */
  readonly payload: string;
}

/** Who says something about an attempt. `fence: null` where the dialect has no fence: matched by worker and boot alone. */
interface AboutAttempt {
  readonly tenant: Tenant;
  readonly worker: WorkerId;
  readonly session: string;
  readonly task: TaskId;
  readonly fence: number | null;
}

/** The worker has these dispatches: one frame acks many, so one command does. */
export interface AckTasks {
  readonly type: "task.ack";
  readonly tenant: Tenant;
  readonly worker: WorkerId;
  readonly session: string;
  readonly held: readonly Held[];
}

export interface ResultTask extends AboutAttempt {
  readonly type: "task.result";
  readonly status: "succeeded" | "failed" | "cancelled" | "skipped";
  /** JSON text of the result object. */
  readonly result: string;
  readonly error: {
    readonly code: string;
    readonly message: string;
    readonly details?: Readonly<Record<string, unknown>>;
  } | null;
  readonly durationMs: number | null;
}

/** The worker could not run it, or the handler threw. */
export interface ErrorTask extends AboutAttempt {
  readonly type: "task.error";
  readonly code: string;
  readonly message: string;
  readonly details?: Readonly<Record<string, unknown>>;
}

export interface FeedbackTask extends AboutAttempt {
  readonly type: "task.feedback";
  /** What the log keeps of it: stage, progress, message, chunks, metrics, metadata; already bounded by the door. */
  readonly data: Readonly<Record<string, unknown>>;
}

export type Command =
  | StartRun
  | CancelRun
  | JoinWorker
  | BeatWorker
  | DescribeWorker
  | LeaveWorker
  | DrainWorker
  | KickWorker
  | TellWorker
  | AckTasks
  | ResultTask
  | ErrorTask
  | FeedbackTask;
