// Keeps the outbox on disk: outcomes of one tick share one append and one sync, and a failing disk is retried until it works.

import { errorMessage, FifoQueue } from "@astraflow/protocol";
import type { WorkerEnvironment } from "../system/environment.ts";
import type { OutboxDisk } from "./outbox-file.ts";
import {
  encodeJournal,
  encodeRecord,
  type JournalContent,
  type JournaledOutcome,
  journalLimits,
  readJournal,
} from "./outbox-journal.ts";

/** The outbox on disk, as the link needs it: nothing here waits. */
export type DurableOutbox = Pick<JournaledOutbox, "persist" | "remove" | "isHealthy">;

export interface OutboxLogEvent {
  readonly level: "info" | "warn" | "error";
  readonly event: "outbox-found" | "outbox-cut" | "outbox-damaged" | "outbox-failed" | "outbox-mended";
  readonly message: string;
  readonly details?: Readonly<Record<string, unknown>>;
}

export interface JournaledOutboxPorts {
  readonly disk: OutboxDisk;
  readonly environment: Pick<WorkerEnvironment, "after" | "defer" | "wallClock">;
  log(event: OutboxLogEvent): void;
  healthChanged(): void;
}

const journaledOutboxDefaults = {
  /** Pause after a failure of the disk; doubles up to the second. */
  retryMs: 100,
  retryMsMax: 5_000,
  /** How long acks may wait for outcomes to share a write with; an ack that is written late only costs a repeated frame. */
  ackWaitMs: 1_000,
  /** The file is written anew when it is larger than this and a quarter of it, or less, is still needed. */
  compactBytesMin: 4 * 1024 * 1024,
};
export type JournaledOutboxSettings = Readonly<typeof journaledOutboxDefaults>;

interface PendingWrite {
  readonly outcome: JournaledOutcome;
  readonly onPersisted: () => void;
}

export class JournaledOutbox {
  readonly #ports: JournaledOutboxPorts;
  readonly #settings: JournaledOutboxSettings;
  /** Outcomes that are on disk and not acked: enough to write the file anew without reading it. */
  readonly #liveOutcomes = new Map<number, JournaledOutcome>();
  #liveBytesEstimate = 0;
  /** Outcomes in the file that are no longer needed. */
  #deadOutcomes = 0;
  readonly #pendingWrites = new FifoQueue<PendingWrite>();
  #ackedKeys: number[] = [];
  /** What surely is on disk: so many bytes, in so many records. */
  #fileBytes = 0;
  #recordCount = 0;
  #nextKey = 0;
  /** What the disk holds behind `#bytes`, or even before, is unknown since something failed. */
  #isFileSuspect = false;
  #isHealthy = true;
  #failureCount = 0;
  #isWriting = false;
  #isClosed = false;
  /** Acks have waited long enough for an outcome to share a write with. */
  #areAcksDue = false;
  #timer: { readonly cancel: () => void; readonly ring: () => void } | null = null;
  #onIdle: (() => void) | null = null;

  constructor(ports: JournaledOutboxPorts, settings: Partial<JournaledOutboxSettings> = {}) {
    this.#ports = ports;
    this.#settings = { ...journaledOutboxDefaults, ...settings };
  }

  /** Whether what is to be kept now will be; false while the disk fails. */
  get isHealthy(): boolean {
    return this.#isHealthy;
  }

