// Frames of the session door for whoever looks on at this moment: nothing is built while nobody does, and nothing is kept. Only frames of
// workers that have shown who they are: what a stranger calls itself is nobody's. What of a frame may be shown is in frame-log.ts.

import { runOf } from "@astraflow/engine";
import { type Envelope, limits, type OutgoingFrame, toFrameType } from "@astraflow/protocol";
import type { VolatileEvents, WireFrameEvent } from "@astraflow/services";
import {
  type CarriedWork,
  type FrameLog,
  type FramePeer,
  type FrameSummary,
  isDispatchBatch,
  summarizeReceived,
  summarizeSent,
} from "./frame-log.ts";
import type { FrameTracer } from "./frame-writer.ts";
import { parseDispatchId } from "./work-frames.ts";

export interface FrameTap {
  publishReceived(envelope: Envelope, bytes: number, from: FramePeer): void;
  publishSent(frame: OutgoingFrame, text: string, work: CarriedWork, to: FramePeer): void;
}

export function createFrameTap(volatile: VolatileEvents): FrameTap {
  return {
    publishReceived(envelope, bytes, { tenant, workerName, dialect, session }) {
      if (workerName === null || !volatile.hasFrameListeners(tenant)) return;
      const type = toFrameType(dialect, envelope.type) ?? envelope.type;
      volatile.publishFrame({ tenant, workerName, type }, () => ({
        ...toWireFrame(
          { ...summarizeReceived(envelope), ...ackField(type, envelope), type },
          { workerName, session, direction: "in", bytes },
        ),
        ...runAndTaskReceived(envelope),
      }));
    },
    publishSent(frame, text, work, { tenant, workerName, dialect, session }) {
      if (workerName === null || !volatile.hasFrameListeners(tenant)) return;
      volatile.publishFrame({ tenant, workerName, type: frame.type }, () => ({
        ...toWireFrame(summarizeSent(frame, work, dialect), {
          workerName,
          session,
          direction: "out",
          bytes: Buffer.byteLength(text),
        }),
        ...runAndTaskSent(frame, work),
      }));
    },
  };
}

/** What sees every frame that is written for this worker; null where nobody ever looks. */
export function createFrameTracer(
  { frameLog, frameTap: wireTap }: { readonly frameLog: FrameLog | null; readonly frameTap: FrameTap | null },
  to: FramePeer,
): FrameTracer | null {
  if (frameLog === null && wireTap === null) return null;
  return (frame, text, work) => {
    frameLog?.logSent(frame, work, to);
    wireTap?.publishSent(frame, text, work, to);
  };
}

function toWireFrame(
  { type, id, corr, seq, ack, code, ok, ackSeq, tasks }: FrameSummary,
  {
    workerName,
    session,
    direction,
    bytes,
  }: Pick<WireFrameEvent, "workerName" | "direction" | "bytes"> & { session: string | null },
): WireFrameEvent {
  const verdict = {
    ...(ack?.request !== undefined && { request: ack.request }),
    ...(ack?.for !== undefined && { for: ack.for }),
    ...(ackSeq !== undefined && { seq: ackSeq }),
    ...(ok !== undefined && { ok }),
  };
  return {
    workerName,
    ...(session !== null && { session }),
    direction,
    type,
    id,
    ...(seq !== undefined && { seq }),
    ...(corr !== undefined && { corr }),
    ...(Object.keys(verdict).length > 0 && { ack: verdict }),
    bytes,
    ...(tasks !== undefined && { tasks: [...tasks] }),
    ...(code !== undefined && { code }),
  };
}

/** Which frame an ack is for stands in the envelope, in the payload, or in both. */
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
  return { ...(named !== undefined && { run: named }), ...(task !== undefined && { task }) };
}

const readId = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value.slice(0, limits.idCharsMax) : undefined;
