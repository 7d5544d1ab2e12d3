// Writes a zip file that depends on nothing but names and contents: sorted, without times, stored. Compressed bytes would differ between
// versions of zlib (and between processors), so that nobody could build the same archive again from the same files.

import { crc32 } from "node:zlib";
import { fault } from "@astraflow/protocol";
import { EntryNames, findNameProblem } from "./entry-name.ts";
import { archiveLimits } from "./archive-limits.ts";
import { centralHeader, endRecord, fileMode, flags, localHeader, methods } from "./zip-records.ts";

export interface ArchiveFile {
  /** With slashes, relative to the package. */
  readonly name: string;
  readonly content: Uint8Array;
}

/** 1 January 1980, midnight: the first instant that the format knows. */
const fixedDosDate = 0x0021;
const versionNeeded = 20;
const madeByUnix = 0x0300 | versionNeeded;

/** The archive of these files; refuses with E.PKG.INVALID what no reader would take. */
export function writeZip(files: readonly ArchiveFile[]): Buffer {
  const sorted = files.toSorted((left, right) => Buffer.compare(Buffer.from(left.name), Buffer.from(right.name)));
  checkFiles(sorted);
  const pieces: Uint8Array[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const { name, content } of sorted) {
    const nameBytes = Buffer.from(name);
    const common = writeCommonFields(nameBytes, content);
    const local = Buffer.alloc(localHeader.bytes);
    local.writeUInt32LE(localHeader.signature, 0);
    common.copy(local, 4);
    pieces.push(local, nameBytes, content);
    directory.push(writeCentralHeader(common, offset, hasShebang(content)), nameBytes);
    offset += local.length + nameBytes.length + content.length;
  }
  const directoryBytes = Buffer.concat(directory);
  const end = Buffer.alloc(endRecord.bytes);
  end.writeUInt32LE(endRecord.signature, 0);
  end.writeUInt16LE(sorted.length, 8);
  end.writeUInt16LE(sorted.length, 10);
  end.writeUInt32LE(directoryBytes.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...pieces, directoryBytes, end]);
}

function checkFiles(files: readonly ArchiveFile[]): void {
  if (files.length > archiveLimits.entriesMax)
    throw fault("E.PKG.INVALID", `a package may have ${archiveLimits.entriesMax} files, not ${files.length}`);
  const names = new EntryNames();
  let total = 0;
  for (const { name, content } of files) {
    const problem = findNameProblem(name) ?? names.add(name, "file");
    if (problem !== null) throw fault("E.PKG.INVALID", `"${name}" ${problem}`, { entry: name });
    total += content.length;
    if (content.length > archiveLimits.entryBytesMax || total > archiveLimits.archiveBytesMax)
      throw fault("E.PKG.INVALID", `"${name}" makes the package too large`, { entry: name });
  }
}

/** The 26 bytes that the local and the central header share, from "version needed" on. */
function writeCommonFields(name: Buffer, content: Uint8Array): Buffer {
  const fields = Buffer.alloc(26);
  fields.writeUInt16LE(versionNeeded, 0);
  fields.writeUInt16LE(flags.utf8, 2);
  fields.writeUInt16LE(methods.stored, 4);
  fields.writeUInt16LE(fixedDosDate, 8);
  fields.writeUInt32LE(crc32(content), 10);
  fields.writeUInt32LE(content.length, 14);
  fields.writeUInt32LE(content.length, 18);
  fields.writeUInt16LE(name.length, 22);
  return fields;
}

function writeCentralHeader(common: Buffer, offset: number, isExecutable: boolean): Buffer {
  const header = Buffer.alloc(centralHeader.bytes);
  header.writeUInt32LE(centralHeader.signature, 0);
  header.writeUInt16LE(madeByUnix, 4);
  common.copy(header, 6);
  header.writeUInt32LE((fileMode.regular | (isExecutable ? 0o755 : 0o644)) * 0x1_0000, 38);
  header.writeUInt32LE(offset, 42);
  return header;
}

/** The mode on the author's disk is not used: it differs between systems and checkouts. */
const hasShebang = (content: Uint8Array): boolean => content[0] === 0x23 && content[1] === 0x21;
