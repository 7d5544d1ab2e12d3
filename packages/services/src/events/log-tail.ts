// The tail of one tenant's log as events: read once however many listen, the last stretch kept so that a reader who comes back soon costs no
// read. Readers that are further behind read the log themselves until they have caught up.

import type { LoggedFact, StoreReader } from "@astraflow/engine";
import { createSemaphore } from "../environment/semaphore.ts";
import type { ServiceEnvironment } from "../environment/service-environment.ts";
import { type EventLookup, eventsOfFact, type StreamEvent } from "./fact-events.ts";

/** One fact's events; a fact that says nothing to readers moves their cursor all the same. */
export interface FactEvents {
  readonly position: number;
  readonly events: readonly StreamEvent[];
  /** About how long they are, written out. */
  readonly chars: number;
}

export interface LogTail {
  /** Highest position that was read. */
  readonly position: number;
  /** Facts after a cursor, oldest first: from what is kept, else from the log. Empty: nothing more yet. Throws `Expired` below the floor. */
  readAfter(cursor: number): Promise<readonly FactEvents[]>;
  /** Called when there may be more; the returned function ends that. */
  subscribe(onMore: () => void): () => void;
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

/** Facts and characters of a page and of what is kept: a snapshot or a result may be large. */
const tailLimits = {
  pageFacts: 200,
  pageChars: 1024 * 1024,
  bufferedFacts: 2_000,
  bufferedChars: 8 * 1024 * 1024,
  /** Pages for those who come back that are read at a time; others wait. */
  concurrentReplaysMax: 4,
} as const;

export interface LogTailOptions {
  readonly tenant: string;
  readonly reader: StoreReader;
  readonly lookup: EventLookup;
  readonly environment: ServiceEnvironment;
}

export function createLogTail(options: LogTailOptions, start: number): LogTail & { wake(): void } {
  const { tenant, reader, lookup } = options;
  const listeners = new Set<() => void>();
  let buffered: FactEvents[] = [];
  /** What is kept begins after this position. */
  let from = start;
  let position = start;
  let reading: Promise<void> | null = null;
  let isRequested = false;

  const readPage = async (after: number): Promise<{ told: FactEvents[]; next: number }> => {
    const page = await reader.events({ tenant, after, limit: tailLimits.pageFacts });
    if (after < page.floor) throw new CursorExpired(page.floor, page.head);
    const facts: FactEvents[] = [];
    let chars = 0;
    for (const entry of page.items) {
      const one = await convertEntry(entry);
      facts.push(one);
      chars += one.chars;
      if (chars > tailLimits.pageChars) return { told: facts, next: one.position };
    }
    return { told: facts, next: page.next };
  };

  const convertEntry = async (entry: LoggedFact): Promise<FactEvents> => {
    const events = await eventsOfFact(entry, lookup, tenant);
    return { position: entry.position, events, chars: events.reduce((sum, event) => sum + charsOf(event), 0) };
  };

  const withReplaySlot = createSemaphore(tailLimits.concurrentReplaysMax);

  const appendToBuffer = (facts: readonly FactEvents[], next: number): void => {
    buffered.push(...facts);
    position = next;
    let chars = buffered.reduce((sum, one) => sum + one.chars, 0);
    const isTooMuch = (at: number): boolean =>
      buffered.length - at > tailLimits.bufferedFacts || chars > tailLimits.bufferedChars;
    let at = 0;
    for (; at < buffered.length && isTooMuch(at); at++) chars -= buffered[at]?.chars ?? 0;
    if (at === 0) return;
    from = buffered[at - 1]?.position ?? from;
    buffered = buffered.slice(at);
  };

  const readToEnd = async (): Promise<void> => {
    do {
      isRequested = false;
      const { told: facts, next } = await readPage(position);
      const hasMore = next > position;
      appendToBuffer(facts, next);
      if (hasMore) isRequested = true;
      if (facts.length > 0) for (const listener of listeners) listener();
    } while (isRequested && listeners.size > 0);
  };

  const wake = (): void => {
    isRequested = true;
    if (reading !== null || listeners.size === 0) return;
    reading = readToEnd()
      .catch((problem: unknown) => {
        if (problem instanceof CursorExpired) {
          // Nobody listened while the log was cut: those who come now have their own cursors.
          [from, position, buffered] = [problem.floor, problem.floor, []];
          isRequested = true;
        } else options.environment.log({ level: "warn", event: "events.tail", tenant, problem: String(problem) });
      })
      .finally(() => {
        reading = null;
        for (const listener of listeners) listener();
        // Asked between the last look and this: it would wait for the next timer.
        if (isRequested) wake();
      });
  };

  return {
    get position() {
      return position;
    },
    async readAfter(cursor) {
      if (cursor >= from && cursor <= position) return buffered.filter((one) => one.position > cursor);
      if (cursor > position) return [];
      return (await withReplaySlot(() => readPage(cursor))).told;
    },
    subscribe(onMore) {
      listeners.add(onMore);
      wake();
      return () => listeners.delete(onMore);
    },
    wake,
  };
}

/** Most events are a few names; only what carries bodies is worth measuring. */
const smallChars = 500;
const largeEventTypes = new Set<StreamEvent["type"]>(["run.snapshot", "node.result.snapshot", "node.result.delta"]);
const charsOf = ({ type, data }: StreamEvent): number => (largeEventTypes.has(type) ? JSON.stringify(data).length : smallChars);
