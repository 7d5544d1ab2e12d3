// What doors say to the engine: plain data, no callbacks, so that the engine can live in a thread of its own.
// A command names who speaks (tenant, worker, session) as the door authenticated it; the engine never trusts a body for that.

import type { FaultCode } from "@astraflow/protocol";
import type { FaultData } from "./effect.ts";
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
  readonly ask: Ask | null;
  /** Name of the workflow and its id; absent where the caller has none. */
  readonly label?: string;
  readonly source?: string;
  /** JSON text of how the run came to be; see core/rows/about.ts. */
  readonly about?: string;
  /** Nodes of the top level that are not run, by ordinal: pinned, taken from another run, or left out. JSON text of the result. */
  readonly given?: Readonly<Record<number, Given>>;
  /** Why the door does not take it, as things are now. What was started under its key before is answered all the same. */
  readonly refusal?: FaultData & { readonly code: FaultCode };
}

export interface Given {
  readonly status: "succeeded" | "skipped";
  readonly result: string;
  /** Parameters it ran with, where it did; edges may carry them. */
  readonly params?: string;
  /** Why it is not run: `pin`, `reuse`, `excluded`. */
  readonly why: string;
}

export interface Ask {
  readonly key: string;
  readonly digest: string;
}

/** Who asks for something that is kept in the audit, and under which request id. */
interface Ordered {
  readonly tenant: Tenant;
  readonly by: string;
  readonly corr?: string;
}

/** An order that may come again: under the same key it is answered as the first time, and done once. */
interface Steering extends Ordered {
  readonly ask?: Ask | null;
}

/** `node`: a node's id, or a task's slot where the node runs more than once. */
export interface SkipNode extends Steering {
  readonly type: "run.skip";
  readonly run: RunId;
  readonly node: string;
  readonly reason: string;
}

/** A live node: its pause before the next attempt is cut short, or its present attempt is taken from its worker. */
export interface RetryNode extends Steering {
  readonly type: "run.retry";
  readonly run: RunId;
  readonly node: string;
  readonly reason: string;
}

/** `switch` takes running attempts back, `drain` lets them end; both send what follows to `worker`, or anywhere but where it was. */
export interface RebindRun extends Steering {
  readonly type: "run.rebind";
  readonly run: RunId;
  readonly node: string | null;
  readonly worker: WorkerId | null;
  readonly mode: "switch" | "drain";
}

/** Documents written together or not at all. */
export interface WriteDocs extends Ordered {
  readonly type: "docs.write";
  readonly puts: readonly DocPut[];
  readonly drops?: readonly { readonly collection: string; readonly name: string; readonly rev: number }[];
  /** What the audit says of it; absent: nothing. */
  readonly audit?: AuditWords;
  /** A repeat under the same key is answered with what the first was answered. */
  readonly ask?: Ask | null;
}

export interface DocPut {
  readonly collection: string;
  readonly name: string;
  /** The revision that was read; 0 = must not exist yet. Absent: whatever there is. */
  readonly rev?: number;
  readonly body: string;
  /** Each stays as it was where it is absent. */
  readonly sort?: string;
  readonly terms?: string;
  readonly due?: number | null;
  /** In place of `due`: so long from this write, by the store's clock. */
  readonly keepMs?: number;
}

/** An audit entry: what was done to what. Who and when are added by the engine. */
export interface AuditWords {
  readonly action: string;
  readonly targetType: string;
  readonly target: string;
  readonly data?: Readonly<Record<string, unknown>>;
  /** How it ended, where that was decided elsewhere: the code of a refusal. Absent: as the command itself ends. */
  readonly outcome?: string;
}

/** A worker makes itself known, or says that it lives, without a socket. */
export interface EnrolWorker extends Steering {
  readonly type: "worker.enrol";
  readonly worker: WorkerId;
  readonly name: string;
  /** What it announced; null: only a sign of life (a worker that never enrolled is then unknown). */
  readonly about: WorkerAbout | null;
  /** How it is, in its own words or as a heartbeat says it; null: as before. */
  readonly status: string | { readonly healthy?: boolean; readonly metrics?: Readonly<Record<string, number>> } | null;
  readonly packages: WorkerAbout["packages"] | null;
}

