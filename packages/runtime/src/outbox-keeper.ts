// Keeps the outbox on disk: words of one tick share one append and one sync, the next ones gather meanwhile, and a disk that fails is
// tried again until it works. How words look as bytes is outbox-journal.ts; when they are sent is the link's business.

import { Fifo } from "./fifo.ts";
import type { OutboxDisk } from "./outbox-disk.ts";
import { encodeJournal, encodeRecord, type JournalContent, journalLimits, type KeptWord, readJournal } from "./outbox-journal.ts";
import type { Outside } from "./outside.ts";

/** The outbox on disk, as the link needs it: nothing here waits. */
export interface Keeping {
  /**
   * Puts a word on disk and gives its key. `kept` is called once it survives anything, in the order of the calls, never before this
   * has returned. It must not throw.
   */
  keep(word: Omit<KeptWord, "key">, kept: () => void): number;
  /** The word was acked and need not be kept any more. */
  forget(key: number): void;
  /** Whether what is to be kept now will be; false while the disk fails. */
  readonly isHealthy: boolean;
}

export interface KeeperNote {
  readonly level: "info" | "warn" | "error";
  readonly event: "outbox-found" | "outbox-cut" | "outbox-damaged" | "outbox-failed" | "outbox-mended";
  readonly message: string;
  readonly details?: Readonly<Record<string, unknown>>;
}

export interface KeeperPorts {
  readonly disk: OutboxDisk;
  readonly outside: Pick<Outside, "after" | "soon" | "wall">;
  note(note: KeeperNote): void;
  /** `isHealthy` is another now. */
  changed(): void;
}

export interface KeeperSettings {
  /** Pause after a failure of the disk; doubles up to the second. */
  readonly retryMs: number;
  readonly retryMsMax: number;
  /** How long acks may wait for words to share a write with; written late they only cost a word said twice. */
  readonly ackWaitMs: number;
  /** The file is written anew when it is larger than this and a quarter of it, or less, is still needed. */
  readonly compactBytesMin: number;
}

export const keeperDefaults: KeeperSettings = {
  retryMs: 100,
  retryMsMax: 5_000,
  ackWaitMs: 1_000,
  compactBytesMin: 4 * 1024 * 1024,
};

interface Waiting {
  readonly word: KeptWord;
  readonly kept: () => void;
}

export class OutboxKeeper implements Keeping {
  readonly #ports: KeeperPorts;
  readonly #settings: KeeperSettings;
  /** Words that are on disk and not acked: enough to write the file anew without reading it. */
  readonly #live = new Map<number, KeptWord>();
  #liveChars = 0;
  /** Words in the file that are no longer needed. */
  #deadWords = 0;
  readonly #waiting = new Fifo<Waiting>();
  #acked: number[] = [];
  /** What surely is on disk: so many bytes, in so many records. */
  #bytes = 0;
  #records = 0;
  #nextKey = 0;
  /** What the disk holds behind `#bytes`, or even before, is unknown since something failed. */
  #isSuspect = false;
  #isHealthy = true;
  #failures = 0;
  #isWorking = false;
  #isClosed = false;
  /** Acks have waited long enough for a word to share a write with. */
  #areAcksDue = false;
  #timer: { readonly cancel: () => void; readonly ring: () => void } | null = null;
  #rest: (() => void) | null = null;

  constructor(ports: KeeperPorts, settings: Partial<KeeperSettings> = {}) {
    this.#ports = ports;
    this.#settings = { ...keeperDefaults, ...settings };
  }

  get isHealthy(): boolean {
    return this.#isHealthy;
  }

