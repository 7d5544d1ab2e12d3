// Writes zip files in which any field can be wrong, for the tests of the reader.

import { crc32, deflateRawSync } from "node:zlib";

export interface RawEntry {
  readonly name: string | Buffer;
  readonly content?: Buffer | string;
  readonly isDeflated?: boolean;
  /** The name in front of the data, where it differs. */
  readonly localName?: string;
  readonly flags?: number;
  readonly method?: number;
  readonly mode?: number;
  readonly bytes?: number;
  readonly localBytes?: number;
  readonly crc?: number;
  readonly extra?: Buffer;
  readonly localExtra?: Buffer;
  /** Written behind the data. */
  readonly trailer?: Buffer;
  readonly packed?: Buffer;
  /** Points to the local header of an earlier entry, by its index, and writes none of its own. */
  readonly sharesDataOf?: number;
  readonly offset?: number;
}

export interface RawZip {
  readonly entries: readonly RawEntry[];
  readonly prefix?: Buffer;
  readonly beforeDirectory?: Buffer;
  readonly beforeEnd?: Buffer;
  readonly suffix?: Buffer;
  readonly count?: number;
  readonly disk?: number;
  readonly commentBytes?: number;
  readonly directoryOffset?: number;
}

export function buildRawZip({ entries, prefix = Buffer.alloc(0), beforeDirectory = Buffer.alloc(0), ...rest }: RawZip): Buffer {
  const { beforeEnd = Buffer.alloc(0), suffix = Buffer.alloc(0), count = entries.length, disk = 0, commentBytes = 0 } = rest;
  const pieces: Buffer[] = [prefix];
  const directory: Buffer[] = [];
  const offsets: number[] = [];
  let at = prefix.length;
  for (const entry of entries) {
    const name = Buffer.from(entry.name as string);
    const content = Buffer.from(entry.content ?? "");
    const packed = entry.packed ?? (entry.isDeflated ? deflateRawSync(content) : content);
    const fields = Buffer.alloc(26);
    fields.writeUInt16LE(20, 0);
    fields.writeUInt16LE(entry.flags ?? 0x800, 2);
    fields.writeUInt16LE(entry.method ?? (entry.isDeflated ? 8 : 0), 4);
    fields.writeUInt32LE(entry.crc ?? crc32(content), 10);
    fields.writeUInt32LE(packed.length, 14);
    fields.writeUInt32LE(entry.bytes ?? content.length, 18);
    const extra = entry.extra ?? Buffer.alloc(0);
    const offset = entry.offset ?? (entry.sharesDataOf === undefined ? at : (offsets[entry.sharesDataOf] ?? 0));
    offsets.push(offset);
    if (entry.sharesDataOf === undefined) {
      const localName = Buffer.from(entry.localName ?? name);
      const localExtra = entry.localExtra ?? Buffer.alloc(0);
      const local = Buffer.alloc(30);
      local.writeUInt32LE(0x04034b50, 0);
      fields.copy(local, 4);
      if (entry.localBytes !== undefined) local.writeUInt32LE(entry.localBytes, 22);
      local.writeUInt16LE(localName.length, 26);
      local.writeUInt16LE(localExtra.length, 28);
      const all = [local, localName, localExtra, packed, entry.trailer ?? Buffer.alloc(0)];
      pieces.push(...all);
      at += all.reduce((sum, piece) => sum + piece.length, 0);
    }
    const central = Buffer.alloc(46);
    central.writeUInt32LE(0x02014b50, 0);
    central.writeUInt16LE(0x0314, 4);
    fields.copy(central, 6);
    central.writeUInt16LE(name.length, 28);
    central.writeUInt16LE(extra.length, 30);
    central.writeUInt32LE(((entry.mode ?? 0o100644) * 0x10000) >>> 0, 38);
    central.writeUInt32LE(offset, 42);
    directory.push(central, name, extra);
  }
  const directoryBytes = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(disk, 4);
  end.writeUInt16LE(count, 8);
  end.writeUInt16LE(count, 10);
  end.writeUInt32LE(directoryBytes.length, 12);
  end.writeUInt32LE(rest.directoryOffset ?? at + beforeDirectory.length, 16);
  end.writeUInt16LE(commentBytes, 20);
  return Buffer.concat([...pieces, beforeDirectory, directoryBytes, beforeEnd, end, suffix]);
}

export function extraField(id: number, data = Buffer.alloc(4)): Buffer {
  const head = Buffer.alloc(4);
  head.writeUInt16LE(id, 0);
  head.writeUInt16LE(data.length, 2);
  return Buffer.concat([head, data]);
}
