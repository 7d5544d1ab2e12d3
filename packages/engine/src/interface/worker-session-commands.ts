// Reports of workers about themselves, and commands for and about workers.

import type { TaskId, Tenant, WorkerId } from "../storage/rows.ts";
import type { AuditedRequest, FaultData, IdempotentRequest } from "./caller-commands.ts";

export type WorkerSessionCommand =
  | JoinWorkerCommand
  | RecordHeartbeatCommand
  | DescribeWorkerCommand
  | LeaveWorkerCommand
  | DrainWorkerCommand
  | KickWorkerCommand
  | RelayVendorFrameCommand
  | EnrolWorkerCommand
  | IssueWorkerCommand
  | RecordRebindCommand
  | AcknowledgeDrainCommand
  | ReportPackageStatusCommand
  | ReportResourceRemovedCommand;

/** What a worker announces; routes are matched against this. */
export interface WorkerPackageRef {
  readonly name: string;
  readonly version: string;
  readonly status: string;
  /** Digest of the manifest that the worker announced for it; absent: it announced none. */
  readonly manifest?: string;
}

export interface WorkerDescription {
  readonly slots: number;
  readonly perNodeLimits?: Readonly<Record<string, number>>;
  readonly packages: readonly WorkerPackageRef[];
  readonly runtimes: readonly string[];
  readonly features: readonly string[];
  readonly payloadTypes: readonly string[];
  readonly pool: string;
  readonly tags: Readonly<Record<string, string>>;
  readonly hostname: string;
  readonly version: string;
  readonly dialect: string;
  /** What it can run, one entry per node type, limited by the door; only shown to operators. */
  readonly handlers?: readonly {
    readonly package: string;
    readonly version: string;
    readonly runtime: string;
    readonly nodeType: string;
    readonly capabilities: readonly string[];
  }[];
}

/** An attempt as a worker names it. */
export interface AttemptRef {
  readonly task: TaskId;
  readonly fence: number;
}

/** What a door knows of the session that a frame came from. */
export interface SessionReport {
  readonly tenant: Tenant;
  readonly worker: WorkerId;
  readonly session: string;
}

/**
 * A worker's session is up and its inventory known. `running: null` = it cannot or need not report.
 * `boot: null` = this dialect has no boot id, and its frame counter shows that this is the process of the last join.
 * `resumed`: the same session on a new socket. Nothing was lost between the two ends, so the worker keeps the attempts of the rows;
 * `unacked` are the dispatches that it has not acknowledged yet.
 */
export interface JoinWorkerCommand extends SessionReport {
  readonly type: "worker.join";
  readonly name: string;
  readonly boot: string | null;
  readonly about: WorkerDescription;
  readonly running: readonly AttemptRef[] | null;
  /** The session has named no packages: those that are known, from REST or an earlier session, stay. */
  readonly keepsPackages?: true;
  /** The worker shows neither that its process is a new one nor that it is the one before. */
  readonly mayBeNewProcess?: true;
  readonly resumed?: { readonly unacked: readonly AttemptRef[] };
}

export interface RecordHeartbeatCommand extends SessionReport {
  readonly type: "worker.beat";
  readonly healthy: boolean;
  /** Exactly the attempts it holds; null = it cannot list them, renew all. */
  readonly held: readonly AttemptRef[] | null;
  /** Percent of what the worker may use; absent where it did not report it. */
  readonly memPct?: number;
  readonly diskPct?: number;
  /** How many handlers it runs; absent where it did not count them. */
  readonly inflight?: number;
  /** JSON text of the heartbeat's numbers, limited by the door; only shown to operators. */
  readonly vitals?: string;
}

/** The inventory of a live session changed (a package was installed or removed). */
export interface DescribeWorkerCommand extends SessionReport {
  readonly type: "worker.describe";
  readonly about: WorkerDescription;
  /** As in a join. */
  readonly keepsPackages?: true;
}

export interface LeaveWorkerCommand extends SessionReport {
  readonly type: "worker.leave";
  readonly reason: string;
  /** The worker itself closed its connection as one that has finished. */
  readonly isOrderly?: true;
}

