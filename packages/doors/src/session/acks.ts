// The acknowledgements one connection owes: numbered frames in one merged ack, control frames by name. Each leaves only after its answer.

import type { Envelope } from "@astraflow/protocol";
import type { Incoming } from "./incoming.ts";
import type { Writer } from "./texts.ts";

/** One frame of the worker on its way through the engine. A batch is settled when all its items are. */
export interface Note {
  readonly what: "join" | "word" | "beat" | "describe";
  readonly id: string;
  /** Its transport number; null for control frames and those sent without. */
  readonly seq: number | null;
  readonly isAsked: boolean;
  readonly bytes: number;
  left: number;
}

export function noteOf(what: Note["what"], envelope: Envelope, seq: number | null, bytes: number): Note {
  return { what, id: envelope.id, seq, isAsked: envelope.ack?.request === true, bytes, left: 1 };
}

/** Counts against the number of unanswered frames that no window bounds; heartbeats have a bound of their own. */
export const isUnnumbered = (note: Note): boolean => note.seq === null && (note.what === "word" || note.what === "describe");

interface Named {
  readonly id: string;
  readonly ok: boolean;
  readonly info?: string;
}

export class Acks {
  private readonly incoming: Incoming;
  private named: Named[] = [];
  private isDue = false;
  /** Id of the one numbered frame the next ack is about; null as soon as there are several. */
  private only: string | null = null;

  constructor(incoming: Incoming) {
    this.incoming = incoming;
  }

  get isOwing(): boolean {
    return this.isDue || this.named.length > 0;
  }

  /** The engine has answered for this frame. */
  settle(note: Note): void {
    if (note.seq === null) {
      if (note.isAsked) this.named.push({ id: note.id, ok: true });
      return;
    }
    this.incoming.settle(note.seq);
    this.owe(note.isAsked ? note.id : null);
  }

  /** A repeat is acked again: the first ack may have been lost on its way to whoever repeats. */
  owe(id: string | null): void {
    this.only = this.isDue ? null : id;
    this.isDue = true;
  }

  /** Understood as a frame, but not as a word: said by name if the sender asked. */
  refuse(note: Note, info: string): void {
    if (note.seq !== null) {
      this.incoming.settle(note.seq);
      this.isDue = true;
      this.only = null;
    }
    if (note.isAsked) this.named.push({ id: note.id, ok: false, info });
  }

  name(id: string): void {
    this.named.push({ id, ok: true });
  }

  /** Everything owed, as frames. Those by name carry the window too, so one frame often suffices. */
  flush(writer: Writer, send: (text: string) => void): void {
    const { incoming, named } = this;
    const window = `"ack_seq":${incoming.ackSeq},"ack_bitmap":${incoming.bitmapText()},"recv_window":${incoming.window}`;
    for (const one of named) send(writer.ack(one, window));
    if (this.isDue && named.length === 0) send(writer.ack({ id: this.only, ok: true }, window));
    this.named = [];
    this.isDue = false;
    this.only = null;
  }
}
