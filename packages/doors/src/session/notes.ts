// A worker's frames on their way through the engine, and how much of them is unanswered. Which ack an answer leads to is the stream's business.

import type { BeatWorker } from "@astraflow/engine";
import type { Envelope, NextRequestPayload } from "@astraflow/protocol";
import type { Ticket } from "@astraflow/session";

/** One frame that the engine will answer for. A batch is settled when all its items are. */
export interface Note {
  readonly what: "join" | "word" | "beat" | "describe";
  readonly ticket: Ticket;
  /** Why the frame is refused once all is answered; without one it is settled. */
  readonly refusal?: string;
  /** A question that must be answered even where the engine refuses it. */
  readonly next?: NextRequestPayload;
  /** Told, once it is stored, to whoever listens. */
  readonly beat?: BeatWorker;
  left: number;
}

/** A control frame has no number: its ack is by name, if it asked. */
export const ticketOf = (envelope: Envelope, bytes: number): Ticket => ({
  number: null,
  id: envelope.id,
  isAsked: envelope.ack?.request === true,
  bytes,
});

export class Notes {
  bytes = 0;
  beats = 0;
  /** Frames that no window bounds; heartbeats have a bound of their own. */
  unnumbered = 0;

  enter(note: Note): void {
    this.bytes += note.ticket.bytes;
    if (isUnnumbered(note)) this.unnumbered += 1;
    if (note.what === "beat") this.beats += 1;
  }

  /** One answer has come; true when it was the last one for this frame. */
  answer(note: Note): boolean {
    note.left -= 1;
    if (note.left > 0) return false;
    this.bytes -= note.ticket.bytes;
    if (isUnnumbered(note)) this.unnumbered -= 1;
    if (note.what === "beat") this.beats -= 1;
    return true;
  }
}

const isUnnumbered = (note: Note): boolean => note.ticket.number === null && (note.what === "word" || note.what === "describe");
