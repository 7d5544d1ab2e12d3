// From the payloads of a worker's work frames and heartbeats to commands for the engine.
// Pure. Who speaks comes from the connection's binding, never from a payload. What the scheduler bound to a task's parameters is left out
// wherever a worker sends it back: all that the engine hears may be stored.

import type {
  AttemptRef,
  Command,
  RecordHeartbeat,
  ReportError,
  ReportedArtifact,
  ReportFeedback,
  ReportPackageStatus,
  ReportResourceRemoved,
  ReportResult,
  RequestNext,
} from "@astraflow/engine";
import {
  type Dialect,
  type Envelope,
  type ExecErrorPayload,
  Fault,
  type FeedbackPayload,
  type FramePayloads,
  type FrameType,
  type HeartbeatPayload,
  type JsonObject,
  limits,
  type NextRequestPayload,
  type OutputChunk,
  type PkgCatalogPayload,
  type PkgEventPayload,
  type ResourceRemovedPayload,
  type ResultArtifact,
  type ResultPayload,
  readPayload,
  stringifyWithoutBindings,
  withoutBindings,
} from "@astraflow/protocol";
import { limitFeedback } from "./feedback.ts";

/** Who the connection was authenticated as, and how it speaks. */
export interface CommandOrigin {
  readonly tenant: string;
  /** `<tenant>/<instance>` */
  readonly worker: string;
  readonly session: string;
  readonly dialect: Dialect;
}

/**
 * `commands`: what to tell the engine, maybe nothing. `unknown`: no such word. `catalog`: the inventory changed. `gap`: the worker misses
 * frames of ours.
 */
export type ParsedWorkFrame =
  | { readonly of: "commands"; readonly commands: readonly Command[] }
  | { readonly of: "catalog"; readonly catalog: PkgCatalogPayload }
  | { readonly of: "package"; readonly event: PkgEventPayload }
  | { readonly of: "error"; readonly error: ExecErrorPayload }
  | { readonly of: "gap"; readonly error: ExecErrorPayload }
  | { readonly of: "next"; readonly request: NextRequestPayload }
  | { readonly of: "vendor"; readonly payload: JsonObject }
  | { readonly of: "unknown" };

/** A work frame of a live session, read. `type` is its v2 name, whatever the dialect calls it. */
export function parseWorkFrame(origin: CommandOrigin, type: string, envelope: Envelope, bytes: number): ParsedWorkFrame | Fault {
  const { corr } = envelope;
  switch (type) {
    case "biz.exec.result": {
      const result = readFramePayload(origin, "biz.exec.result", envelope);
      return result instanceof Fault ? result : asCommands([toResultCommand(origin, result, corr)]);
    }
    case "biz.exec.result.batch": {
      const batch = readFramePayload(origin, "biz.exec.result.batch", envelope);
      return batch instanceof Fault ? batch : asCommands(batch.items.map((item) => toResultCommand(origin, item, corr)));
    }
    case "biz.exec.error": {
      const error = readFramePayload(origin, "biz.exec.error", envelope);
      if (error instanceof Fault) return error;
      // Of v1 alone, whose numbers are those of runs: it says nothing about the task, only that dispatches before it did not arrive.
      if (origin.dialect === "v1" && error.code === "E.RESULT.SEQ_GAP") return { of: "gap", error };
      const command = toErrorCommand(origin, error, corr);
      return command === null ? { of: "error", error } : asCommands([command]);
    }
    case "biz.exec.feedback": {
      const feedback = readFramePayload(origin, "biz.exec.feedback", envelope);
      return feedback instanceof Fault ? feedback : asCommands([toFeedbackCommand(origin, feedback, corr, bytes)]);
    }
    case "biz.exec.inventory": {
      const inventory = readFramePayload(origin, "biz.exec.inventory", envelope);
      if (inventory instanceof Fault) return inventory;
      const { tenant, worker, session } = origin;
      return asCommands([{ type: "worker.beat", tenant, worker, session, healthy: true, held: toAttempts(inventory.running) }]);
    }
    case "biz.exec.next.request": {
      const request = readFramePayload(origin, "biz.exec.next.request", envelope);
      return request instanceof Fault ? request : { of: "next", request };
    }
    case "biz.resource.removed": {
      const removed = readFramePayload(origin, "biz.resource.removed", envelope);
      return removed instanceof Fault ? removed : asCommands(removed.items.map((item) => toRemovedCommand(origin, item)));
    }
    case "biz.pkg.catalog": {
      const catalog = readFramePayload(origin, "biz.pkg.catalog", envelope);
      return catalog instanceof Fault ? catalog : { of: "catalog", catalog };
    }
    case "biz.pkg.event": {
      const event = readFramePayload(origin, "biz.pkg.event", envelope);
      return event instanceof Fault ? event : { of: "package", event };
    }
    default:
      if (type.startsWith("ext.vendor.") && origin.dialect !== "v1") return { of: "vendor", payload: envelope.payload };
      return { of: "unknown" };
  }
}

