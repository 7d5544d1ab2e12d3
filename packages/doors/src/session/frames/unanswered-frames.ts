// A worker's frames on their way through the engine, and how much of them is unanswered. Which ack an answer leads to is the stream's business.

import type { RecordHeartbeat } from "@astraflow/engine";
import type { Envelope, NextRequestPayload } from "@astraflow/protocol";
import type { DeliveryTag } from "@astraflow/session";

/** One frame that the engine will answer for. A batch is settled when all its items are. */
export interface UnansweredFrame {
  readonly kind: "join" | "word" | "beat" | "describe";
  readonly tag: DeliveryTag;
  /** Why the frame is refused once all is answered; without one it is settled. */
  readonly refusal?: string;
  /** A question that must be answered even where the engine refuses it. */
  readonly nextRequest?: NextRequestPayload;
  /** Told, once it is stored, to whoever listens. */
  readonly heartbeat?: RecordHeartbeat;
  answersLeft: number;
}

/** A control frame has no number: its ack is by name, if it asked. */
export const controlFrameTag = (envelope: Envelope, bytes: number): DeliveryTag => ({
  number: null,
  id: envelope.id,
  isAsked: envelope.ack?.request === true,
  bytes,
});

export class UnansweredFrames {
  bytes = 0;
  heartbeats = 0;
  /** Frames that no window bounds; heartbeats have a bound of their own. */
  unnumbered = 0;

  add(frame: UnansweredFrame): void {
    this.bytes += frame.tag.bytes;
    if (isUnnumbered(frame)) this.unnumbered += 1;
    if (frame.kind === "beat") this.heartbeats += 1;
  }

  /** One answer has come; true when it was the last one for this frame. */
  recordAnswer(frame: UnansweredFrame): boolean {
    frame.answersLeft -= 1;
    if (frame.answersLeft > 0) return false;
    this.bytes -= frame.tag.bytes;
    if (isUnnumbered(frame)) this.unnumbered -= 1;
    if (frame.kind === "beat") this.heartbeats -= 1;
    return true;
  }
}

const isUnnumbered = (frame: UnansweredFrame): boolean =>
  frame.tag.number === null && (frame.kind === "word" || frame.kind === "describe");
