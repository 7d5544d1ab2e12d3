// Reads the directory of a zip file from a stranger. Every byte of the file must belong to exactly one entry, the directory or the end
// record: then nothing can be hidden, overlap, or be read differently by another program.

import { fault } from "@astraflow/protocol";
import type { ArchiveLimits } from "./archive-limits.ts";
import type { ByteSource } from "./byte-source.ts";
import { EntryNames, findNameProblem } from "./entry-name.ts";
import {
  centralHeader,
  descriptorSignature,
  endRecord,
  fileMode,
  flags,
  localHeader,
  methods,
  refusedExtraFields,
  type ZipEntry,
} from "./zip-records.ts";

/** An entry and where its data lie. */
export interface LocatedEntry extends ZipEntry {
  readonly dataOffset: number;
}

interface DirectoryEntry extends ZipEntry {
  readonly nameBytes: Buffer;
  readonly flagBits: number;
}

const refuse = (message: string, entry?: string) =>
  fault(
    "E.PKG.INVALID",
    entry === undefined ? message : `entry "${entry}" ${message}`,
    entry === undefined ? undefined : { entry },
  );

/** The entries in the order of their data. Throws E.PKG.INVALID with the entry that is wrong. */
export async function readZipEntries(source: ByteSource, limits: ArchiveLimits): Promise<LocatedEntry[]> {
  if (source.size > limits.archiveBytesMax)
    throw refuse(`the archive has ${source.size} bytes; ${limits.archiveBytesMax} are allowed`);
  const { count, directoryOffset, directoryBytes } = await readEndRecord(source);
  if (count > limits.entriesMax) throw refuse(`the archive has ${count} entries; ${limits.entriesMax} are allowed`);
  if (directoryBytes > limits.directoryBytesMax)
    throw refuse(`the directory of the archive has ${directoryBytes} bytes; ${limits.directoryBytesMax} are allowed`);
  const entries = readDirectory(await source.read(directoryOffset, directoryBytes), count);
  checkSizes(entries, source.size, limits);
  return locateEntries(source, entries, directoryOffset);
}

async function readEndRecord(source: ByteSource) {
  if (source.size < endRecord.bytes) throw refuse("the file is too short to be a zip archive");
  const end = await source.read(source.size - endRecord.bytes, endRecord.bytes);
  // A comment would move the record, and could hold a second one that another program takes for the first.
  if (end.readUInt32LE(0) !== endRecord.signature)
    throw refuse("the file is not a zip archive, or something follows its end record (a comment, or another archive)");
  const count = end.readUInt16LE(10);
  const directoryBytes = end.readUInt32LE(12);
  const directoryOffset = end.readUInt32LE(16);
  if (count === 0xffff || directoryBytes === 0xffff_ffff || directoryOffset === 0xffff_ffff)
    throw refuse("the archive uses zip64");
  if (end.readUInt16LE(4) !== 0 || end.readUInt16LE(6) !== 0 || end.readUInt16LE(8) !== count)
    throw refuse("the archive is spread over several files");
  if (end.readUInt16LE(20) !== 0) throw refuse("the archive ends before its comment does");
  if (directoryOffset + directoryBytes !== source.size - endRecord.bytes)
    throw refuse("the archive has bytes before its first entry, or between its directory and its end record");
  return { count, directoryOffset, directoryBytes };
}

function readDirectory(directory: Buffer, count: number): DirectoryEntry[] {
  const entries: DirectoryEntry[] = [];
  const names = new EntryNames();
  let at = 0;
  for (let index = 0; index < count; index++) {
    const { entry, end } = readCentralHeader(directory, at);
    const problem = findNameProblem(entry.name) ?? names.add(entry.name, entry.kind);
    if (problem !== null) throw refuse(problem, entry.name);
    entries.push(entry);
    at = end;
  }
  if (at !== directory.length) throw refuse("the directory of the archive has more than the entries it counts");
  return entries;
}

