// The outbox as bytes: how outcomes and their acks are written, and what can be read back after any crash. Pure.
// A file is a list of records, numbered from 0 without gaps: length (4 bytes), number (6), type (1), CRC-32C (4), payload. One append
// writes one record and is on disk before the next begins. So only the last record can be torn: a bad one with a good one behind it
// is damage.

import type { FrameType } from "@astraflow/protocol";

/** A result or an error as it is kept: all that a later process needs to send it again. */
export interface JournaledOutcome {
  /** Its name in the journal; acks name it by this. */
  readonly key: number;
  readonly type: FrameType;
  readonly id: string;
  readonly run: string;
  readonly task: string;
  readonly node: string;
  readonly fence: number;
  /** JSON text of the frame's payload. */
  readonly payload: string;
}

export interface JournalContent {
  /** Outcomes that no ack was written for, oldest first. */
  readonly outcomes: readonly JournaledOutcome[];
  /** Records, and the bytes they take. What lies behind is torn. */
  readonly records: number;
  readonly bytes: number;
  /** Higher than the key of any outcome in the file. */
  readonly nextKey: number;
}

export type JournalReading =
  | ({ readonly outcome: "clean" | "torn" } & JournalContent)
  | { readonly outcome: "damaged"; readonly at: number; readonly message: string };

/** One append: outcomes to be kept, and keys of outcomes that were acked. */
export interface JournalEntry {
  readonly outcomes: readonly JournaledOutcome[];
  readonly ackedKeys: readonly number[];
}

export const journalLimits = {
  /** Outcomes beyond this wait for the next record. */
  recordBytesSoft: 4 * 1024 * 1024,
  /** No record is larger: the soft limit and one frame of the largest size. */
  recordBytesMax: 64 * 1024 * 1024,
} as const;

const headerBytes = 15;
const crcOffset = 11;
const typeOffset = 10;
const entryType = 1;

type OutcomeRow = readonly [
  key: number,
  type: string,
  id: string,
  run: string,
  task: string,
  node: string,
  fence: number,
  bytes: number,
];

export function encodeRecord(number: number, entry: JournalEntry): Uint8Array {
  const sizes = entry.outcomes.map((outcome) => Buffer.byteLength(outcome.payload));
  const rows = entry.outcomes.map(({ key, type, id, run, task, node, fence }, index): OutcomeRow => {
    return [key, type, id, run, task, node, fence, sizes[index] ?? 0];
  });
  // One line about all of them, then their payloads as they are: escaping JSON inside JSON would cost more than the rest.
  const about = `${JSON.stringify({ words: rows, acked: entry.ackedKeys })}\n`;
  const length = Buffer.byteLength(about) + sizes.reduce((sum, size) => sum + size, 0);
  const record = Buffer.allocUnsafe(headerBytes + length);
  record.writeUInt32LE(length, 0);
  record.writeUIntLE(number, 4, 6);
  record[typeOffset] = entryType;
  let at = headerBytes + record.write(about, headerBytes);
  for (const outcome of entry.outcomes) at += record.write(outcome.payload, at);
  record.writeUInt32LE(checksum(record, 0, length), crcOffset);
  return record;
}

/** A whole file with these outcomes and nothing else. */
export function encodeJournal(outcomes: readonly JournaledOutcome[]): { bytes: Uint8Array; records: number } {
  const records: Uint8Array[] = [];
  let batch: JournaledOutcome[] = [];
  let size = 0;
  const close = () => {
    if (batch.length > 0) records.push(encodeRecord(records.length, { outcomes: batch, ackedKeys: [] }));
    batch = [];
    size = 0;
  };
  for (const outcome of outcomes) {
    batch.push(outcome);
    size += outcome.payload.length;
    if (size >= journalLimits.recordBytesSoft) close();
  }
  close();
  return { bytes: Buffer.concat(records), records: records.length };
}