  /** Reads what an earlier process has left, oldest first, however long the disk takes. Null: it is damaged and was put aside. */
  async open(): Promise<readonly KeptWord[] | null> {
    for (;;) {
      if (this.#isClosed) return [];
      try {
        const left = await this.#readLeft();
        this.#recovered();
        return left;
      } catch (problem) {
        await this.#pause(problem, "read");
      }
    }
  }

  keep(word: Omit<KeptWord, "key">, kept: () => void): number {
    const key = this.#nextKey++;
    this.#waiting.push({ word: { ...word, key }, kept });
    this.#start();
    return key;
  }

  forget(key: number): void {
    const word = this.#live.get(key);
    if (word === undefined) return;
    this.#live.delete(key);
    this.#liveChars -= weightOf(word);
    this.#deadWords++;
    this.#acked.push(key);
    this.#timeAcks();
  }

  /** Writes what waits, if the disk takes it, and touches the disk no more. Never rejects. */
  async close(): Promise<void> {
    this.#isClosed = true;
    // Whoever pauses need not wait any longer; the acks are written now.
    this.#takeTimer()?.ring();
    const rested = new Promise<void>((resolve) => {
      this.#rest = resolve;
    });
    if (this.#isWorking) await rested;
    else await this.#work();
    const lost = this.#waiting.size;
    if (lost > 0) {
      const message = `${lost} results could not be written to the outbox and are lost; their tasks will be granted again`;
      this.#note("error", "outbox-failed", message, { lost });
    }
    try {
      await this.#ports.disk.close?.();
    } catch (problem) {
      // All that was promised is on disk; the system closes the file with the process.
      this.#note("warn", "outbox-failed", `the outbox could not be closed: ${reasonOf(problem)}`);
    }
  }

  // ---- the one thing at a time that is done to the disk

  #start(): void {
    if (this.#isWorking || this.#isClosed) return;
    this.#isWorking = true;
    this.#takeTimer();
    // After all that one poll of the sockets brought in: words that come together share a write.
    this.#ports.outside.soon(() => void this.#work());
  }

  /** Never rejects. Goes on until nothing waits; while the disk fails, until it is closed. */
  async #work(): Promise<void> {
    this.#isWorking = true;
    while (this.#hasWork) {
      try {
        if (this.#isSuspect) await this.#mend();
        else if (this.#isCompactable) await this.#compact();
        else await this.#append();
        if (this.#waiting.size === 0) this.#recovered();
      } catch (problem) {
        this.#isSuspect = true;
        const hasEnded = this.#isClosed;
        await this.#pause(problem, "written");
        if (hasEnded) break;
      }
    }
    this.#isWorking = false;
    this.#rest?.();
    this.#timeAcks();
  }

  get #hasWork(): boolean {
    if (this.#waiting.size > 0) return true;
    return this.#isClosed ? this.#acked.length > 0 : this.#isSuspect || (this.#areAcksDue && this.#acked.length > 0);
  }

  get #isCompactable(): boolean {
    const isMostlyDead = this.#deadWords > 0 && this.#liveChars * 4 <= this.#bytes;
    return isMostlyDead && this.#bytes >= this.#settings.compactBytesMin;
  }

  async #append(): Promise<void> {
    const { disk } = this.#ports;
    const batch = this.#peekBatch();
    const acked = this.#acked.slice();
    const record = encodeRecord(this.#records, { words: batch.map(({ word }) => word), acked });
    await disk.append(record);
    await disk.sync();
    this.#bytes += record.length;
    this.#records++;
    this.#wrote(acked.length);
    for (const { word } of batch) {
      this.#waiting.shift();
      this.#live.set(word.key, word);
      this.#liveChars += weightOf(word);
    }
    for (const { kept } of batch) kept();
  }

  /** The words stay in the queue until they are on disk, so that a failed write loses none. */
  #peekBatch(): Waiting[] {
    const batch: Waiting[] = [];
    let size = 0;
    for (let index = 0; index < this.#waiting.size && size < journalLimits.recordBytesSoft; index++) {
      const one = this.#waiting.at(index) as Waiting;
      batch.push(one);
      size += one.word.payload.length;
    }
    return batch;
  }

  async #compact(): Promise<void> {
    const { bytes, records } = encodeJournal([...this.#live.values()]);
    const acked = this.#acked.length;
    await this.#ports.disk.replace(bytes);
    this.#bytes = bytes.length;
    this.#records = records;
    // Words acked before the copy was made are not in it; those acked since then are.
    this.#wrote(acked);
    this.#deadWords = this.#acked.length;
  }

  #wrote(acked: number): void {
    this.#acked.splice(0, acked);
    this.#areAcksDue = false;
  }

  /** After a failure: looks at what is really there, and cuts it back to what is known, or writes it anew from memory. */
  async #mend(): Promise<void> {
    const { disk } = this.#ports;
    const file = await disk.read();
    const kept = file === null ? null : readJournal(file.subarray(0, this.#bytes));
    const isWhole = kept?.outcome === "clean" && kept.records === this.#records && this.#holdsLive(kept);
    if (isWhole) {
      await disk.truncate(this.#bytes);
      await disk.sync();
    } else if (this.#bytes > 0 || file !== null) await this.#compact();
    this.#isSuspect = false;
  }

  #holdsLive(content: JournalContent): boolean {
    const keys = new Set(content.words.map((word) => word.key));
    return [...this.#live.keys()].every((key) => keys.has(key));
  }

  async #readLeft(): Promise<readonly KeptWord[] | null> {
    const { disk, outside } = this.#ports;
    const file = await disk.read();
    if (file === null) return [];
    const reading = readJournal(file);
    if (reading.outcome === "damaged") {
      const { at, message } = reading;
      const suffix = `damaged-${outside.wall()}`;
      await disk.setAside(suffix);
      const advice = `the outbox of this worker is damaged at byte ${at}: ${message}. It was put aside with the suffix ${suffix}; no result in it will be sent, their tasks will be run again. Check the disk before starting anew`;
      this.#note("error", "outbox-damaged", advice, { at, suffix });
      return null;
    }
    if (reading.outcome === "torn") {
      const lost = file.length - reading.bytes;
      await disk.truncate(reading.bytes);
      this.#note("warn", "outbox-cut", "the last write of an earlier process was cut short; nothing of it had been sent", {
        lost,
      });
    }
    // An earlier process may have died before its sync; nothing that a power cut can take back may be sent.
    await disk.sync();
    this.#bytes = reading.bytes;
    this.#records = reading.records;
    this.#nextKey = reading.nextKey;
    for (const word of reading.words) this.#live.set(word.key, word);
    this.#liveChars = reading.words.reduce((sum, word) => sum + weightOf(word), 0);
    this.#deadWords = reading.nextKey - reading.words.length;
    const { length } = reading.words;
    if (length > 0)
      this.#note("info", "outbox-found", `an earlier process has left ${length} results to be sent`, { words: length });
    return reading.words;
  }

  // ---- failing and recovering

  async #pause(problem: unknown, what: "read" | "written"): Promise<void> {
    const waitMs = Math.min(this.#settings.retryMsMax, this.#settings.retryMs * 2 ** Math.min(this.#failures, 20));
    this.#failures++;
    const message = `the outbox cannot be ${what}: ${reasonOf(problem)}`;
    this.#note("error", "outbox-failed", message, { retryInMs: waitMs, waiting: this.#waiting.size });
    if (this.#isHealthy) {
      this.#isHealthy = false;
      this.#ports.changed();
    }
    if (this.#isClosed) return;
    await new Promise<void>((resolve) => this.#time(waitMs, resolve));
  }

  #recovered(): void {
    this.#failures = 0;
    if (this.#isHealthy) return;
    this.#isHealthy = true;
    this.#note("info", "outbox-mended", "the outbox can be written again");
    this.#ports.changed();
  }

  #timeAcks(): void {
    if (this.#acked.length === 0 || this.#isWorking || this.#isClosed || this.#timer !== null) return;
    this.#time(this.#settings.ackWaitMs, () => {
      this.#areAcksDue = true;
      this.#start();
    });
  }

  #time(ms: number, ring: () => void): void {
    const cancel = this.#ports.outside.after(ms, () => {
      this.#timer = null;
      ring();
    });
    this.#timer = { cancel, ring };
  }

  #takeTimer(): { readonly ring: () => void } | null {
    const timer = this.#timer;
    this.#timer = null;
    timer?.cancel();
    return timer;
  }

  #note(level: KeeperNote["level"], event: KeeperNote["event"], message: string, details?: KeeperNote["details"]): void {
    this.#ports.note(details === undefined ? { level, event, message } : { level, event, message, details });
  }
}

const reasonOf = (problem: unknown): string => (problem instanceof Error ? problem.message : String(problem));

/** About what a word takes in the file, names and all. */
const weightOf = (word: KeptWord): number => word.payload.length + word.id.length + word.run.length + 2 * word.task.length + 100;
