// Frames of the session door for whoever looks on at this moment: nothing is built while nobody does, and nothing is kept. Only frames of
// workers that have shown who they are: what a stranger calls itself is nobody's. What of a frame may be shown is in frame-log.ts.

import { runOf } from "@astraflow/engine";
import { type Envelope, limits, type OutgoingFrame, toFrameType } from "@astraflow/protocol";
import type { VolatileEvents, WireFrame } from "../events/volatile.ts";
import { type Carried, type FrameLog, type FrameWords, heardWords, isMany, type Receiver, saidWords } from "./frame-log.ts";
import type { Trace } from "./texts.ts";
import { dispatchIn } from "./words.ts";

export interface WireTap {
  heard(envelope: Envelope, bytes: number, from: Receiver): void;
  said(frame: OutgoingFrame, text: string, carried: Carried, to: Receiver): void;
}

export function createWireTap(volatile: VolatileEvents): WireTap {
  return {
    heard(envelope, bytes, { tenant, workerName, dialect, session }) {
      if (workerName === null || !volatile.hearsFrames(tenant)) return;
      const type = toFrameType(dialect, envelope.type) ?? envelope.type;
      volatile.frame({ tenant, workerName, type }, () => ({
        ...shown({ ...heardWords(envelope), ...namedAck(type, envelope), type }, { workerName, session, direction: "in", bytes }),
        ...aboutHeard(envelope),
      }));
    },
    said(frame, text, carried, { tenant, workerName, dialect, session }) {
      if (workerName === null || !volatile.hearsFrames(tenant)) return;
      volatile.frame({ tenant, workerName, type: frame.type }, () => ({
        ...shown(saidWords(frame, carried, dialect), {
          workerName,
          session,
          direction: "out",
          bytes: Buffer.byteLength(text),
        }),
        ...aboutSaid(frame, carried),
      }));
    },
  };
}

/** What sees every frame that is written for this worker; null where nobody ever looks. */
export function traceFor(
  { frameLog, wireTap }: { readonly frameLog: FrameLog | null; readonly wireTap: WireTap | null },
  to: Receiver,
): Trace | null {
  if (frameLog === null && wireTap === null) return null;
  return (frame, text, carried) => {
    frameLog?.said(frame, carried, to);
    wireTap?.said(frame, text, carried, to);
  };
}

function shown(
  { type, id, corr, seq, ack, code, ok, ackSeq, tasks }: FrameWords,
  { workerName, session, direction, bytes }: Pick<WireFrame, "workerName" | "direction" | "bytes"> & { session: string | null },
): WireFrame {
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
function namedAck(type: string, { ack, payload }: Envelope): Pick<FrameWords, "ack"> {
  const named = type === "control.ack" ? (ack?.for ?? idIn(payload["for"])) : undefined;
  return named === undefined ? {} : { ack: { ...ack, for: named } };
}

type About = Pick<WireFrame, "run" | "task">;

/** Named in the payload, or else by the dispatch that the frame answers. */
function aboutHeard({ payload, corr, ack }: Envelope): About {
  const run = idIn(payload["run_id"]) ?? idIn(payload["runId"]);
  const named = idIn(payload["task_id"]) ?? idIn(payload["taskId"]);
  return about(run, named ?? dispatchIn(corr)?.task ?? dispatchIn(ack?.for ?? idIn(payload["for"]))?.task);
}

function aboutSaid({ corr, ackFor }: OutgoingFrame, carried: Carried): About {
  if (carried === null) return about(undefined, dispatchIn(corr)?.task ?? dispatchIn(ackFor)?.task);
  if (!isMany(carried)) return about(carried.run, carried.task);
  const [only] = carried;
  return only === undefined || carried.length > 1 ? {} : about(only.dispatch.run, only.dispatch.task);
}

function about(run: string | undefined, task: string | undefined): About {
  const named = run ?? (task === undefined ? undefined : runOf(task));
  return { ...(named !== undefined && { run: named }), ...(task !== undefined && { task }) };
}

const idIn = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value.slice(0, limits.idCharsMax) : undefined;
