// The tail of one tenant's log as events: read once however many listen, the last stretch kept so that a reader who comes back soon costs no
// read. Readers that are further behind read the log themselves until they have caught up.

import type { LogEntry, Reader } from "@astraflow/engine";
import type { DoorEnvironment } from "../outside.ts";
import { createSemaphore } from "../turnstile.ts";
import { eventsOf, type Lookup, type Said } from "./words.ts";

/** One fact's events; a fact that says nothing to readers moves their cursor all the same. */
export interface Told {
  readonly position: number;
  readonly events: readonly Said[];
  /** About how long they are, written out. */
  readonly chars: number;
}

export interface Tail {
  /** Highest position that was read. */
  readonly position: number;
  /** Facts after a cursor, oldest first: from what is kept, else from the log. Empty: nothing more yet. Throws `Expired` below the floor. */
  after(cursor: number): Promise<readonly Told[]>;
  /** Called when there may be more; the returned function ends that. */
  listen(hear: () => void): () => void;
}

/** The facts after this cursor are no longer kept. */
export class Expired extends Error {
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
  keptFacts: 2_000,
  keptChars: 8 * 1024 * 1024,
  /** Pages for those who come back that are read at a time; others wait. */
  replaysMax: 4,
} as const;

export interface TailOptions {
  readonly tenant: string;
  readonly reader: Reader;
  readonly lookup: Lookup;
  readonly environment: DoorEnvironment;
}

export function createTail(options: TailOptions, start: number): Tail & { wake(): void } {
  const { tenant, reader, lookup } = options;
  const ears = new Set<() => void>();
  let kept: Told[] = [];
  /** What is kept begins after this position. */
  let from = start;
  let position = start;
  let reading: Promise<void> | null = null;
  let isAsked = false;

  const read = async (after: number): Promise<{ told: Told[]; next: number }> => {
    const page = await reader.events({ tenant, after, limit: tailLimits.pageFacts });
    if (after < page.floor) throw new Expired(page.floor, page.head);
    const told: Told[] = [];
    let chars = 0;
    for (const entry of page.items) {
      const one = await tell(entry);
      told.push(one);
      chars += one.chars;
      if (chars > tailLimits.pageChars) return { told, next: one.position };
    }
    return { told, next: page.next };
  };

  const tell = async (entry: LogEntry): Promise<Told> => {
    const events = await eventsOf(entry, lookup, tenant);
    return { position: entry.position, events, chars: events.reduce((sum, event) => sum + charsOf(event), 0) };
  };

  const replay = createSemaphore(tailLimits.replaysMax);

  const keep = (told: readonly Told[], next: number): void => {
    kept.push(...told);
    position = next;
    let chars = kept.reduce((sum, one) => sum + one.chars, 0);
    const isTooMuch = (at: number): boolean => kept.length - at > tailLimits.keptFacts || chars > tailLimits.keptChars;
    let at = 0;
    for (; at < kept.length && isTooMuch(at); at++) chars -= kept[at]?.chars ?? 0;
    if (at === 0) return;
    from = kept[at - 1]?.position ?? from;
    kept = kept.slice(at);
  };

  const readOn = async (): Promise<void> => {
    do {
      isAsked = false;
      const { told, next } = await read(position);
      const hasMore = next > position;
      keep(told, next);
      if (hasMore) isAsked = true;
      if (told.length > 0) for (const ear of ears) ear();
    } while (isAsked && ears.size > 0);
  };

  const wake = (): void => {
    isAsked = true;
    if (reading !== null || ears.size === 0) return;
    reading = readOn()
      .catch((problem: unknown) => {
        if (problem instanceof Expired) {
          // Nobody listened while the log was cut: those who come now have their own cursors.
          [from, position, kept] = [problem.floor, problem.floor, []];
          isAsked = true;
        } else options.environment.log({ level: "warn", event: "events.tail", tenant, problem: String(problem) });
      })
      .finally(() => {
        reading = null;
        for (const ear of ears) ear();
        // Asked between the last look and this: it would wait for the next timer.
        if (isAsked) wake();
      });
  };

  return {
    get position() {
      return position;
    },
    async after(cursor) {
      if (cursor >= from && cursor <= position) return kept.filter((one) => one.position > cursor);
      if (cursor > position) return [];
      return (await replay(() => read(cursor))).told;
    },
    listen(hear) {
      ears.add(hear);
      wake();
      return () => ears.delete(hear);
    },
    wake,
  };
}

/** Most events are a few names; only what carries bodies is worth measuring. */
const smallChars = 500;
const isLarge = new Set<Said["type"]>(["run.snapshot", "node.result.snapshot", "node.result.delta"]);
const charsOf = ({ type, data }: Said): number => (isLarge.has(type) ? JSON.stringify(data).length : smallChars);
