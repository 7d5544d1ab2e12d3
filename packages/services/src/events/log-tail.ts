// The tail of one tenant's log as events: read once however many listen, the last stretch kept so that a reader who comes back soon costs no
// read. Readers that are further behind read the log themselves until they have caught up.

import type { StoreReader } from "@astraflow/engine";
import { createSemaphore } from "../environment/concurrency.ts";
import type { ServiceEnvironment } from "../environment/service-environment.ts";
import type { EventLookup } from "./event-lookup.ts";
import { eventsOfFact, type StreamEvent } from "./fact-events.ts";

/** One fact's events; a fact that says nothing to readers moves their cursor all the same. */
export interface FactEvents {
  readonly position: number;
  readonly events: readonly StreamEvent[];
  /** About how long they are, written out. */
  readonly chars: number;
}

/** The facts after this cursor are no longer kept. */
export class CursorExpired extends Error {
  readonly floor: number;
  readonly head: number;
  constructor(floor: number, head: number) {
    super("cursor is below the floor of the log");
    this.floor = floor;
    this.head = head;
  }
}

/** Of a page and of what is kept: a snapshot or a result may be large. */
const tailLimits = {
  pageFacts: 200,
  pageChars: 1024 * 1024,
  bufferedFacts: 2_000,
  bufferedChars: 8 * 1024 * 1024,
  /** Pages for those who come back that are read at a time; others wait. */
  concurrentReplaysMax: 4,
  /** After so long, and after each replayed page, the thread goes on with what else waits: a store in this process answers at once. */
  uninterruptedMs: 10,
} as const;

export interface LogTailOptions {
  readonly tenant: string;
  readonly reader: StoreReader;
  readonly lookup: EventLookup;
  readonly environment: ServiceEnvironment;
}

export class LogTail {
  readonly #options: LogTailOptions;
  readonly #listeners = new Set<() => void>();
  readonly #withReplaySlot = createSemaphore(tailLimits.concurrentReplaysMax);
  #buffered: FactEvents[] = [];
  /** What is kept begins after this position. */
  #from: number;
  /** Highest position that was read. */
  #position: number;
  #reading: Promise<void> | null = null;
  #isRequested = false;

  constructor(options: LogTailOptions, start: number) {
    this.#options = options;
    this.#from = start;
    this.#position = start;
  }

  /** Facts after a cursor, oldest first: from what is kept, else from the log. Throws CursorExpired below the floor. */
  async readAfter(cursor: number): Promise<readonly FactEvents[]> {
    if (cursor > this.#position) return [];
    if (cursor >= this.#from) return this.#buffered.filter((one) => one.position > cursor);
    const { facts } = await this.#withReplaySlot(() => this.#readPage(cursor));
    await this.#options.environment.yieldLoop?.();
    return facts;
  }

  /** Called when there may be more; the returned function ends that. */
  subscribe(onMore: () => void): () => void {
    this.#listeners.add(onMore);
    this.wake();
    return () => this.#listeners.delete(onMore);
  }

  /** The log may have grown. */
  wake(): void {
    this.#isRequested = true;
    if (this.#reading !== null || this.#listeners.size === 0) return;
    this.#reading = this.#readToEnd()
      .catch((problem: unknown) => {
        const { tenant, environment } = this.#options;
        if (problem instanceof CursorExpired) {
          // Nobody listened while the log was cut: those who come now have their own cursors.
          this.#from = problem.floor;
          this.#position = problem.floor;
          this.#buffered = [];
          this.#isRequested = true;
        } else environment.log({ level: "warn", event: "events.tail", tenant, problem: String(problem) });
      })
      .finally(() => {
        this.#reading = null;
        for (const listener of this.#listeners) listener();
        // Asked between the last look and this: it would wait for the next timer.
        if (this.#isRequested) this.wake();
      });
  }

  async #readToEnd(): Promise<void> {
    do {
      this.#isRequested = false;
      const { facts, next } = await this.#readPage(this.#position);
      const hasMore = next > this.#position;
      this.#appendToBuffer(facts, next);
      if (hasMore) this.#isRequested = true;
      if (facts.length > 0) for (const listener of this.#listeners) listener();
    } while (this.#isRequested && this.#listeners.size > 0);
  }

  async #readPage(after: number): Promise<{ facts: FactEvents[]; next: number }> {
    const { tenant, reader, lookup, environment } = this.#options;
    let yieldedAt = environment.clock.monotonic();
    const page = await reader.events({ tenant, after, limit: tailLimits.pageFacts });
    if (after < page.floor) throw new CursorExpired(page.floor, page.head);
    const facts: FactEvents[] = [];
    let pageChars = 0;
    for (const entry of page.items) {
      const { position } = entry;
      const events = await eventsOfFact(entry, lookup, tenant);
      const chars = events.reduce((sum, event) => sum + charsOf(event), 0);
      facts.push({ position, events, chars });
      pageChars += chars;
      if (pageChars > tailLimits.pageChars) return { facts, next: position };
      if (environment.clock.monotonic() - yieldedAt < tailLimits.uninterruptedMs) continue;
      await environment.yieldLoop?.();
      yieldedAt = environment.clock.monotonic();
    }
    return { facts, next: page.next };
  }

  #appendToBuffer(facts: readonly FactEvents[], next: number): void {
    const buffered = this.#buffered;
    buffered.push(...facts);
    this.#position = next;
    let chars = buffered.reduce((sum, one) => sum + one.chars, 0);
    const isTooMuch = (at: number): boolean =>
      buffered.length - at > tailLimits.bufferedFacts || chars > tailLimits.bufferedChars;
    let at = 0;
    for (; at < buffered.length && isTooMuch(at); at++) chars -= buffered[at]?.chars ?? 0;
    if (at === 0) return;
    this.#from = buffered[at - 1]?.position ?? this.#from;
    this.#buffered = buffered.slice(at);
  }
}

/** Most events are a few names; only what carries bodies is worth measuring. */
const smallChars = 500;
const largeEventTypes = new Set<StreamEvent["type"]>(["run.snapshot", "node.result.snapshot", "node.result.delta"]);
const charsOf = ({ type, data }: StreamEvent): number => (largeEventTypes.has(type) ? JSON.stringify(data).length : smallChars);