/** A command for a worker that its session carries out: packages come and go. Kept as a document until the worker has answered. */
export interface OrderWorker extends Ordered {
  readonly type: "worker.order";
  readonly worker: WorkerId;
  readonly id: string;
  readonly order: WorkerOrder;
}

export type WorkerOrder =
  | {
      readonly type: "pkg.install";
      readonly name: string;
      readonly version: string;
      readonly url?: string;
      readonly sha256?: string;
    }
  | { readonly type: "pkg.uninstall"; readonly name: string; readonly version: string | null };

/** A command about a worker that the scheduler carries out itself, with or without a word to the worker. */
export type ControlOrder =
  | { readonly type: "drain" }
  | { readonly type: "undrain" }
  | { readonly type: "kick"; readonly reason: string }
  | { readonly type: "rebind"; readonly queue: string };

/** A command that was carried out by other commands: what came of it is kept and said. */
export interface NoteOrder extends Ordered {
  readonly type: "worker.noted";
  readonly worker: WorkerId;
  readonly id: string;
  readonly order: Extract<ControlOrder, { type: "rebind" }>;
  readonly error: { readonly code: string; readonly message: string } | null;
  readonly details: Readonly<Record<string, unknown>>;
}

/** The worker acknowledged the frame by which it was told to drain (`on`), or that it need not any more. */
export interface HearWorker {
  readonly type: "worker.heard";
  readonly tenant: Tenant;
  readonly worker: WorkerId;
  readonly session: string;
  readonly on: boolean;
  /** It was told the same once more since, and has not acknowledged that yet. */
  readonly isToldAgain?: boolean;
}

/** The worker's word about a package command (`biz.pkg.event`). */
export interface ReportPackage {
  readonly type: "worker.package";
  readonly tenant: Tenant;
  readonly worker: WorkerId;
  readonly session: string;
  readonly name: string;
  readonly version: string;
  readonly status: "installed" | "failed" | "removed";
  readonly details?: Readonly<Record<string, unknown>>;
}

/** The worker says that it no longer keeps a resource, or a register did not name it. */
export interface RemoveResource {
  readonly type: "resource.removed";
  readonly tenant: Tenant;
  readonly worker: WorkerId;
  readonly session: string;
  readonly resource: string;
  readonly reason: "evicted" | "expired" | "released" | "lost";
  /** Of a comparison: when the document that was seen was written; one that came later is about something else. */
  readonly seenAt?: number;
}

export interface CancelRun extends Steering {
  readonly type: "run.cancel";
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

export interface DrainWorker extends Ordered {
  readonly type: "worker.drain";
  readonly worker: WorkerId;
  readonly on: boolean;
  /** Id under which the command is kept, and the log says how it ended; absent: it is not kept. */
  readonly command?: string;
}

/** End the worker's session now, wherever its socket is. It may come back with a credential that is still good. */
export interface KickWorker extends Ordered {
  readonly type: "worker.kick";
  readonly worker: WorkerId;
  readonly reason: string;
  /** As of a drain. */
  readonly command?: string;
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
  /** What stays with the worker under a name. */
  readonly artifacts?: readonly ArtifactWord[];
  /** JSON text of what the node says of its result; shown, never decided upon. */
  readonly metadata?: string;
}

export interface ArtifactWord {
  readonly resource: string;
  readonly type: string;
  readonly sizeBytes?: number;
  readonly inline?: boolean;
  /** Absent: the default time to live. */
  readonly expiresAt?: number;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** A middleware asks for the next of its chain to be run. Known by (boot, request): a repeat is answered, not run again. */
export interface NextTask extends AboutAttempt {
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
  | SkipNode
  | RetryNode
  | RebindRun
  | WriteDocs
  | EnrolWorker
  | OrderWorker
  | NoteOrder
  | HearWorker
  | ReportPackage
  | RemoveResource
  | NextTask
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