function readCentralHeader(directory: Buffer, at: number): { entry: DirectoryEntry; end: number } {
  if (at + centralHeader.bytes > directory.length || directory.readUInt32LE(at) !== centralHeader.signature)
    throw refuse("the directory of the archive has fewer entries than it counts");
  const header = directory.subarray(at, at + centralHeader.bytes);
  const nameEnd = at + centralHeader.bytes + header.readUInt16LE(28);
  const extraEnd = nameEnd + header.readUInt16LE(30);
  const end = extraEnd + header.readUInt16LE(32);
  if (end > directory.length) throw refuse("the directory of the archive ends inside an entry");
  const nameBytes = directory.subarray(at + centralHeader.bytes, nameEnd);
  const flagBits = header.readUInt16LE(8);
  const written = decodeName(nameBytes, flagBits);
  const kind = written.endsWith("/") ? "folder" : "file";
  const name = kind === "folder" ? written.slice(0, -1) : written;
  const entry: DirectoryEntry = {
    name,
    kind,
    method: header.readUInt16LE(10),
    crc32: header.readUInt32LE(16),
    compressedBytes: header.readUInt32LE(20),
    bytes: header.readUInt32LE(24),
    isExecutable: ((header.readUInt32LE(38) >>> 16) & fileMode.executable) !== 0,
    headerOffset: header.readUInt32LE(42),
    nameBytes,
    flagBits,
  };
  checkExtraFields(directory.subarray(nameEnd, extraEnd), name);
  checkCentralHeader(header, entry);
  return { entry, end };
}

function decodeName(bytes: Buffer, flagBits: number): string {
  const name = bytes.toString("utf8");
  // Without the flag the letters beyond ASCII are those of an old PC, and everybody guesses differently.
  const isReadable = (flagBits & flags.utf8) === 0 ? bytes.every((byte) => byte < 0x80) : Buffer.from(name).equals(bytes);
  if (!isReadable) throw refuse("has a name that is not marked as UTF-8, or is not UTF-8", name);
  return name;
}

function checkExtraFields(extra: Buffer, name: string): void {
  let at = 0;
  while (at < extra.length) {
    if (at + 4 > extra.length) throw refuse("has a damaged extra field", name);
    const problem = refusedExtraFields[extra.readUInt16LE(at)];
    if (problem !== undefined) throw refuse(problem, name);
    at += 4 + extra.readUInt16LE(at + 2);
  }
  if (at !== extra.length) throw refuse("has a damaged extra field", name);
}

function checkCentralHeader(
  header: Buffer,
  { name, kind, method, bytes, compressedBytes, headerOffset, flagBits }: DirectoryEntry,
): void {
  if (compressedBytes === 0xffff_ffff || bytes === 0xffff_ffff || headerOffset === 0xffff_ffff) throw refuse("uses zip64", name);
  if (header.readUInt16LE(34) !== 0) throw refuse("lies in another file", name);
  const unknownFlags = flagBits & ~(flags.utf8 | flags.descriptor | flags.compressionLevel);
  if (unknownFlags !== 0) throw refuse("is encrypted, or patched, or uses another feature that is not allowed", name);
  if (method !== methods.stored && method !== methods.deflated)
    throw refuse(`is compressed by method ${method}; only 0 and 8 are read`, name);
  if (method === methods.stored && bytes !== compressedBytes) throw refuse("is stored with two different sizes", name);
  if (kind === "folder" && bytes !== 0) throw refuse("is a folder with content", name);
  // Looked at whatever system the entry claims to be from: some programs use these bits in any case.
  const mode = header.readUInt32LE(38) >>> 16;
  const type = mode & fileMode.typeMask;
  if (type === fileMode.symlink) throw refuse("is a symbolic link", name);
  if (type !== 0 && type !== (kind === "folder" ? fileMode.directory : fileMode.regular))
    throw refuse("is neither a regular file nor a folder", name);
  if ((mode & fileMode.specialBits) !== 0) throw refuse("has setuid, setgid or sticky bits", name);
}

function checkSizes(entries: readonly DirectoryEntry[], archiveBytes: number, limits: ArchiveLimits): void {
  let total = 0;
  for (const { name, bytes } of entries) {
    if (bytes > limits.entryBytesMax) throw refuse(`has ${bytes} bytes; ${limits.entryBytesMax} are allowed`, name);
    total += bytes;
    if (total > limits.totalBytesMax) throw refuse(`takes the archive beyond ${limits.totalBytesMax} unpacked bytes`, name);
  }
  if (total > limits.ratioFreeBytes + limits.ratioMax * archiveBytes)
    throw refuse(`the archive of ${archiveBytes} bytes unpacks to ${total}, more than ${limits.ratioMax} times its size`);
}

