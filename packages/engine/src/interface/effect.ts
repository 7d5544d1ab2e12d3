// What the engine sends to the doors, always after the commit that made it true: answers, frames to send, news of the log.

import type { Position, RunId, TaskId, Tenant, WorkerId } from "../storage/rows.ts";
import type { FaultData } from "./caller-commands.ts";
import type { PackageCommand, VendorFrame } from "./worker-session-commands.ts";

/** Exactly one per command. A door may acknowledge only after it. */
export interface CommandAnswer {
  readonly type: "answer";
  readonly ref: number;
  readonly body: AnswerBody | null;
  readonly fault: FaultData | null;
}

export type AnswerBody =
  | {
      readonly of: "run";
      readonly run: RunId;
      readonly phase: string;
      readonly workflow: string;
      readonly client: string;
      readonly createdAt: number;
      readonly repeated: boolean;
    }
  /** `leaseMs`/`heartbeatMs` as granted; `epoch` is this session's; memory and disk in percent, from which on it gets nothing new. */
  | {
      readonly of: "join";
      readonly epoch: number;
      readonly leaseMs: number;
      readonly heartbeatMs: number;
      readonly drainMemPct: number;
      readonly drainDiskPct: number;
      readonly draining: boolean;
      /** The dialect of the worker's last session, where it had one. */
      readonly formerDialect?: string;
    }
  /** `applied: false`: an equal repeat of what is already stored. */
  | { readonly of: "word"; readonly applied: boolean }
  /** `at`: when an operator's command was decided. `repeated`: an earlier command under this key did it. */
  | {
      readonly of: "worker";
      readonly worker: WorkerId;
      readonly draining: boolean;
      readonly at?: number;
      readonly repeated?: true;
    }
  /** Revisions as written, in the order of the command's `puts`; `repeated`: an earlier command under this key wrote them. */
  | { readonly of: "docs"; readonly revs: readonly number[]; readonly repeated: boolean }
  | {
      readonly of: "enrolled";
      readonly worker: WorkerId;
      readonly heartbeatMs: number;
      readonly isOnline: boolean;
      readonly repeated?: true;
    }
  /** What steering did: one entry per task it touched. `repeated`: an earlier command under this key did it. */
  | { readonly of: "steered"; readonly run: RunId; readonly tasks: readonly AffectedTask[]; readonly repeated?: true }
  | { readonly of: "order"; readonly id: string; readonly sent: boolean; readonly repeated?: true };

/** One task that an operator moved: from and to which worker, and what was sent. */
export interface AffectedTask {
  readonly task: TaskId;
  readonly node: string;
  readonly from: WorkerId | null;
  readonly to: WorkerId | null;
  readonly sent: "stop" | "none";
  readonly phase: string;
}

/** A message to one session, for the door that holds its socket. */
interface ToSession {
  readonly session: string;
  readonly worker: WorkerId;
}

interface ToTenantSession extends ToSession {
  readonly tenant: Tenant;
}

/** Send this task to that session. The row is committed; if the frame is lost, the ack deadline takes the task back. */
export interface SendDispatch extends ToTenantSession {
  readonly type: "dispatch";
  readonly dispatch: {
    /** Same for every repeat of this grant: `<task>#<fence>`. */
    readonly id: string;
    readonly run: RunId;
    readonly task: TaskId;
    readonly node: string;
    readonly nodeType: string;
    readonly packageName: string;
    readonly packageVersion: string;
    /** Id of the stored workflow that was run; absent for a definition that came with the request. Not sent to the worker. */
    readonly workflow?: string;
    /** JSON text. */
    readonly params: string;
    readonly fence: number;
    readonly attempt: number;
    readonly timeoutMs: number | null;
    readonly concurrencyKey: string;
    readonly priority: number;
    /** Of a middleware and of a host that is run through a chain. */
    readonly hostNode?: string;
    readonly chain?: readonly string[];
    /** Of a middleware only. */
    readonly chainIndex?: number;
    readonly resourceRefs?: readonly ResourceRef[];
    readonly affinity?: { readonly key: string; readonly mode: "sticky" | "preferred"; readonly expiresAt?: number };
  };
}

/** Something a worker keeps that the task needs there. */
export interface ResourceRef {
  readonly resource: string;
  readonly workerName: string;
  readonly type: string;
  readonly scope?: string;
  readonly expiresAt?: number;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** The answer to a middleware's `next`. Exactly one of `result` (JSON text) and `error` is not null. */
export interface SendNextAnswer extends ToTenantSession {
  readonly type: "next";
  readonly run: RunId;
  readonly task: TaskId;
  readonly node: string;
  readonly request: string;
  readonly result: string | null;
  readonly error: { readonly code: string; readonly message: string } | null;
  readonly trace: Readonly<Record<string, unknown>>;
}

/** A command for that session to carry out; its document is stored. */
export interface SendWorkerCommand extends ToTenantSession {
  readonly type: "order";
  readonly id: string;
  readonly order: PackageCommand;
}

/** Tells a session that an attempt it holds is no longer wanted or no longer its own. */
export interface SendStop extends ToTenantSession {
  readonly type: "stop";
  readonly run: RunId;
  readonly task: TaskId;
  readonly fence: number;
  readonly code: string;
  readonly reason: string;
}

/** Closes a session: another replaced it, or its lease has ended. */
export interface SendReset extends ToSession {
  readonly type: "reset";
  readonly code: string;
  readonly reason: string;
}

export interface SendDrain extends ToSession {
  readonly type: "drain";
  readonly on: boolean;
  readonly reason: string;
}

/** Passes a vendor's frame on to that session. */
export interface SendVendorFrame extends ToTenantSession {
  readonly type: "tell";
  readonly frame: VendorFrame;
}

/** A notice about a worker for the scheduler's log: late, lost, short of memory or disk, full, cloned, or recovered. */
export interface WorkerNotice {
  readonly type: "worker";
  readonly tenant: Tenant;
  readonly worker: WorkerId;
  /** The fact's type, such as `worker.lost`. */
  readonly event: string;
  readonly isRecovery: boolean;
  readonly data: Readonly<Record<string, unknown>>;
}

/** The tenant's log has grown. `head` is its last position, null where the commit's answer was lost. */
export interface LogGrew {
  readonly type: "log";
  readonly tenant: Tenant;
  readonly head: Position | null;
}

/** Numbers for the metrics, those of one turn together; labels are few and bounded. */
export interface MetricSamples {
  readonly type: "count";
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly values: readonly number[];
}

export type Effect =
  | CommandAnswer
  | SendDispatch
  | SendStop
  | SendReset
  | SendDrain
  | SendVendorFrame
  | SendNextAnswer
  | SendWorkerCommand
  | WorkerNotice
  | LogGrew
  | MetricSamples;
