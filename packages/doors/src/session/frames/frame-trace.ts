// Shows the frames of the session door to people: as debug lines of the log, and as events to those who watch at this moment.
// Of a frame only its ids, its number and its outcome are shown: all else may be secret, or long.

import { type AttemptRef, runOf, type SendDispatch } from "@astraflow/engine";
import { type Dialect, type Envelope, limits, type OutgoingFrame, omitUndefined, toFrameType } from "@astraflow/protocol";
import type { ServiceEnvironment, VolatileEvents, WireFrameEvent } from "@astraflow/services";
import { parseDispatchId } from "./work-frames.ts";

export const schedulerId = "scheduler-control";

/** The worker at the other end, and its dialect. */
export interface FramePeer {
  readonly dialect: Dialect;
  readonly tenant: string;
  readonly instance: string;
  /** Null until it is authenticated: its frames are not published before that. */
  readonly workerName: string | null;
  /** Null before there is one. */
  readonly session: string | null;
}

/** The work in a frame that we send; null where it carries none. */
export type CarriedWork = readonly SendDispatch[] | { readonly run: string; readonly task: string } | null;

interface FrameSummary {
  readonly type: string;
  readonly id: string;
  readonly corr?: string | undefined;
  readonly seq?: number | undefined;
  readonly ack?: { readonly for?: string | undefined; readonly request?: boolean | undefined } | undefined;
  readonly code?: string | undefined;
  readonly ok?: false | undefined;
  readonly ackSeq?: number | undefined;
  readonly tasks?: string[] | undefined;
}

export class FrameTrace {
  readonly #environment: ServiceEnvironment;
  readonly #volatile: VolatileEvents | null;

  constructor(environment: ServiceEnvironment, volatile: VolatileEvents | null) {
    this.#environment = environment;
    this.#volatile = volatile;
  }

  received(envelope: Envelope, bytes: number, from: FramePeer): void {
    this.logReceived(envelope, from.session);
    this.publishReceived(envelope, bytes, from);
  }