/** Compares every local header with the directory; the entries must lie one behind the other, without gaps, up to the directory. */
async function locateEntries(
  source: ByteSource,
  entries: readonly DirectoryEntry[],
  directoryOffset: number,
): Promise<LocatedEntry[]> {
  const ordered = entries.toSorted((left, right) => left.headerOffset - right.headerOffset);
  const located: LocatedEntry[] = [];
  const outside = ordered.find(({ headerOffset }) => headerOffset >= directoryOffset);
  if (outside !== undefined) throw refuse("does not begin where the directory says", outside.name);
  let expected = 0;
  for (const [index, entry] of ordered.entries()) {
    const { name, headerOffset, compressedBytes } = entry;
    if (headerOffset < expected) throw refuse("overlaps with another entry", name);
    if (headerOffset > expected) throw refuse("has bytes before it that belong to no entry", name);
    const next = ordered[index + 1]?.headerOffset ?? directoryOffset;
    const dataOffset = await checkLocalHeader(source, entry, next);
    if (dataOffset + compressedBytes > next) throw refuse("overlaps with what follows it", name);
    await checkDescriptor(source, entry, dataOffset + compressedBytes, next);
    const { nameBytes: _, flagBits: __, ...rest } = entry;
    located.push({ ...rest, dataOffset });
    expected = next;
  }
  if (expected !== directoryOffset) throw refuse("the archive has bytes before its directory that belong to no entry");
  return located;
}

async function checkLocalHeader(source: ByteSource, entry: DirectoryEntry, end: number): Promise<number> {
  const { name, nameBytes, headerOffset, flagBits } = entry;
  if (headerOffset + localHeader.bytes + nameBytes.length > end) throw refuse("overlaps with what follows it", name);
  const header = await source.read(headerOffset, localHeader.bytes + nameBytes.length);
  if (header.readUInt32LE(0) !== localHeader.signature) throw refuse("does not begin where the directory says", name);
  if (header.readUInt16LE(26) !== nameBytes.length || !header.subarray(localHeader.bytes).equals(nameBytes))
    throw refuse("has another name in the directory than in front of its data", name);
  const isDescribedLater = (flagBits & flags.descriptor) !== 0;
  const sameOrZero = (at: number, value: number) =>
    header.readUInt32LE(at) === value || (isDescribedLater && header.readUInt32LE(at) === 0);
  const isSame =
    header.readUInt16LE(6) === flagBits &&
    header.readUInt16LE(8) === entry.method &&
    sameOrZero(14, entry.crc32) &&
    sameOrZero(18, entry.compressedBytes) &&
    sameOrZero(22, entry.bytes);
  if (!isSame) throw refuse("is described differently in the directory than in front of its data", name);
  const extraBytes = header.readUInt16LE(28);
  const dataOffset = headerOffset + header.length + extraBytes;
  if (dataOffset > end) throw refuse("overlaps with what follows it", name);
  checkExtraFields(await source.read(headerOffset + header.length, extraBytes), name);
  return dataOffset;
}

/** Sizes may stand behind the data, with a signature or without. Anything else between two entries is refused. */
async function checkDescriptor(source: ByteSource, entry: DirectoryEntry, at: number, next: number): Promise<void> {
  const gap = next - at;
  if (gap === 0 && (entry.flagBits & flags.descriptor) === 0) return;
  const isExpected = (entry.flagBits & flags.descriptor) !== 0 && (gap === 12 || gap === 16);
  const fields = isExpected ? await source.read(at, gap) : Buffer.alloc(0);
  const numbers = gap === 16 ? fields.subarray(4) : fields;
  const isRight =
    isExpected &&
    (gap === 12 || fields.readUInt32LE(0) === descriptorSignature) &&
    numbers.readUInt32LE(0) === entry.crc32 &&
    numbers.readUInt32LE(4) === entry.compressedBytes &&
    numbers.readUInt32LE(8) === entry.bytes;
  if (!isRight) throw refuse("is followed by bytes that belong to no entry, or by sizes other than its own", entry.name);
}
