// One direction of a connection: whole messages, in order, each after its latency; held while the path is clogged or the reader does
// not read, silent for ever once it is dead. Who stands at the two ends is connection.ts.

import type { Dice } from "./dice.ts";
import type { Timeline } from "./timeline.ts";

export type Item =
  | { readonly what: "open" }
  | { readonly what: "text"; readonly text: string; readonly frame: number }
  | { readonly what: "ping" | "pong" }
  /** A close frame and its answer. */
  | { readonly what: "close" | "closed"; readonly code: number; readonly reason: string }
  /** The other end is gone without a word of the protocol: its process died, or it tore the socket down. */
  | { readonly what: "reset" };

/** The state of a path between two machines; all lanes on it share it. */
export interface PathState {
  readonly latencyMs: number;
  /** Faults under way that hold all traffic back. */
  clogs: number;
  /** Added to every message's latency. */
  slowMs: number;
  /** Faults under way that refuse new connections. */
  refusals: number;
  /** Shares of messages that vanish, come a second time, or are overtaken on living connections; the last two by up to `ms`. */
  readonly unrest: { lost: number; doubled: number; overtaken: number; ms: number };
}

/** What a message in front of which others may pass is to suffer; used up by the next text. */
export interface Mischief {
  readonly kind: "drop" | "double" | "overtake";
  readonly ms: number;
}

export interface LaneEnds {
  /** The message reaches the far end. */
  deliver(item: Item): void;
  lost(item: Item): void;
  /** All that was written has left. */
  drained(): void;
}

/** What the kernels of both ends take without the writer noticing. */
const kernelBytes = 64 * 1024;

export class Lane {
  readonly #timeline: Timeline;
  readonly #dice: Dice;
  /** Apart from the dice of latency: worlds without unrest stay as they are. */
  readonly #unrest: Dice;
  readonly #path: PathState;
  readonly #ends: LaneEnds;
  #items: Item[] = [];
  /** Items at the front whose time has come. */
  #ready = 0;
  #lastAt = 0;
  #bytes = 0;
  #isDead = false;
  #isUnread = false;
  mischief: Mischief | null = null;

  constructor(timeline: Timeline, dice: Dice, path: PathState, ends: LaneEnds) {
    this.#timeline = timeline;
    this.#dice = dice;
    this.#unrest = dice.fork("unrest");
    this.#path = path;
    this.#ends = ends;
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  /** What the writer's own socket still holds. */
  get bufferedBytes(): number {
    return Math.max(0, this.#bytes - kernelBytes);
  }

  put(item: Item): void {
    this.#bytes += sizeOf(item);
    if (this.#isDead) return this.#ends.lost(item);
    const mischief = item.what === "text" ? (this.mischief ?? this.#drawMischief()) : null;
    if (mischief !== null) {
      this.mischief = null;
      if (mischief.kind === "drop") return this.#lose(item);
      this.#timeline.after(this.#latencyMs() + mischief.ms, () => this.#stray(item, mischief.kind === "overtake"));
      if (mischief.kind === "overtake") return;
    }
    this.#lastAt = Math.max(this.#lastAt, this.#timeline.now + this.#latencyMs());
    this.#items.push(item);
    this.#timeline.after(this.#lastAt - this.#timeline.now, () => {
      this.#ready++;
      this.pump();
    });
  }

  #drawMischief(): Mischief | null {
    const { lost, doubled, overtaken, ms } = this.#path.unrest;
    if (lost + doubled + overtaken === 0) return null;
    const dice = this.#unrest;
    if (dice.chance(lost)) return { kind: "drop", ms: 0 };
    if (dice.chance(doubled)) return { kind: "double", ms: dice.scale(0.1, ms) };
    return dice.chance(overtaken) ? { kind: "overtake", ms: dice.scale(0.1, ms) } : null;
  }

  /** From here on nothing gets through, and nobody is told. */
  die(): void {
    this.#isDead = true;
    this.dropAll();
  }

  /** All that is on its way is lost. */
  dropAll(): void {
    const lost = this.#items;
    this.#items = [];
    this.#ready = 0;
    for (const item of lost) this.#ends.lost(item);
  }

  read(isRead: boolean): void {
    this.#isUnread = !isRead;
    if (isRead) this.pump();
  }

  /** Delivers what may go; called whenever something could have begun to flow. */
  pump(): void {
    while (this.#ready > 0 && this.#path.clogs === 0 && !this.#isUnread) {
      const item = this.#items.shift();
      // After dropAll a timer may ring for nobody.
      if (item === undefined) {
        this.#ready = 0;
        return;
      }
      this.#ready--;
      this.#left(item);
      this.#ends.deliver(item);
    }
  }

  /** A single message that travels apart from the others. */
  #stray(item: Item, isOnlyOne: boolean): void {
    if (isOnlyOne) this.#left(item);
    if (!this.#isDead) this.#ends.deliver(item);
    else if (isOnlyOne) this.#ends.lost(item);
  }

  #lose(item: Item): void {
    this.#left(item);
    this.#ends.lost(item);
  }

  #left(item: Item): void {
    const before = this.bufferedBytes;
    this.#bytes -= sizeOf(item);
    if (before > 0 && this.bufferedBytes === 0) this.#ends.drained();
  }

  #latencyMs(): number {
    return this.#path.latencyMs * (0.5 + this.#dice.roll()) + this.#path.slowMs;
  }
}

const sizeOf = (item: Item): number => (item.what === "text" ? item.text.length : 8);