export function readJournal(file: Uint8Array): JournalReading {
  const bytes = Buffer.from(file.buffer, file.byteOffset, file.byteLength);
  const outcomes = new Map<number, JournaledOutcome>();
  let at = 0;
  let records = 0;
  let nextKey = 0;
  while (at < bytes.length) {
    const length = validRecordLength(bytes, at, records);
    if (length === null) break;
    const entry = readEntry(bytes.subarray(at + headerBytes, at + headerBytes + length));
    if (entry === null || bytes[at + typeOffset] !== entryType) {
      return { outcome: "damaged", at, message: `record ${records} is intact but its format is unknown` };
    }
    for (const outcome of entry.outcomes) {
      outcomes.set(outcome.key, outcome);
      nextKey = Math.max(nextKey, outcome.key + 1);
    }
    for (const key of entry.ackedKeys) outcomes.delete(key);
    at += headerBytes + length;
    records++;
  }
  const whole = at === bytes.length ? null : findValidRecord(bytes, at, records);
  if (whole !== null) {
    return { outcome: "damaged", at, message: `record ${records} cannot be read, but record ${whole} behind it can` };
  }
  return { outcome: at === bytes.length ? "clean" : "torn", outcomes: [...outcomes.values()], records, bytes: at, nextKey };
}

/** The payload's length of the record that begins here, if it is whole, unharmed and has this number. */
function validRecordLength(bytes: Buffer, at: number, number: number): number | null {
  if (bytes.length - at < headerBytes) return null;
  const length = bytes.readUInt32LE(at);
  if (length > journalLimits.recordBytesMax || length > bytes.length - at - headerBytes) return null;
  if (bytes.readUIntLE(at + 4, 6) !== number) return null;
  return checksum(bytes, at, length) === bytes.readUInt32LE(at + crcOffset) ? length : null;
}

/** A torn append leaves nothing whole behind itself. JSON text holds no zero bytes, so no payload can look like a record. */
function findValidRecord(bytes: Buffer, from: number, expected: number): number | null {
  for (let at = from; at <= bytes.length - headerBytes; at++) {
    if (bytes[at + typeOffset] !== entryType) continue;
    const number = bytes.readUIntLE(at + 4, 6);
    // There cannot be more records than bytes: spares most checksums where the end of a file is noise.
    if (number <= expected + bytes.length && validRecordLength(bytes, at, number) !== null) return number;
  }
  return null;
}

function checksum(bytes: Buffer, at: number, length: number): number {
  const head = crc32c(bytes.subarray(at, at + crcOffset));
  return crc32c(bytes.subarray(at + headerBytes, at + headerBytes + length), head);
}

function readEntry(payload: Buffer): JournalEntry | null {
  const lineEnd = payload.indexOf(10);
  if (lineEnd < 0) return null;
  const about = parseEntryHeader(payload.toString("utf8", 0, lineEnd));
  if (about === null || !about.words.every(isOutcomeRow) || !about.acked.every(Number.isSafeInteger)) return null;
  const outcomes: JournaledOutcome[] = [];
  let at = lineEnd + 1;
  for (const [key, type, id, run, task, node, fence, size] of about.words) {
    outcomes.push({ key, type: type as FrameType, id, run, task, node, fence, payload: payload.toString("utf8", at, at + size) });
    at += size;
  }
  return at === payload.length ? { outcomes, ackedKeys: about.acked as number[] } : null;
}

function parseEntryHeader(text: string): { words: unknown[]; acked: unknown[] } | null {
  try {
    const { words, acked } = JSON.parse(text) as { words?: unknown; acked?: unknown };
    return Array.isArray(words) && Array.isArray(acked) ? { words, acked } : null;
  } catch {
    // Its checksum is right, so a program has written this: another version of this one.
    return null;
  }
}

function isOutcomeRow(row: unknown): row is OutcomeRow {
  if (!Array.isArray(row) || row.length !== 8) return false;
  const isNumber = (at: number) => Number.isSafeInteger(row[at]) && (row[at] as number) >= 0;
  return [0, 6, 7].every(isNumber) && [1, 2, 3, 4, 5].every((at) => typeof row[at] === "string");
}

/** Of CRC-32C (Castagnoli); Node's zlib has only the other polynomial. */
const table = makeTable();

/** Continues from `crc`, the checksum of what came before; 0 at the beginning. */
export function crc32c(bytes: Uint8Array, crc = 0): number {
  let rest = ~crc;
  for (let index = 0; index < bytes.length; index++) {
    rest = (table[(rest ^ (bytes[index] as number)) & 0xff] as number) ^ (rest >>> 8);
  }
  return ~rest >>> 0;
}

function makeTable(): Int32Array {
  const made = new Int32Array(256);
  for (let byte = 0; byte < 256; byte++) {
    let rest = byte;
    for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? (rest >>> 1) ^ 0x82f63b78 : rest >>> 1;
    made[byte] = rest;
  }
  return made;
}
