// Every frame of the session door as a line of the log, for whoever looks into an exchange afterwards. Only where lines at debug are
// kept: elsewhere there is no such log at all, and no line is built. What is written about sessions is in session.ts.

import { type Dialect, type Envelope, limits, type OutgoingFrame } from "@astraflow/protocol";
import type { Outside } from "../outside.ts";
import { frameFields } from "./surroundings.ts";
import { schedulerId } from "./texts.ts";

/** To whom a frame goes, and how it is spelled for them. */
export interface Receiver {
  readonly dialect: Dialect;
  readonly tenant: string;
  readonly instance: string;
  /** Null before there is one. */
  readonly session: string | null;
}

export interface FrameLog {
  heard(envelope: Envelope, session: string | null): void;
  said(frame: OutgoingFrame, to: Receiver): void;
}

export function createFrameLog(outside: Pick<Outside, "isDebug" | "log">): FrameLog | null {
  if (outside.isDebug !== true) return null;
  return {
    heard(envelope, session) {
      const { tenant, sender, ack, payload } = envelope;
      outside.log({
        level: "debug",
        event: "frame.in",
        tenant,
        sender: { id: sender.id },
        session,
        ...frameFields(envelope),
        ...(ack !== undefined && { ack }),
        ...wordsOf(payload),
        ...tasksOf(envelope.type, payload),
      });
    },
    said({ type, id, corr, number, runSeq, ackFor, ackRequest, payload }, { dialect, tenant, instance, session }) {
      const seq = dialect === "v1" ? runSeq : number;
      outside.log({
        level: "debug",
        event: "frame.out",
        tenant,
        sender: { id: schedulerId },
        receiver: { id: instance },
        session,
        type,
        id,
        ...(corr !== undefined && { corr }),
        ...(seq !== undefined && { seq }),
        ...(ackFor !== undefined && { ack: { for: ackFor } }),
        ...(ackRequest === true && { ack: { request: true } }),
        // A payload that is text already is work, which has no code.
        ...(typeof payload === "object" && wordsOf(payload)),
        ...tasksOf(type, payload),
      });
    },
  };
}

/** Of what a payload says only the verdict: all else may be secret, or long. */
function wordsOf(payload: object): Record<string, unknown> {
  const { code, ok, ack_seq } = payload as Record<string, unknown>;
  return {
    ...(typeof code === "string" && { code: code.slice(0, 200) }),
    ...(ok === false && { ok }),
    ...(typeof ack_seq === "number" && { ackSeq: ack_seq }),
  };
}

/** A batch points to no single task: those in it are named as their dispatches are, or they could not be found. */
function tasksOf(type: string, payload: object | string): { tasks?: string[] } {
  if (!type.endsWith(".batch")) return {};
  const { items } = (typeof payload === "string" ? JSON.parse(payload) : payload) as { items?: unknown };
  if (!Array.isArray(items)) return {};
  return { tasks: items.slice(0, limits.batchItemsMax).map(nameOf) };
}

function nameOf(item: unknown): string {
  const { task_id: task, fence } = (typeof item === "object" && item !== null ? item : {}) as Record<string, unknown>;
  if (typeof task !== "string") return "?";
  return typeof fence === "number" ? `${task.slice(0, 200)}#${fence}` : task.slice(0, 200);
}
