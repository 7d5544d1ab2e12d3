// What of a frame may be shown to people, and every frame of the session door as a line of the log, for whoever looks into an exchange
// afterwards: only where lines at debug are kept. Frames for those who look on are in frame-tap.ts; what is written about sessions, session.ts.

import type { AttemptRef, SendDispatch } from "@astraflow/engine";
import { type Dialect, type Envelope, limits, type OutgoingFrame } from "@astraflow/protocol";
import type { DoorEnvironment } from "../../environment/door-environment.ts";
import { frameLogFields } from "../lifecycle/session-context.ts";
import { schedulerId } from "./frame-writer.ts";

/** The worker at the other end, and how frames are spelled for it. */
export interface FramePeer {
  readonly dialect: Dialect;
  readonly tenant: string;
  readonly instance: string;
  /** Null while it has not shown who it is: what it says of itself counts for nothing then. */
  readonly workerName: string | null;
  /** Null before there is one. */
  readonly session: string | null;
}

/** Before it has a session. */
export const peerWithoutSession = (
  { dialect, tenant, instance }: Pick<FramePeer, "dialect" | "tenant" | "instance">,
  workerName: string | null,
): FramePeer => ({ dialect, tenant, instance, workerName, session: null });

/** The work in a frame that we send; null where it carries none. */
export type CarriedWork = readonly SendDispatch[] | { readonly run: string; readonly task: string } | null;

export interface FrameLog {
  logReceived(envelope: Envelope, session: string | null): void;
  logSent(frame: OutgoingFrame, work: CarriedWork, to: FramePeer): void;
}

/** Of a frame only its names, its number and the verdict: all else may be secret, or long. */
export interface FrameSummary {
  readonly type: string;
  readonly id: string;
  readonly corr?: string;
  readonly seq?: number;
  readonly ack?: { readonly for?: string | undefined; readonly request?: boolean | undefined };
  readonly code?: string;
  readonly ok?: false;
  readonly ackSeq?: number;
  readonly tasks?: readonly string[];
}

export function createFrameLog(environment: Pick<DoorEnvironment, "isDebug" | "log">): FrameLog | null {
  if (environment.isDebug !== true) return null;
  return {
    logReceived(envelope, session) {
      const { tenant, sender } = envelope;
      environment.log({
        level: "debug",
        event: "frame.in",
        tenant,
        sender: { id: sender.id },
        session,
        ...summarizeReceived(envelope),
      });
    },
    logSent(frame, work, to) {
      environment.log({
        level: "debug",
        event: "frame.out",
        tenant: to.tenant,
        sender: { id: schedulerId },
        receiver: { id: to.instance },
        session: to.session,
        ...summarizeSent(frame, work, to.dialect),
      });
    },
  };
}

export function summarizeReceived(envelope: Envelope): FrameSummary {
  const { type, ack, payload } = envelope;
  return {
    ...(frameLogFields(envelope) as unknown as FrameSummary),
    ...(ack !== undefined && { ack }),
    ...outcomeFields(type, payload),
    ...(type.endsWith(".batch") && batchTasks(payload["items"])),
  };
}

export function summarizeSent(frame: OutgoingFrame, work: CarriedWork, dialect: Dialect): FrameSummary {
  const { type, id, corr, number, runSeq, ackFor, ackRequest, payload } = frame;
  const seq = dialect === "v1" ? runSeq : number;
  return {
    type,
    id,
    ...(corr !== undefined && { corr }),
    ...(seq !== undefined && { seq }),
    ...(ackFor !== undefined && { ack: { for: ackFor } }),
    ...(ackRequest === true && { ack: { request: true } }),
    // A payload that is text already is work, which has no code.
    ...(typeof payload === "object" && outcomeFields(type, payload)),
    ...(type.endsWith(".batch") && isDispatchBatch(work) && { tasks: work.map(({ dispatch }) => formatAttempt(dispatch)) }),
  };
}

export const isDispatchBatch = (work: CarriedWork): work is readonly SendDispatch[] => Array.isArray(work);

/** What a vendor means by these words is not known here: it may be secret. */
function outcomeFields(type: string, payload: object): Pick<FrameSummary, "code" | "ok" | "ackSeq"> {
  if (type.startsWith("ext.")) return {};
  const { code, ok, ack_seq } = payload as Record<string, unknown>;
  return {
    ...(typeof code === "string" && { code: code.slice(0, 200) }),
    ...(ok === false && { ok }),
    ...(typeof ack_seq === "number" && { ackSeq: ack_seq }),
  };
}

/** A batch points to no single task: those in it are named as their dispatches are, or they could not be found. */
function batchTasks(items: unknown): { tasks?: string[] } {
  return Array.isArray(items) ? { tasks: items.slice(0, limits.batchItemsMax).map(attemptNameOf) } : {};
}

function attemptNameOf(item: unknown): string {
  const { task_id: task, fence } = (typeof item === "object" && item !== null ? item : {}) as Record<string, unknown>;
  if (typeof task !== "string") return "?";
  return typeof fence === "number" ? formatAttempt({ task: task.slice(0, 200), fence }) : task.slice(0, 200);
}

const formatAttempt = ({ task, fence }: AttemptRef): string => `${task}#${fence}`;