export interface DrainWorkerCommand extends IdempotentRequest {
  readonly type: "worker.drain";
  readonly worker: WorkerId;
  readonly on: boolean;
  /** Id of the stored command, whose end is recorded; absent: it is not stored. */
  readonly command?: string;
}

/** Ends the worker's session now, wherever its socket is. It may join again with a valid credential. */
export interface KickWorkerCommand extends IdempotentRequest {
  readonly type: "worker.kick";
  readonly worker: WorkerId;
  readonly reason: string;
  /** As of a drain. */
  readonly command?: string;
}

/** Passes a vendor's frame on to a worker, wherever its socket is, without reading it. */
export interface RelayVendorFrameCommand {
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

/** A worker registers, or sends a sign of life, without a socket. */
export interface EnrolWorkerCommand extends IdempotentRequest {
  readonly type: "worker.enrol";
  readonly worker: WorkerId;
  readonly name: string;
  /** What it announced; null: only a sign of life (a worker that never enrolled is then unknown). */
  readonly about: WorkerDescription | null;
  /** Its status as free text or in the form of a heartbeat; null: as before. */
  readonly status: string | { readonly healthy?: boolean; readonly metrics?: Readonly<Record<string, number>> } | null;
  readonly packages: WorkerDescription["packages"] | null;
}

/** A command that the worker's session carries out: install or remove a package. Stored as a document until the worker has answered. */
export interface IssueWorkerCommand extends IdempotentRequest {
  readonly type: "worker.order";
  readonly worker: WorkerId;
  readonly id: string;
  readonly order: PackageCommand;
}

/** Who signed the archive of an install, for whom; the worker checks it against the bytes that it gets. */
export interface PackageSignatureClaim {
  readonly keyId: string;
  readonly ed25519: string;
  readonly signedAt: string;
  readonly signedBy: string;
  readonly tenant: string;
}

export type PackageCommand = (
  | {
      readonly type: "pkg.install";
      readonly name: string;
      readonly version: string;
      readonly url?: string;
      readonly sha256?: string;
      readonly signature?: PackageSignatureClaim;
      /** Although the worker had a newer version. */
      readonly allowOlder?: true;
      /** The archive is in the scheduler's repository; what is stated of it is what the repository knows. */
      readonly fromRepository?: true;
    }
  | { readonly type: "pkg.uninstall"; readonly name: string; readonly version: string | null }
) & {
  /** It has failed if the worker leaves it without any answer for so long; absent: as the scheduler is set. */
  readonly deadlineMs?: number;
};

/** A command about a worker that the scheduler carries out itself, with or without a message to the worker. */
export type ControlCommand =
  | { readonly type: "drain" }
  | { readonly type: "undrain" }
  | { readonly type: "kick"; readonly reason: string }
  | { readonly type: "rebind"; readonly queue: string };

/** A command that was carried out by other commands: its outcome is stored and recorded. */
export interface RecordRebindCommand extends AuditedRequest {
  readonly type: "worker.noted";
  readonly worker: WorkerId;
  readonly id: string;
  readonly order: Extract<ControlCommand, { type: "rebind" }>;
  readonly error: Pick<FaultData, "code" | "message"> | null;
  readonly details: Readonly<Record<string, unknown>>;
}

/** The worker acknowledged the frame that told it to drain (`on`), or to drain no longer. */
export interface AcknowledgeDrainCommand extends SessionReport {
  readonly type: "worker.heard";
  readonly on: boolean;
  /** The same frame was sent again since, and is not acknowledged yet. */
  readonly isAnotherUnacked?: boolean;
}

/** The worker's report about a package (`biz.pkg.event`). */
export interface ReportPackageStatusCommand extends SessionReport {
  readonly type: "worker.package";
  readonly name: string;
  readonly version: string;
  /** The last two are on the way to one of the others. */
  readonly status: "installed" | "failed" | "removed" | "installing" | "removing";
  readonly details?: Readonly<Record<string, unknown>>;
}

/** The worker reports that it no longer has a resource, or its registration did not name it. */
export interface ReportResourceRemovedCommand extends SessionReport {
  readonly type: "resource.removed";
  readonly resource: string;
  readonly reason: "evicted" | "expired" | "released" | "lost";
  /** After a comparison: when the document that was compared was written; a later one is about something else. */
  readonly seenAt?: number;
}
