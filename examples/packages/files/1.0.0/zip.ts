// Zip archives: written the same for the same files, read from strangers. An archive is held in memory, so its size is limited.

import { promisify } from "node:util";
import { crc32, deflateRaw, inflateRaw } from "node:zlib";
import { failure } from "./failure.ts";
import { splitPath } from "./roots.ts";

export interface ZipFile {
  /** With slashes. */
  readonly name: string;
  readonly content: Buffer;
}

export const entriesMax = 10_000;
const compress = promisify(deflateRaw);
const decompress = promisify(inflateRaw);

const signatures = { local: 0x04034b50, central: 0x02014b50, end: 0x06054b50 } as const;
const headerBytes = { local: 30, central: 46, end: 22 } as const;
const utf8Flag = 0x800;
/** 1 January 1980, the first day that the format knows. */
const fixedDate = 0x0021;
const methods = { stored: 0, deflated: 8 } as const;
const symlinkType = 0o120000;
const commentBytesMax = 0xffff;

export async function writeZip(files: AsyncIterable<ZipFile>): Promise<Buffer> {
  const pieces: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for await (const { name, content } of files) {
    const nameBytes = Buffer.from(name);
    const packed = await compress(content);
    const shared = Buffer.alloc(26);
    shared.writeUInt16LE(20, 0);
    shared.writeUInt16LE(utf8Flag, 2);
    shared.writeUInt16LE(methods.deflated, 4);
    shared.writeUInt16LE(fixedDate, 8);
    shared.writeUInt32LE(crc32(content), 10);
    shared.writeUInt32LE(packed.length, 14);
    shared.writeUInt32LE(content.length, 18);
    shared.writeUInt16LE(nameBytes.length, 22);
    const local = Buffer.alloc(headerBytes.local);
    local.writeUInt32LE(signatures.local, 0);
    shared.copy(local, 4);
    const central = Buffer.alloc(headerBytes.central);
    central.writeUInt32LE(signatures.central, 0);
    central.writeUInt16LE(0x0314, 4);
    shared.copy(central, 6);
    central.writeUInt32LE((0o100644 << 16) >>> 0, 38);
    central.writeUInt32LE(offset, 42);
    pieces.push(local, nameBytes, packed);
    directory.push(central, nameBytes);
    offset += local.length + nameBytes.length + packed.length;
  }
  const list = Buffer.concat(directory);
  const end = Buffer.alloc(headerBytes.end);
  end.writeUInt32LE(signatures.end, 0);
  end.writeUInt16LE(directory.length / 2, 8);
  end.writeUInt16LE(directory.length / 2, 10);
  end.writeUInt32LE(list.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...pieces, list, end]);
}

const refuse = (message: string) => failure("E.RUNNER.REFUSED", `the archive cannot be unpacked: ${message}`);

interface ZipEntry {
  readonly name: string;
  readonly method: number;
  readonly crc: number;
  readonly packedBytes: number;
  readonly bytes: number;
  readonly headerOffset: number;
}

/** The files of an archive, each checked against its size and checksum. All names are checked before the first file is unpacked. */
export async function* readZip(archive: Buffer, bytesMax: number): AsyncGenerator<ZipFile> {
  const entries = readDirectory(archive);
  checkNames(entries.map(({ name }) => name));
  const total = entries.reduce((sum, { bytes }) => sum + bytes, 0);
  if (total > bytesMax) throw refuse(`it unpacks to ${total} bytes; ${bytesMax} are allowed (maxBytes)`);
  for (const entry of entries) yield { name: entry.name, content: await readEntry(archive, entry) };
}

function readDirectory(archive: Buffer): ZipEntry[] {
  const from = Math.max(0, archive.length - headerBytes.end - commentBytesMax);
  const mark = Buffer.alloc(4);
  mark.writeUInt32LE(signatures.end);
  const at = archive.lastIndexOf(mark);
  if (at < from || at + headerBytes.end > archive.length) throw refuse("it is not a zip archive");
  const count = archive.readUInt16LE(at + 10);
  if (count > entriesMax) throw refuse(`it has ${count} entries; ${entriesMax} are allowed`);
  const entries: ZipEntry[] = [];
  let next = archive.readUInt32LE(at + 16);
  for (let index = 0; index < count; index++) {
    const { entry, end } = readCentralHeader(archive, next);
    if (entry !== null) entries.push(entry);
    next = end;
  }
  return entries;
}

/** Null for a folder: those are made for their files. */
function readCentralHeader(archive: Buffer, at: number): { entry: ZipEntry | null; end: number } {
  if (at + headerBytes.central > archive.length || archive.readUInt32LE(at) !== signatures.central)
    throw refuse("its directory is damaged");
  const nameEnd = at + headerBytes.central + archive.readUInt16LE(at + 28);
  const end = nameEnd + archive.readUInt16LE(at + 30) + archive.readUInt16LE(at + 32);
  const name = archive.toString("utf8", at + headerBytes.central, nameEnd);
  if ((archive.readUInt16LE(at + 8) & 1) !== 0) throw refuse(`${name} is encrypted`);
  // Looked at whatever system the entry claims to be from.
  const type = (archive.readUInt32LE(at + 38) >>> 16) & 0o170000;
  if (type === symlinkType) throw refuse(`${name} is a symbolic link`);
  if (name.endsWith("/")) return { entry: null, end };
  const method = archive.readUInt16LE(at + 10);
  if (method !== methods.stored && method !== methods.deflated) throw refuse(`${name} is compressed by method ${method}`);
  const [packedBytes, bytes] = [archive.readUInt32LE(at + 20), archive.readUInt32LE(at + 24)];
  const entry = {
    name,
    method,
    crc: archive.readUInt32LE(at + 16),
    packedBytes,
    bytes,
    headerOffset: archive.readUInt32LE(at + 42),
  };
  return { entry, end };
}

/** Paths that stay inside, and no two that are one file on a system that ignores case. */
function checkNames(names: readonly string[]): void {
  const seen = new Set<string>();
  for (const name of names) {
    try {
      splitPath(name);
    } catch (cause) {
      throw failure("E.RUNNER.REFUSED", `the archive cannot be unpacked: ${(cause as Error).message}`, cause);
    }
    const folded = name.normalize("NFKC").toLowerCase();
    if (seen.has(folded)) throw refuse(`${name} is in it twice`);
    seen.add(folded);
  }
}

async function readEntry(archive: Buffer, { name, method, crc, packedBytes, bytes, headerOffset }: ZipEntry): Promise<Buffer> {
  if (headerOffset + headerBytes.local > archive.length || archive.readUInt32LE(headerOffset) !== signatures.local)
    throw refuse(`${name} does not begin where the directory says`);
  const begin =
    headerOffset + headerBytes.local + archive.readUInt16LE(headerOffset + 26) + archive.readUInt16LE(headerOffset + 28);
  const packed = archive.subarray(begin, begin + packedBytes);
  if (packed.length !== packedBytes) throw refuse(`${name} is longer than the archive`);
  const content = method === methods.stored ? packed : await inflate(packed, bytes, name);
  if (content.length !== bytes || crc32(content) !== crc) throw refuse(`${name} is damaged: its size or checksum is wrong`);
  return content;
}

/** Stops at the size that was announced: an entry that goes on is a trap. */
async function inflate(packed: Buffer, bytes: number, name: string): Promise<Buffer> {
  try {
    return await decompress(packed, { maxOutputLength: Math.max(bytes, 1) });
  } catch (cause) {
    throw failure("E.RUNNER.REFUSED", `the archive cannot be unpacked: ${name} is damaged or larger than announced`, cause);
  }
}