/** The payload in our words; a frame that the dialect does not have reads as E.CMD.UNKNOWN. */
export function readFramePayload<T extends FrameType>(
  origin: { readonly dialect: Dialect },
  type: T,
  envelope: Envelope,
): FramePayloads[T] | Fault {
  // v1 spells the type otherwise; the reader looks it up by the spelling of the wire.
  return readPayload(origin.dialect, origin.dialect === "v1" ? (envelope.type as T) : type, envelope.payload) as
    | FramePayloads[T]
    | Fault;
}

const asCommands = (commands: readonly Command[]): ParsedWorkFrame => ({ of: "commands", commands });

const taskStatuses = { SUCCEEDED: "succeeded", FAILED: "failed", SKIPPED: "skipped", CANCELLED: "cancelled" } as const;

export function toResultCommand(origin: CommandOrigin, payload: ResultPayload, corr: string | undefined): ReportResult {
  const { error } = payload;
  return {
    type: "task.result",
    tenant: origin.tenant,
    worker: origin.worker,
    session: origin.session,
    task: payload.task_id,
    fence: payload.fence ?? fenceFromCorr(corr, payload.task_id),
    status: taskStatuses[payload.status],
    result: stringifyWithoutBindings(payload.result),
    error:
      error === undefined
        ? null
        : {
            code: error.code,
            message: error.message,
            ...(error.remediation !== undefined && { details: { remediation: error.remediation } }),
          },
    durationMs: payload.duration_ms ?? null,
    ...(payload.artifacts !== undefined && { artifacts: payload.artifacts.map(toArtifact) }),
    ...(payload.metadata !== undefined && { metadata: truncatedJson(payload.metadata, limits.feedbackBytesMax) }),
  };
}

/** Whose it is, is who says so: the worker that the frame names is not believed. */
function toArtifact({ resource_id, type, size_bytes, inline, expires_at, metadata }: ResultArtifact): ReportedArtifact {
  return {
    resource: resource_id,
    type,
    ...(size_bytes !== undefined && { sizeBytes: size_bytes }),
    ...(inline !== undefined && { inline: withoutBindings(inline) }),
    ...(expires_at !== undefined && { expiresAt: Date.parse(expires_at) }),
    ...(metadata !== undefined && JSON.stringify(metadata).length <= artifactCharsMax && { metadata: withoutBindings(metadata) }),
  };
}

/** What is said of one artifact is kept with the task and with the resource. */
const artifactCharsMax = 4_096;

function truncatedJson(value: JsonObject, charsMax: number): string {
  const text = stringifyWithoutBindings(value);
  return text.length <= charsMax ? text : '{"truncated":true}';
}

/** `held`: the attempt that asks, as far as this session can tell. Ours name it; the older ones name their task in `corr`. */
export function toNextCommand(
  origin: CommandOrigin,
  request: NextRequestPayload,
  corr: string | undefined,
  held: AttemptRef | null,
): RequestNext | null {
  const task = request.task_id ?? held?.task ?? taskFromCorr(corr, origin.dialect);
  if (task === null) return null;
  const textOf = (value: JsonObject | undefined): string | null => (value === undefined ? null : stringifyWithoutBindings(value));
  return {
    type: "task.next",
    tenant: origin.tenant,
    worker: origin.worker,
    session: origin.session,
    task,
    fence: request.fence ?? (held?.task === task ? held.fence : fenceFromCorr(corr, task)),
    request: request.requestId,
    payload: textOf(request.payload),
    hostCtx: textOf(request.hostCtx),
    middlewareCtx: textOf(request.middlewareCtx),
    timeoutMs: request.timeoutMs ?? null,
  };
}

function toRemovedCommand(
  { tenant, worker, session }: CommandOrigin,
  item: ResourceRemovedPayload["items"][number],
): ReportResourceRemoved {
  return { type: "resource.removed", tenant, worker, session, resource: item.resource_id, reason: item.reason };
}

