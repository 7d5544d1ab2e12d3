// From the payloads of a worker's work frames and heartbeats to commands for the engine.
// Pure. Who speaks comes from the connection's binding, never from a payload.

import type { BeatWorker, Command, ErrorTask, FeedbackTask, Held, ResultTask } from "@astraflow/engine";
import {
  type Envelope,
  type ExecError,
  Fault,
  type Feedback,
  type Heartbeat,
  limits,
  type PkgCatalog,
  type Result,
  readPayload,
} from "@astraflow/protocol";

/** Who the connection was authenticated as. */
export interface Speaker {
  readonly tenant: string;
  /** `<tenant>/<instance>` */
  readonly worker: string;
  readonly session: string;
}

/** `commands`: what to tell the engine, maybe nothing. `unknown`: no such word. `catalog`: the inventory changed. */
export type Word =
  | { readonly of: "commands"; readonly commands: readonly Command[] }
  | { readonly of: "catalog"; readonly catalog: PkgCatalog }
  | { readonly of: "news"; readonly event: string; readonly fields: Readonly<Record<string, unknown>> }
  | { readonly of: "unknown" };

/** A work frame of a live session, read. */
export function readWord(who: Speaker, envelope: Envelope, bytes: number): Word | Fault {
  const { corr, payload } = envelope;
  switch (envelope.type) {
    case "biz.exec.result": {
      const result = readPayload("v2", "biz.exec.result", payload);
      return result instanceof Fault ? result : told([resultCommand(who, result, corr)]);
    }
    case "biz.exec.result.batch": {
      const batch = readPayload("v2", "biz.exec.result.batch", payload);
      return batch instanceof Fault ? batch : told(batch.items.map((item) => resultCommand(who, item, corr)));
    }
    case "biz.exec.error": {
      const error = readPayload("v2", "biz.exec.error", payload);
      if (error instanceof Fault) return error;
      const command = errorCommand(who, error, corr);
      return command === null
        ? { of: "news", event: "session.error", fields: { code: error.code, message: error.message.slice(0, 500) } }
        : told([command]);
    }
    case "biz.exec.feedback": {
      const feedback = readPayload("v2", "biz.exec.feedback", payload);
      return feedback instanceof Fault ? feedback : told([feedbackCommand(who, feedback, corr, bytes)]);
    }
    case "biz.exec.inventory": {
      const inventory = readPayload("v2", "biz.exec.inventory", payload);
      if (inventory instanceof Fault) return inventory;
      const { tenant, worker, session } = who;
      return told([{ type: "worker.beat", tenant, worker, session, healthy: true, held: heldOf(inventory.running) }]);
    }
    case "biz.pkg.catalog": {
      const catalog = readPayload("v2", "biz.pkg.catalog", payload);
      return catalog instanceof Fault ? catalog : { of: "catalog", catalog };
    }
    case "biz.pkg.event": {
      const event = readPayload("v2", "biz.pkg.event", payload);
      if (event instanceof Fault) return event;
      return {
        of: "news",
        event: "session.package",
        fields: { package: event.name, version: event.version, status: event.status },
      };
    }
    default:
      // Vendor frames are carried and mean nothing here.
      return envelope.type.startsWith("ext.vendor.") ? told([]) : { of: "unknown" };
  }
}

const told = (commands: readonly Command[]): Word => ({ of: "commands", commands });

const statusOf = { SUCCEEDED: "succeeded", FAILED: "failed", SKIPPED: "skipped", CANCELLED: "cancelled" } as const;

function resultCommand(who: Speaker, payload: Result, corr: string | undefined): ResultTask {
  const { error } = payload;
  return {
    type: "task.result",
    tenant: who.tenant,
    worker: who.worker,
    session: who.session,
    task: payload.task_id,
    fence: payload.fence ?? fenceIn(corr, payload.task_id),
    status: statusOf[payload.status],
    result: JSON.stringify(payload.result),
    error:
      error === undefined
        ? null
        : {
            code: error.code,
            message: error.message,
            ...(error.remediation !== undefined && { details: { remediation: error.remediation } }),
          },
    durationMs: payload.duration_ms ?? null,
  };
}

/** Null when the frame does not say which task it is about: then there is nothing to tell the engine. */
function errorCommand(who: Speaker, payload: ExecError, corr: string | undefined): ErrorTask | null {
  const named = payload.task_id ?? payload.context?.details?.["task_id"];
  const task = typeof named === "string" ? named : taskIn(corr);
  if (task === null) return null;
  const details = {
    ...payload.context?.details,
    ...(payload.context?.where !== undefined && { where: payload.context.where }),
    ...(payload.remediation !== undefined && { remediation: payload.remediation }),
  };
  return {
    type: "task.error",
    tenant: who.tenant,
    worker: who.worker,
    session: who.session,
    task,
    fence: payload.fence ?? fenceIn(corr, task),
    code: payload.code,
    message: payload.message,
    ...(Object.keys(details).length > 0 && { details }),
  };
}

function feedbackCommand(who: Speaker, payload: Feedback, corr: string | undefined, bytes: number): FeedbackTask {
  const { run_id, task_id, fence, ...data } = payload;
  return {
    type: "task.feedback",
    tenant: who.tenant,
    worker: who.worker,
    session: who.session,
    task: task_id,
    fence: fence ?? fenceIn(corr, task_id),
    data: bytes <= limits.feedbackBytesMax ? data : cutFeedback(data),
  };
}

/** Keeps the small words and as many chunks as fit, and says that something is missing. */
function cutFeedback(data: Omit<Feedback, "run_id" | "task_id" | "fence">): Record<string, unknown> {
  const { stage, progress, message, chunks = [] } = data;
  let room: number = limits.feedbackBytesMax;
  const kept: object[] = [];
  for (const chunk of chunks) {
    room -= JSON.stringify(chunk).length;
    if (room < 0) break;
    kept.push(chunk);
  }
  return {
    ...(stage !== undefined && { stage }),
    ...(progress !== undefined && { progress }),
    ...(message !== undefined && { message: message.slice(0, 4_096) }),
    ...(kept.length > 0 && { chunks: kept }),
    truncated: true,
  };
}

export function beatCommand(who: Speaker, payload: Heartbeat): BeatWorker {
  return {
    type: "worker.beat",
    tenant: who.tenant,
    worker: who.worker,
    session: who.session,
    healthy: payload.healthy,
    held: payload.held === undefined ? null : heldOf(payload.held),
  };
}

export const heldOf = (held: readonly { task_id: string; fence: number }[]): Held[] =>
  held.map(({ task_id, fence }) => ({ task: task_id, fence }));

/** Workers that do not echo the fence point back to their dispatch, whose id is `<task>#<fence>`. */
function fenceIn(corr: string | undefined, task: string): number | null {
  if (corr === undefined || corr[task.length] !== "#" || !corr.startsWith(task)) return null;
  const fence = Number(corr.slice(task.length + 1));
  return Number.isSafeInteger(fence) && fence >= 0 ? fence : null;
}

function taskIn(corr: string | undefined): string | null {
  const mark = corr?.lastIndexOf("#") ?? -1;
  return corr === undefined || mark <= 0 ? null : corr.slice(0, mark);
}
