// Turns the payloads of a worker's frames into commands for the engine. Pure.
// The sender is the worker that the connection is bound to, never what a payload says. Resources that the scheduler bound to a task's
// parameters are left out wherever a worker sends them back, as the engine may store every command.

import type {
  AttemptRef,
  Command,
  RecordHeartbeatCommand,
  ReportErrorCommand,
  ReportedArtifact,
  ReportFeedbackCommand,
  ReportPackageStatusCommand,
  ReportResourceRemovedCommand,
  ReportResultCommand,
  RequestNextCommand,
} from "@astraflow/engine";
import {
  type Dialect,
  type Envelope,
  type ExecErrorPayload,
  Fault,
  type FeedbackPayload,
  type FramePayloads,
  type FrameType,
  fault,
  type HeartbeatPayload,
  type JsonObject,
  limits,
  type NextRequestPayload,
  type OutputChunk,
  omitUndefined,
  type PackageEventPayload,
  type PkgCatalogPayload,
  type ResourceRemovedPayload,
  type ResultArtifact,
  type ResultPayload,
  readPayload,
  stringifyWithoutBindings,
  withoutBindings,
} from "@astraflow/protocol";
import type { DeliveryTag } from "@astraflow/session";
import { type LimitedFeedback, limitFeedback } from "./feedback.ts";

/** Who the connection was authenticated as, and how it speaks. */
export interface CommandOrigin {
  readonly tenant: string;
  /** `<tenant>/<instance>` */
  readonly worker: string;
  readonly session: string;
  readonly dialect: Dialect;
}

/** The fields that every command of a worker begins with. */
export const senderOf = ({ tenant, worker, session }: CommandOrigin) => ({ tenant, worker, session });

/** A work frame in its order. `type` is its name in v2, whatever the dialect calls it. */
export interface InboundWorkFrame {
  readonly type: string;
  readonly envelope: Envelope;
  readonly tag: DeliveryTag;
}

/** A control frame has no number: it is acked by its id, if it asked for that. */
export const controlFrameTag = (envelope: Envelope, bytes: number): DeliveryTag => ({
  number: null,
  id: envelope.id,
  isAsked: envelope.ack?.request === true,
  bytes,
});

/** For commands that no frame waits for. */
export const noTag: DeliveryTag = { number: null, id: "", isAsked: false, bytes: 0 };

/** `commands`: for the engine, maybe none. `catalog`: the packages changed. `gap`: the worker misses frames of ours. */
export type ParsedWorkFrame =
  // `refused`: why other parts of the frame give no command.
  | { readonly of: "commands"; readonly commands: readonly Command[]; readonly refused?: Fault }
  | { readonly of: "catalog"; readonly catalog: PkgCatalogPayload }
  | { readonly of: "package"; readonly event: PackageEventPayload }
  | { readonly of: "error"; readonly error: ExecErrorPayload }
  | { readonly of: "gap"; readonly error: ExecErrorPayload }
  | { readonly of: "next"; readonly request: NextRequestPayload }
  | { readonly of: "vendor"; readonly payload: JsonObject }
  | { readonly of: "unknown" };

type WorkFrameParser<T extends FrameType> = (
  origin: CommandOrigin,
  payload: FramePayloads[T],
  corr: string | undefined,
  bytes: number,
) => ParsedWorkFrame | Fault;

/** A task's id begins with its run's. A report that names another run is refused before the engine sees it: it was not made for this task. */
export function findRunMismatch(run: unknown, task: string): Fault | null {
  if (typeof run !== "string" || (task.startsWith(run) && task[run.length] === ".")) return null;
  return fault("E.TASK.RUN_MISMATCH", `run ${run} is not the run of task ${task}; send the run_id of its dispatch`, {
    run,
    task,
  });
}

const asCommands = (commands: readonly Command[]): ParsedWorkFrame => ({ of: "commands", commands });