export function toPackageCommand(origin: CommandOrigin, event: PkgEventPayload): ReportPackageStatus {
  const details = {
    ...event.details,
    ...(event.log_url !== undefined && { logUrl: event.log_url }),
    ...(event.command_id !== undefined && { command: event.command_id }),
  };
  return {
    type: "worker.package",
    tenant: origin.tenant,
    worker: origin.worker,
    session: origin.session,
    name: event.name,
    version: event.version,
    status: event.status,
    ...(Object.keys(details).length > 0 && JSON.stringify(details).length <= artifactCharsMax && { details }),
  };
}

/** Null when the frame does not say which task it is about: then there is nothing to tell the engine. */
function toErrorCommand(origin: CommandOrigin, payload: ExecErrorPayload, corr: string | undefined): ReportError | null {
  const namedTask = payload.task_id ?? payload.context?.details?.["task_id"];
  const task = typeof namedTask === "string" && namedTask !== "" ? namedTask : taskFromCorr(corr, origin.dialect);
  if (task === null) return null;
  const details = {
    ...payload.context?.details,
    ...(payload.context?.where !== undefined && { where: payload.context.where }),
    ...(payload.remediation !== undefined && { remediation: payload.remediation }),
  };
  return {
    type: "task.error",
    tenant: origin.tenant,
    worker: origin.worker,
    session: origin.session,
    task,
    fence: payload.fence ?? fenceFromCorr(corr, task),
    code: payload.code,
    message: payload.message,
    ...(Object.keys(details).length > 0 && { details: withoutBindings(details) }),
  };
}

function toFeedbackCommand(
  origin: CommandOrigin,
  payload: FeedbackPayload,
  corr: string | undefined,
  bytes: number,
): ReportFeedback {
  const { run_id, task_id, fence, metadata, chunks, ...rest } = payload;
  const feedback = {
    ...rest,
    ...(metadata !== undefined && { metadata: withoutBindings(metadata) }),
    ...(chunks !== undefined && { chunks: chunks.map(stripChunkBindings) }),
  };
  return {
    type: "task.feedback",
    tenant: origin.tenant,
    worker: origin.worker,
    session: origin.session,
    task: task_id,
    fence: fence ?? fenceFromCorr(corr, task_id),
    data: limitFeedback(feedback, bytes),
  };
}

const stripChunkBindings = (chunk: OutputChunk): OutputChunk =>
  chunk.metadata === undefined ? chunk : { ...chunk, metadata: withoutBindings(chunk.metadata) };

/** The numbers travel as text: shown to operators, never decided upon, so a text that is too long is left out. */
export function toHeartbeatCommand(origin: CommandOrigin, payload: HeartbeatPayload, vitalsCharsMax: number): RecordHeartbeat {
  const { healthy, metrics, held } = payload;
  const vitals = JSON.stringify({
    healthy,
    metrics,
    ...(payload.packages?.hash !== undefined && { packages: payload.packages.hash }),
  });
  return {
    type: "worker.beat",
    tenant: origin.tenant,
    worker: origin.worker,
    session: origin.session,
    healthy,
    held: held === undefined ? null : toAttempts(held),
    ...(metrics.mem_pct !== undefined && { memPct: metrics.mem_pct }),
    ...(metrics.disk_pct !== undefined && { diskPct: metrics.disk_pct }),
    ...(vitals.length <= vitalsCharsMax && { vitals }),
  };
}

export const toAttempts = (held: readonly { task_id: string; fence: number }[]): AttemptRef[] =>
  held.map(({ task_id, fence }) => ({ task: task_id, fence }));

/** Workers that do not echo the fence point back to their dispatch, whose id is `<task>#<fence>`. */
export function fenceFromCorr(corr: string | undefined, task: string): number | null {
  if (corr === undefined || corr[task.length] !== "#" || !corr.startsWith(task)) return null;
  const digits = corr.slice(task.length + 1);
  // Written as we write it: an empty text, "1e3" and " 7" are numbers to the language.
  const fence = /^\d{1,16}$/.test(digits) ? Number(digits) : null;
  return Number.isSafeInteger(fence) ? fence : null;
}

/** The older dialects may name the task itself. */
export function taskFromCorr(corr: string | undefined, dialect: Dialect): string | null {
  if (corr === undefined) return null;
  const hashIndex = corr.lastIndexOf("#");
  if (hashIndex > 0) return corr.slice(0, hashIndex);
  return dialect === "v2" ? null : corr;
}

/** The attempt whose dispatch has this id; null where it is the id of another frame. */
export function parseDispatchId(id: string | undefined): AttemptRef | null {
  const task = id === undefined ? "" : id.slice(0, Math.max(0, id.lastIndexOf("#")));
  const fence = task === "" ? null : fenceFromCorr(id, task);
  return fence === null ? null : { task, fence };
}