  /** Reads what an earlier process has left, oldest first, however long the disk takes. Null: it is damaged and was put aside. */
  async load(): Promise<readonly JournaledOutcome[] | null> {
    for (;;) {
      if (this.#isClosed) return [];
      try {
        const restored = await this.#readJournalFile();
        this.#markHealthy();
        return restored;
      } catch (problem) {
        await this.#waitAfterFailure(problem, "read");
      }
    }
  }

  /** Writes an outcome to disk and gives its key. `onPersisted` is called once it survives anything, in order, and later. It must not throw. */
  persist(outcome: Omit<JournaledOutcome, "key">, onPersisted: () => void): number {
    const key = this.#nextKey++;
    this.#pendingWrites.push({ outcome: { ...outcome, key }, onPersisted });
    this.#scheduleWrite();
    return key;
  }

  remove(key: number): void {
    const outcome = this.#liveOutcomes.get(key);
    if (outcome === undefined) return;
    this.#liveOutcomes.delete(key);
    this.#liveBytesEstimate -= estimateRecordBytes(outcome);
    this.#deadOutcomes++;
    this.#ackedKeys.push(key);
    this.#scheduleAckWrite();
  }

  /** Writes what waits, if the disk takes it, and touches the disk no more. Never rejects. */
  async close(): Promise<void> {
    this.#isClosed = true;
    // Whoever pauses need not wait any longer; the acks are written now.
    this.#cancelTimer()?.ring();
    const rested = new Promise<void>((resolve) => {
      this.#onIdle = resolve;
    });
    if (this.#isWriting) await rested;
    else await this.#writePending();
    const lost = this.#pendingWrites.size;
    if (lost > 0) {
      const message = `${lost} results could not be written to the outbox and are lost; their tasks will run again`;
      this.#log("error", "outbox-failed", message, { lost });
    }
    try {
      await this.#ports.disk.close?.();
    } catch (problem) {
      // All that was promised is on disk; the system closes the file with the process.
      this.#log("warn", "outbox-failed", `the outbox could not be closed: ${errorMessage(problem)}`);
    }
  }

  // ---- the one thing at a time that is done to the disk

  #scheduleWrite(): void {
    if (this.#isWriting || this.#isClosed) return;
    this.#isWriting = true;
    this.#cancelTimer();
    // After all that one poll of the sockets brought in: outcomes that come together share a write.
    this.#ports.environment.defer(() => void this.#writePending());
  }

  /** Never rejects. Goes on until nothing waits; while the disk fails, until it is closed. */
  async #writePending(): Promise<void> {
    this.#isWriting = true;
    while (this.#hasPendingWork) {
      try {
        if (this.#isFileSuspect) await this.#repairFile();
        else if (this.#shouldCompact) await this.#compact();
        else await this.#appendBatch();
        if (this.#pendingWrites.size === 0) this.#markHealthy();
      } catch (problem) {
        this.#isFileSuspect = true;
        const hasEnded = this.#isClosed;
        await this.#waitAfterFailure(problem, "written");
        if (hasEnded) break;
      }
    }
    this.#isWriting = false;
    this.#onIdle?.();
    this.#scheduleAckWrite();
  }

  get #hasPendingWork(): boolean {
    if (this.#pendingWrites.size > 0) return true;
    return this.#isClosed ? this.#ackedKeys.length > 0 : this.#isFileSuspect || (this.#areAcksDue && this.#ackedKeys.length > 0);
  }

  get #shouldCompact(): boolean {
    const isMostlyDead = this.#deadOutcomes > 0 && this.#liveBytesEstimate * 4 <= this.#fileBytes;
    return isMostlyDead && this.#fileBytes >= this.#settings.compactBytesMin;
  }

  async #appendBatch(): Promise<void> {
    const { disk } = this.#ports;
    const batch = this.#peekBatch();
    const acked = this.#ackedKeys.slice();
    const record = encodeRecord(this.#recordCount, { outcomes: batch.map(({ outcome }) => outcome), ackedKeys: acked });
    await disk.append(record);
    await disk.sync();
    this.#fileBytes += record.length;
    this.#recordCount++;
    this.#dropWrittenAcks(acked.length);
    for (const { outcome } of batch) {
      this.#pendingWrites.shift();
      this.#liveOutcomes.set(outcome.key, outcome);
      this.#liveBytesEstimate += estimateRecordBytes(outcome);
    }
    for (const { onPersisted } of batch) onPersisted();
  }

  /** Outcomes stay in the queue until they are on disk, so that a failed write loses none. */
  #peekBatch(): PendingWrite[] {
    const batch: PendingWrite[] = [];
    let size = 0;
    for (let index = 0; index < this.#pendingWrites.size && size < journalLimits.recordBytesSoft; index++) {
      const one = this.#pendingWrites.at(index) as PendingWrite;
      batch.push(one);
      size += one.outcome.payload.length;
    }
    return batch;
  }

  async #compact(): Promise<void> {
    const { bytes, records } = encodeJournal([...this.#liveOutcomes.values()]);
    const acked = this.#ackedKeys.length;
    await this.#ports.disk.replace(bytes);
    this.#fileBytes = bytes.length;
    this.#recordCount = records;
    // Outcomes acked before the copy was made are not in it; those acked since then are.
    this.#dropWrittenAcks(acked);
    this.#deadOutcomes = this.#ackedKeys.length;
  }

  #dropWrittenAcks(acked: number): void {
    this.#ackedKeys.splice(0, acked);
    this.#areAcksDue = false;
  }

  /** After a failure: looks at what is really there, and cuts it back to what is known, or writes it anew from memory. */
  async #repairFile(): Promise<void> {
    const { disk } = this.#ports;
    const file = await disk.read();
    const kept = file === null ? null : readJournal(file.subarray(0, this.#fileBytes));
    const isWhole = kept?.outcome === "clean" && kept.records === this.#recordCount && this.#containsLiveOutcomes(kept);
    if (isWhole) {
      await disk.truncate(this.#fileBytes);
      await disk.sync();
    } else if (this.#fileBytes > 0 || file !== null) await this.#compact();
    this.#isFileSuspect = false;
  }

  #containsLiveOutcomes(content: JournalContent): boolean {
    const keys = new Set(content.outcomes.map((outcome) => outcome.key));
    return [...this.#liveOutcomes.keys()].every((key) => keys.has(key));
  }

  async #readJournalFile(): Promise<readonly JournaledOutcome[] | null> {
    const { disk, environment } = this.#ports;
    const file = await disk.read();
    if (file === null) return [];
    const reading = readJournal(file);
    if (reading.outcome === "damaged") {
      const { at, message } = reading;
      const suffix = `damaged-${environment.wallClock()}`;
      await disk.setAside(suffix);
      const advice = `the outbox of this worker is damaged at byte ${at}: ${message}. It was put aside with the suffix ${suffix}; no result in it will be sent, their tasks will be run again. Check the disk before starting anew`;
      this.#log("error", "outbox-damaged", advice, { at, suffix });
      return null;
    }
    if (reading.outcome === "torn") {
      const lost = file.length - reading.bytes;
      await disk.truncate(reading.bytes);
      this.#log("warn", "outbox-cut", "the last write of an earlier process was cut short; nothing of it had been sent", {
        lost,
      });
    }
    // An earlier process may have died before its sync; nothing that a power cut can take back may be sent.
    await disk.sync();
    this.#fileBytes = reading.bytes;
    this.#recordCount = reading.records;
    this.#nextKey = reading.nextKey;
    for (const outcome of reading.outcomes) this.#liveOutcomes.set(outcome.key, outcome);
    this.#liveBytesEstimate = reading.outcomes.reduce((sum, outcome) => sum + estimateRecordBytes(outcome), 0);
    this.#deadOutcomes = reading.nextKey - reading.outcomes.length;
    const { length } = reading.outcomes;
    if (length > 0)
      this.#log("info", "outbox-found", `${length} results of an earlier process are waiting to be sent`, { words: length });
    return reading.outcomes;
  }

  // ---- failing and recovering

  async #waitAfterFailure(problem: unknown, what: "read" | "written"): Promise<void> {
    const waitMs = Math.min(this.#settings.retryMsMax, this.#settings.retryMs * 2 ** Math.min(this.#failureCount, 20));
    this.#failureCount++;
    const message = `the outbox cannot be ${what}: ${errorMessage(problem)}`;
    this.#log("error", "outbox-failed", message, { retryInMs: waitMs, waiting: this.#pendingWrites.size });
    if (this.#isHealthy) {
      this.#isHealthy = false;
      this.#ports.healthChanged();
    }
    if (this.#isClosed) return;
    await new Promise<void>((resolve) => this.#setTimer(waitMs, resolve));
  }

  #markHealthy(): void {
    this.#failureCount = 0;
    if (this.#isHealthy) return;
    this.#isHealthy = true;
    this.#log("info", "outbox-mended", "the outbox can be written again");
    this.#ports.healthChanged();
  }

  #scheduleAckWrite(): void {
    if (this.#ackedKeys.length === 0 || this.#isWriting || this.#isClosed || this.#timer !== null) return;
    this.#setTimer(this.#settings.ackWaitMs, () => {
      this.#areAcksDue = true;
      this.#scheduleWrite();
    });
  }

  #setTimer(ms: number, ring: () => void): void {
    const cancel = this.#ports.environment.after(ms, () => {
      this.#timer = null;
      ring();
    });
    this.#timer = { cancel, ring };
  }

  #cancelTimer(): { readonly ring: () => void } | null {
    const timer = this.#timer;
    this.#timer = null;
    timer?.cancel();
    return timer;
  }

  #log(level: OutboxLogEvent["level"], event: OutboxLogEvent["event"], message: string, details?: OutboxLogEvent["details"]) {
    this.#ports.log({ level, event, message, ...(details !== undefined && { details }) });
  }
}

const estimateRecordBytes = (outcome: JournaledOutcome): number =>
  outcome.payload.length + outcome.id.length + outcome.run.length + 2 * outcome.task.length + 100;