  logReceived(envelope: Envelope, session: string | null): void {
    if (this.#environment.isDebug !== true) return;
    const { tenant, sender } = envelope;
    const names = { tenant, sender: { id: sender.id }, session };
    this.#environment.log({ level: "debug", event: "frame.in", ...names, ...summarizeReceived(envelope) });
  }

  publishReceived(envelope: Envelope, bytes: number, from: FramePeer): void {
    const { tenant, workerName, dialect } = from;
    const volatile = this.#volatile;
    if (volatile === null || workerName === null || !volatile.hasFrameListeners(tenant)) return;
    const type = toFrameType(dialect, envelope.type) ?? envelope.type;
    volatile.publishFrame({ tenant, workerName, type }, () => {
      const summary = { ...summarizeReceived(envelope), ...ackField(type, envelope), type };
      const event = toWireFrame(summary, { workerName, session: from.session, direction: "in", bytes });
      return { ...event, ...runAndTaskReceived(envelope) };
    });
  }

  sent(frame: OutgoingFrame, text: string, work: CarriedWork, to: FramePeer): void {
    const { tenant, workerName, dialect, session } = to;
    if (this.#environment.isDebug === true) {
      const names = { tenant, sender: { id: schedulerId }, receiver: { id: to.instance }, session };
      this.#environment.log({ level: "debug", event: "frame.out", ...names, ...summarizeSent(frame, work, dialect) });
    }
    const volatile = this.#volatile;
    if (volatile === null || workerName === null || !volatile.hasFrameListeners(tenant)) return;
    volatile.publishFrame({ tenant, workerName, type: frame.type }, () => {
      const peer = { workerName, session, direction: "out", bytes: Buffer.byteLength(text) } as const;
      return { ...toWireFrame(summarizeSent(frame, work, dialect), peer), ...runAndTaskSent(frame, work) };
    });
  }
}

/** The fields that every log line about a frame holds; the worker is its sender. */
export const frameLogFields = ({ type, id, corr, session_seq, seq }: Envelope): FrameSummary =>
  omitUndefined({ type, id, corr, seq: session_seq ?? seq });

function summarizeReceived(envelope: Envelope): FrameSummary {
  const { type, ack, payload } = envelope;
  const tasks = type.endsWith(".batch") ? batchTasks(payload["items"]) : undefined;
  return omitUndefined({ ...frameLogFields(envelope), ack, ...outcomeFields(type, payload), tasks });
}

function summarizeSent(frame: OutgoingFrame, work: CarriedWork, dialect: Dialect): FrameSummary {
  const { type, id, corr, number, runSeq, ackFor, ackRequest, payload } = frame;
  return omitUndefined({
    type,
    id,
    corr,
    seq: dialect === "v1" ? runSeq : number,
    ack: ackRequest === true ? { request: true } : ackFor === undefined ? undefined : { for: ackFor },
    // A payload that is text already is work, which has no code.
    ...(typeof payload === "object" && outcomeFields(type, payload)),
    tasks: type.endsWith(".batch") && isDispatchBatch(work) ? work.map(({ dispatch }) => formatAttempt(dispatch)) : undefined,
  });
}

const isDispatchBatch = (work: CarriedWork): work is readonly SendDispatch[] => Array.isArray(work);

/** Not of vendors' frames: what these fields mean there is unknown, so they may be secret. */
function outcomeFields(type: string, payload: object): Pick<FrameSummary, "code" | "ok" | "ackSeq"> {
  if (type.startsWith("ext.")) return {};
  const { code, ok, ack_seq } = payload as Record<string, unknown>;
  return {
    code: typeof code === "string" ? code.slice(0, 200) : undefined,
    ok: ok === false ? ok : undefined,
    ackSeq: typeof ack_seq === "number" ? ack_seq : undefined,
  };
}

/** The tasks of a batch, named as their dispatches are: its `corr` points to no single task. */
const batchTasks = (items: unknown): string[] | undefined =>
  Array.isArray(items) ? items.slice(0, limits.batchItemsMax).map(attemptNameOf) : undefined;

function attemptNameOf(item: unknown): string {
  const { task_id: task, fence } = (typeof item === "object" && item !== null ? item : {}) as Record<string, unknown>;
  if (typeof task !== "string") return "?";
  return typeof fence === "number" ? formatAttempt({ task: task.slice(0, 200), fence }) : task.slice(0, 200);
}

const formatAttempt = ({ task, fence }: AttemptRef): string => `${task}#${fence}`;

function toWireFrame(
  { type, id, corr, seq, ack, code, ok, ackSeq, tasks }: FrameSummary,
  {
    workerName,
    session,
    direction,
    bytes,
  }: Pick<WireFrameEvent, "workerName" | "direction" | "bytes"> & {
    readonly session: string | null;
  },
): WireFrameEvent {
  const verdict = omitUndefined({ request: ack?.request, for: ack?.for, seq: ackSeq, ok });
  const shownAck = Object.keys(verdict).length > 0 ? verdict : undefined;
  const where = { workerName, session: session ?? undefined, direction };
  return omitUndefined({ ...where, type, id, seq, corr, ack: shownAck, bytes, tasks, code });
}

/** An ack names its frame in the envelope, in the payload, or in both. */
function ackField(type: string, { ack, payload }: Envelope): Pick<FrameSummary, "ack"> {
  const named = type === "control.ack" ? (ack?.for ?? readId(payload["for"])) : undefined;
  return named === undefined ? {} : { ack: { ...ack, for: named } };
}

type RunAndTask = Pick<WireFrameEvent, "run" | "task">;

/** Named in the payload, or else by the dispatch that the frame answers. */
function runAndTaskReceived({ payload, corr, ack }: Envelope): RunAndTask {
  const run = readId(payload["run_id"]) ?? readId(payload["runId"]);
  const named = readId(payload["task_id"]) ?? readId(payload["taskId"]);
  return runAndTaskFields(run, named ?? parseDispatchId(corr)?.task ?? parseDispatchId(ack?.for ?? readId(payload["for"]))?.task);
}

function runAndTaskSent({ corr, ackFor }: OutgoingFrame, work: CarriedWork): RunAndTask {
  if (work === null) return runAndTaskFields(undefined, parseDispatchId(corr)?.task ?? parseDispatchId(ackFor)?.task);
  if (!isDispatchBatch(work)) return runAndTaskFields(work.run, work.task);
  const [only] = work;
  return only === undefined || work.length > 1 ? {} : runAndTaskFields(only.dispatch.run, only.dispatch.task);
}

function runAndTaskFields(run: string | undefined, task: string | undefined): RunAndTask {
  const named = run ?? (task === undefined ? undefined : runOf(task));
  return omitUndefined({ run: named, task });
}

const readId = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value.slice(0, limits.idCharsMax) : undefined;
