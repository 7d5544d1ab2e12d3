// One direction of a connection: delivers whole messages in order, each after its latency; holds them while the path is clogged or the reader is paused;
// delivers nothing once it is dead. The two ends are in simulated-connection.ts.

import type { FaultIntensity } from "../kernel/fault-intensity.ts";
import type { SeededRandom } from "../kernel/seeded-random.ts";
import type { Timeline } from "../kernel/timeline.ts";

export type ChannelItem =
  | { readonly what: "open" }
  | { readonly what: "text"; readonly text: string; readonly frame: number }
  | { readonly what: "ping" | "pong" }
  /** A close frame and its answer. */
  | { readonly what: "close" | "closed"; readonly code: number; readonly reason: string }
  /** The other end is gone without a word of the protocol: its process died, or it tore the socket down. */
  | { readonly what: "reset" };

/** The state of a path between two machines; all lanes on it share it. */
export interface NetworkPath {
  readonly latencyMs: number;
  /** Faults under way that hold all traffic back. */
  blockCount: number;
  /** Added to every message's latency. */
  addedLatencyMs: number;
  /** Faults under way that refuse new connections. */
  refusalCount: number;
  /** Shares of messages that vanish, come a second time, or are overtaken on living connections; the last two by up to `ms`. */
  readonly frameFaults: Readonly<Record<"lost" | "doubled" | "overtaken", FaultIntensity>> & { ms: number };
}

/** What a message in front of which others may pass is to suffer; used up by the next text. */
export interface FrameFault {
  readonly kind: "drop" | "double" | "overtake";
  readonly ms: number;
}

export interface ChannelEvents {
  /** The message reaches the far end. */
  onDelivered(item: ChannelItem): void;
  onLost(item: ChannelItem): void;
  /** All that was written has left. */
  onDrained(): void;
}

/** What the kernels of both ends take without the writer noticing. */
const kernelBufferBytes = 64 * 1024;

export class OneWayChannel {
  readonly #timeline: Timeline;
  readonly #random: SeededRandom;
  /** Apart from the dice of latency: worlds without unrest stay as they are. */
  readonly #faultRandom: SeededRandom;
  readonly #path: NetworkPath;
  readonly #events: ChannelEvents;
  #items: ChannelItem[] = [];
  /** Items at the front whose time has come. */
  #readyCount = 0;
  #lastAt = 0;
  #bytes = 0;
  #isSilent = false;
  #isReadingStopped = false;
  nextFrameFault: FrameFault | null = null;

  constructor(timeline: Timeline, random: SeededRandom, path: NetworkPath, ends: ChannelEvents) {
    this.#timeline = timeline;
    this.#random = random;
    this.#faultRandom = random.fork("unrest");
    this.#path = path;
    this.#events = ends;
  }

  /** What the writer's own socket still holds. */
  get bufferedBytes(): number {
    return Math.max(0, this.#bytes - kernelBufferBytes);
  }

  send(item: ChannelItem): void {
    this.#bytes += sizeOf(item);
    if (this.#isSilent) return this.#events.onLost(item);
    const fault = item.what === "text" ? (this.nextFrameFault ?? this.#pickFrameFault()) : null;
    if (fault !== null) {
      this.nextFrameFault = null;
      if (fault.kind === "drop") {
        this.#releaseBytes(item);
        return this.#events.onLost(item);
      }
      this.#timeline.after(this.#latencyMs() + fault.ms, () => this.#deliverOutOfOrder(item, fault.kind === "overtake"));
      if (fault.kind === "overtake") return;
    }
    this.#lastAt = Math.max(this.#lastAt, this.#timeline.now + this.#latencyMs());
    this.#items.push(item);
    this.#timeline.after(this.#lastAt - this.#timeline.now, () => {
      this.#readyCount++;
      this.deliverReady();
    });
  }

  #pickFrameFault(): FrameFault | null {
    const { lost, doubled, overtaken, ms } = this.#path.frameFaults;
    if (lost.level + doubled.level + overtaken.level === 0) return null;
    const random = this.#faultRandom;
    if (random.chance(lost.level)) return { kind: "drop", ms: 0 };
    if (random.chance(doubled.level)) return { kind: "double", ms: random.logUniform(0.1, ms) };
    return random.chance(overtaken.level) ? { kind: "overtake", ms: random.logUniform(0.1, ms) } : null;
  }

  /** From here on nothing gets through, and nobody is told. */
  goSilent(): void {
    this.#isSilent = true;
    this.dropAll();
  }

  /** All that is on its way is lost. */
  dropAll(): void {
    const lost = this.#items;
    this.#items = [];
    this.#readyCount = 0;
    for (const item of lost) this.#events.onLost(item);
  }

  setReading(isRead: boolean): void {
    this.#isReadingStopped = !isRead;
    if (isRead) this.deliverReady();
  }

  /** Delivers what may go; called whenever something could have begun to flow. */
  deliverReady(): void {
    while (this.#readyCount > 0 && this.#path.blockCount === 0 && !this.#isReadingStopped) {
      const item = this.#items.shift();
      // After dropAll a delivery timer may find nothing to deliver.
      if (item === undefined) {
        this.#readyCount = 0;
        return;
      }
      this.#readyCount--;
      this.#releaseBytes(item);
      this.#events.onDelivered(item);
    }
  }

  /** A single message that travels apart from the others. */
  #deliverOutOfOrder(item: ChannelItem, isOnlyOne: boolean): void {
    if (isOnlyOne) this.#releaseBytes(item);
    if (!this.#isSilent) this.#events.onDelivered(item);
    else if (isOnlyOne) this.#events.onLost(item);
  }

  #releaseBytes(item: ChannelItem): void {
    const before = this.bufferedBytes;
    this.#bytes -= sizeOf(item);
    if (before > 0 && this.bufferedBytes === 0) this.#events.onDrained();
  }

  #latencyMs(): number {
    return this.#path.latencyMs * (0.5 + this.#random.random()) + this.#path.addedLatencyMs;
  }
}

const sizeOf = (item: ChannelItem): number => (item.what === "text" ? item.text.length : 8);
