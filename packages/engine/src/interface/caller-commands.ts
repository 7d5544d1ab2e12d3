// Commands of callers about runs and documents, and what all of them have: a caller, a request id, perhaps an Idempotency-Key.

import type { FaultCode } from "@astraflow/protocol";
import type { RunId, Tenant, WorkerId } from "../storage/rows.ts";

export type CallerCommand =
  | StartRunCommand
  | CancelRunCommand
  | SkipNodeCommand
  | RetryNodeCommand
  | RebindRunCommand
  | WriteDocsCommand
  | SetWithdrawnPackagesCommand;

/** A fault as plain data: what answers, rows and facts hold of an error. */
export interface FaultData {
  readonly code: string;
  readonly message: string;
  readonly details?: Readonly<Record<string, unknown>>;
}

export interface IdempotencyKey {
  readonly key: string;
  readonly digest: string;
}

/** The caller of an audited command, and its request id. */
export interface AuditedRequest {
  readonly tenant: Tenant;
  readonly by: string;
  readonly corr?: string;
}

/** A command that may be repeated: under the same key it is performed once and answered as the first time. */
export interface IdempotentRequest extends AuditedRequest {
  readonly ask?: IdempotencyKey | null;
}

export interface StartRunCommand {
  readonly type: "run.start";
  readonly tenant: Tenant;
  /** The caller for the log: a user, a token. */
  readonly by: string;
  /** Digest of `body`; equal definitions are stored once per tenant. */
  readonly digest: string;
  /** The workflow as canonical JSON text, already validated. */
  readonly body: string;
  readonly client: string;
  /** 0..9, lower is sooner. */
  readonly priority: number;
  readonly timeoutMs: number | null;
  /** Idempotency-Key and a digest of the whole request: a repeat returns the same run, another request under the key is refused. */
  readonly ask: IdempotencyKey | null;
  /** Name of the workflow and its id; absent where the caller has none. */
  readonly label?: string;
  readonly source?: string;
  /** JSON text of the run's origin; see core/rows/run.ts. */
  readonly about?: string;
  /** Nodes of the top level that are not run, by ordinal: pinned, taken from another run, or left out. JSON text of the result. */
  readonly presetResults?: Readonly<Record<number, PresetResult>>;
  /** Why the door refuses it now. If the key was used before, the earlier answer is given all the same. */
  readonly refusal?: FaultData & { readonly code: FaultCode };
}

export interface PresetResult {
  readonly status: "succeeded" | "skipped";
  readonly result: string;
  /** Parameters it ran with, if it did; edges may carry them. */
  readonly params?: string;
  /** Why it is not run: `pin`, `reuse`, `excluded`. */
  readonly why: string;
}

export interface CancelRunCommand extends IdempotentRequest {
  readonly type: "run.cancel";
  readonly run: RunId;
  readonly reason: string;
}

/** `node`: a node's id, or a task's path where the node runs more than once. */
export interface SkipNodeCommand extends IdempotentRequest {
  readonly type: "run.skip";
  readonly run: RunId;
  readonly node: string;
  readonly reason: string;
}

/** A live node: its pause before the next attempt is cut short, or its present attempt is taken from its worker. */
export interface RetryNodeCommand extends Omit<SkipNodeCommand, "type"> {
  readonly type: "run.retry";
}

/** `switch` takes running attempts back, `drain` lets them end; both send what follows to `worker`, or anywhere but where it was. */
export interface RebindRunCommand extends IdempotentRequest {
  readonly type: "run.rebind";
  readonly run: RunId;
  readonly node: string | null;
  readonly worker: WorkerId | null;
  readonly mode: "switch" | "drain";
}

/** Documents that are written all together or not at all. */
export interface WriteDocsCommand extends IdempotentRequest {
  readonly type: "docs.write";
  readonly puts: readonly DocPut[];
  readonly drops?: readonly { readonly collection: string; readonly name: string; readonly rev: number }[];
  /** Its audit entry; absent: none. */
  readonly audit?: AuditEntry;
}

/** All versions of packages of a tenant, as `name@version`, that only work which names them may use. Kept in memory: said again after a start. */
export interface SetWithdrawnPackagesCommand {
  readonly type: "packages.withdrawn";
  readonly tenant: Tenant;
  readonly versions: readonly string[];
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

/** An audit entry: what was done to what. The engine adds who and when. */
export interface AuditEntry {
  readonly action: string;
  readonly targetType: string;
  readonly target: string;
  readonly data?: Readonly<Record<string, unknown>>;
  /** How it ended, where that was decided elsewhere: the code of a refusal. Absent: as the command itself ends. */
  readonly outcome?: string;
}