const workFrameParsers = {
  "biz.exec.result": (origin, result, corr) =>
    findRunMismatch(result.run_id, result.task_id) ?? asCommands([toResultCommand(origin, result, corr)]),
  "biz.exec.result.batch": (origin, { items }, corr) => {
    let refused: Fault | null = null;
    const commands: Command[] = [];
    for (const item of items) {
      const mismatch = findRunMismatch(item.run_id, item.task_id);
      if (mismatch === null) commands.push(toResultCommand(origin, item, corr));
      else refused ??= mismatch;
    }
    return { of: "commands", commands, ...(refused !== null && { refused }) };
  },
  "biz.exec.error": (origin, error, corr, bytes) => {
    // In v1 alone, which numbers by run: it is not about the task, but reports that earlier dispatches did not arrive.
    if (origin.dialect === "v1" && error.code === "E.RESULT.SEQ_GAP") return { of: "gap", error };
    const command = toErrorCommand(origin, error, corr, bytes);
    if (command === null) return { of: "error", error };
    return findRunMismatch(error.run_id ?? error.context?.details?.["run_id"], command.task) ?? asCommands([command]);
  },
  "biz.exec.feedback": (origin, feedback, corr, bytes) =>
    findRunMismatch(feedback.run_id, feedback.task_id) ?? asCommands([toFeedbackCommand(origin, feedback, corr, bytes)]),
  "biz.exec.inventory": (origin, { running }) =>
    asCommands([{ type: "worker.beat", ...senderOf(origin), healthy: true, held: toAttempts(running) }]),
  "biz.exec.next.request": (_origin, request) => ({ of: "next", request }),
  "biz.resource.removed": (origin, { items }) => asCommands(items.map((item) => toRemovedCommand(origin, item))),
  "biz.pkg.catalog": (_origin, catalog) => ({ of: "catalog", catalog }),
  "biz.pkg.event": (_origin, event) => ({ of: "package", event }),
} satisfies { [T in FrameType]?: WorkFrameParser<T> };

const parsersByType = new Map(Object.entries(workFrameParsers)) as ReadonlyMap<string, WorkFrameParser<FrameType>>;

/** Reads a work frame of a session. `type` is its name in v2. */
export function parseWorkFrame(origin: CommandOrigin, type: string, envelope: Envelope, bytes: number): ParsedWorkFrame | Fault {
  const parser = parsersByType.get(type);
  if (parser === undefined) {
    const isVendorFrame = type.startsWith("ext.vendor.") && origin.dialect !== "v1";
    return isVendorFrame ? { of: "vendor", payload: envelope.payload } : { of: "unknown" };
  }
  const payload = readFramePayload(origin, type as FrameType, envelope);
  return payload instanceof Fault ? payload : parser(origin, payload, envelope.corr, bytes);
}

/** The payload as v2 spells it; a frame that the dialect does not have is E.CMD.UNKNOWN. */
export function readFramePayload<T extends FrameType>(
  origin: { readonly dialect: Dialect },
  type: T,
  envelope: Envelope,
): FramePayloads[T] | Fault {
  // v1 names types differently, and its reader expects the name on the wire.
  return readPayload(origin.dialect, origin.dialect === "v1" ? (envelope.type as T) : type, envelope.payload) as
    | FramePayloads[T]
    | Fault;
}

const taskStatuses = { SUCCEEDED: "succeeded", FAILED: "failed", SKIPPED: "skipped", CANCELLED: "cancelled" } as const;

export function toResultCommand(origin: CommandOrigin, payload: ResultPayload, corr: string | undefined): ReportResultCommand {
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

/** Belongs to the sender: a worker that the frame names is ignored. */
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

/** Metadata of one artifact, which is stored with the task and with the resource. */
const artifactCharsMax = 4_096;

function truncatedJson(value: JsonObject, charsMax: number): string {
  const text = stringifyWithoutBindings(value);
  return text.length <= charsMax ? text : '{"truncated":true}';
}

/** `held`: the attempt that asks, as far as this session can tell. Workers of v2 name it; the older ones name their task in `corr`. */
export function toNextCommand(
  origin: CommandOrigin,
  request: NextRequestPayload,
  corr: string | undefined,
  held: AttemptRef | null,
): RequestNextCommand | null {
  const task = request.task_id ?? held?.task ?? taskFromCorr(corr, origin.dialect);
  if (task === null) return null;
  const textOf = (value: JsonObject | undefined): string | null => (value === undefined ? null : stringifyWithoutBindings(value));
  return {
    type: "task.next",
    ...senderOf(origin),
    task,
    fence: request.fence ?? (held?.task === task ? held.fence : fenceFromCorr(corr, task)),
    request: request.requestId,
    payload: textOf(request.payload),
    hostCtx: textOf(request.hostCtx),
    middlewareCtx: textOf(request.middlewareCtx),
    timeoutMs: request.timeoutMs ?? null,
  };
}

function toRemovedCommand(origin: CommandOrigin, item: ResourceRemovedPayload["items"][number]): ReportResourceRemovedCommand {
  return { type: "resource.removed", ...senderOf(origin), resource: item.resource_id, reason: item.reason };
}

/** Labels of `pkg_ops_total`. An event does not always say what was tried; a failure that does not was an install. */
export function toPackageOperation({ status, details }: Pick<PackageEventPayload, "status" | "details">): {
  readonly op: "install" | "uninstall";
  readonly status: PackageEventPayload["status"];
} {
  const isRemoval = status === "removed" || status === "removing" || (status === "failed" && details?.["op"] === "uninstall");
  return { op: isRemoval ? "uninstall" : "install", status };
}

export function toPackageCommand(origin: CommandOrigin, event: PackageEventPayload): ReportPackageStatusCommand {
  const details = {
    ...event.details,
    ...(event.log_url !== undefined && { logUrl: event.log_url }),
    ...(event.command_id !== undefined && { command: event.command_id }),
    ...omitUndefined({ stage: event.stage, progress: event.progress }),
  };
  return {
    type: "worker.package",
    ...senderOf(origin),
    name: event.name,
    version: event.version,
    status: event.status,
    ...(Object.keys(details).length > 0 && JSON.stringify(details).length <= artifactCharsMax && { details }),
  };
}

/** Null when the frame does not say which task it is about. */
function toErrorCommand(
  origin: CommandOrigin,
  payload: ExecErrorPayload,
  corr: string | undefined,
  bytes: number,
): ReportErrorCommand | null {
  const { where, details: reported } = payload.context ?? {};
  // They are stored with the task and with each of its events.
  const isTooLong = bytes > limits.feedbackBytesMax && JSON.stringify(reported ?? {}).length > limits.feedbackBytesMax;
  const namedTask = payload.task_id ?? reported?.["task_id"];
  const task = typeof namedTask === "string" && namedTask !== "" ? namedTask : taskFromCorr(corr, origin.dialect);
  if (task === null) return null;
  const details = {
    ...(isTooLong ? { truncated: true } : reported),
    ...(where !== undefined && { where }),
    ...(payload.remediation !== undefined && { remediation: payload.remediation }),
  };
  return {
    type: "task.error",
    ...senderOf(origin),
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
): ReportFeedbackCommand {
  const { run_id, task_id, fence, ...feedback } = payload;
  return {
    type: "task.feedback",
    tenant: origin.tenant,
    worker: origin.worker,
    session: origin.session,
    task: task_id,
    fence: fence ?? fenceFromCorr(corr, task_id),
    // Cut first: to look for bindings takes several times as long as what is stored may take.
    data: withoutFeedbackBindings(limitFeedback(feedback, bytes)),
  };
}

function withoutFeedbackBindings({ metadata, chunks, ...rest }: LimitedFeedback): LimitedFeedback {
  return {
    ...rest,
    ...(metadata !== undefined && { metadata: withoutBindings(metadata) }),
    ...(chunks !== undefined && { chunks: chunks.map(stripChunkBindings) }),
  };
}

const stripChunkBindings = (chunk: OutputChunk): OutputChunk =>
  chunk.metadata === undefined ? chunk : { ...chunk, metadata: withoutBindings(chunk.metadata) };

/** Vitals are JSON text: shown to operators and never used for decisions, so a text that is too long is left out. */
export function toHeartbeatCommand(
  origin: CommandOrigin,
  payload: HeartbeatPayload,
  vitalsCharsMax: number,
): RecordHeartbeatCommand {
  const { healthy, metrics, held, resources } = payload;
  const basics = {
    healthy,
    metrics,
    ...(payload.packages?.hash !== undefined && { packages: payload.packages.hash }),
  };
  const vitals = addResources(basics, resources, vitalsCharsMax);
  return {
    type: "worker.beat",
    tenant: origin.tenant,
    worker: origin.worker,
    session: origin.session,
    healthy,
    held: held === undefined ? null : toAttempts(held),
    ...(metrics?.mem_pct !== undefined && { memPct: metrics.mem_pct }),
    ...(metrics?.disk_pct !== undefined && { diskPct: metrics.disk_pct }),
    ...(metrics?.inflight !== undefined && { inflight: metrics.inflight }),
    ...(vitals.length <= vitalsCharsMax && { vitals }),
  };
}

/** As many of them as the limit leaves room for: they are shown, and nothing is decided by them. */
function addResources(basics: object, resources: HeartbeatPayload["resources"], charsMax: number): string {
  if (resources === undefined) return JSON.stringify(basics);
  for (let items = resources.items ?? []; ; items = items.slice(Math.ceil(items.length / 2))) {
    const vitals = JSON.stringify({ ...basics, resources: { ...resources, items } });
    if (vitals.length <= charsMax || items.length === 0) return vitals.length <= charsMax ? vitals : JSON.stringify(basics);
  }
}

export const toAttempts = (held: readonly { task_id: string; fence: number }[]): AttemptRef[] =>
  held.map(({ task_id, fence }) => ({ task: task_id, fence }));

/** Workers that do not echo the fence point back to their dispatch, whose id is `<task>#<fence>`. */
export function fenceFromCorr(corr: string | undefined, task: string): number | null {
  if (corr === undefined || corr[task.length] !== "#" || !corr.startsWith(task)) return null;
  const digits = corr.slice(task.length + 1);
  // Only plain digits: Number() also accepts "", "1e3" and " 7".
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
