import { deflateRawSync } from "node:zlib";
import { Fault } from "@astraflow/protocol";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { buildRawZip, extraField, type RawEntry, type RawZip } from "../testing/hostile-zip.ts";
import { type ArchiveLimits, archiveLimits } from "./archive-limits.ts";
import { createMemorySource } from "./byte-source.ts";
import { readEntryContent, readWholeEntry } from "./entry-content.ts";
import { readZipEntries } from "./read-zip.ts";
import { writeZip } from "./write-zip.ts";

const kilobyte = Buffer.alloc(1_024, "a");
const good: RawEntry = { name: "manifest.json", content: "{}" };

async function readAll(bytes: Buffer, limits: ArchiveLimits = archiveLimits): Promise<Map<string, Buffer>> {
  const source = createMemorySource(bytes);
  const contents = new Map<string, Buffer>();
  for (const entry of await readZipEntries(source, limits))
    if (entry.kind === "file") contents.set(entry.name, await readWholeEntry(source, entry));
  return contents;
}

const hostileNames: Record<string, string> = {
  "../evil": '".."',
  "a/../../evil": '".."',
  "./a": '"."',
  "/etc/passwd": "absolute",
  "C:/evil": "drive",
  "c:evil": "drive",
  "\\\\server\\share\\evil": "backslash",
  "..\\evil": "backslash",
  "//server/share": "absolute",
  "....//evil": "ends with a dot",
  "a//b": "empty part",
  "a\0b": "invisible",
  "a\u202Egnp.exe": "invisible",
  "evil.": "ends with a dot",
  "evil ": "space",
  "a./b": "ends with a dot",
  "cafe\u0301.txt": "normal form",
  "\u212A.txt": "normal form",
  "aux.txt": "device on Windows",
  "a/NUL": "device on Windows",
  "file:stream": ":",
  [`${"x".repeat(256)}`]: "255 bytes",
  [`${"x/".repeat(40)}y`]: "folders deep",
};

const twins: Record<string, [string, string]> = {
  "the same name twice": ["lib/a.py", "lib/a.py"],
  "names that differ by case": ["lib/A.py", "lib/a.py"],
  "folders that differ by case": ["Lib/a.py", "lib/b.py"],
  "a ligature and its letters": ["\uFB01le", "file"],
  "a full-width letter and its plain twin": ["\uFF41.txt", "a.txt"],
  "sharp s and ss": ["stra\u00DFe", "strasse"],
  "a file that is a folder": ["lib", "lib/a.py"],
};

const hostileArchives: Record<string, [RawZip, string]> = {
  "another name in front of the data": [{ entries: [{ ...good, localName: "manifesto.js " }] }, "another name"],
  "another size in front of the data": [{ entries: [{ ...good, localBytes: 7 }] }, "described differently"],
  "a symbolic link": [{ entries: [{ name: "link", content: "/etc", mode: 0o120777 }] }, "symbolic link"],
  "a device": [{ entries: [{ name: "disk", mode: 0o060644 }] }, "regular file"],
  "a FIFO": [{ entries: [{ name: "pipe", mode: 0o010644 }] }, "regular file"],
  "a folder that has no slash": [{ entries: [{ name: "dir", mode: 0o040755 }] }, "regular file"],
  "setuid bits": [{ entries: [{ name: "su", mode: 0o104755 }] }, "setuid"],
  "Unix link fields": [{ entries: [{ ...good, extra: extraField(0x000d) }] }, "link or a device"],
  "ASi Unix fields": [{ entries: [{ ...good, localExtra: extraField(0x756e) }] }, "link or a device"],
  "a second name in an extra field": [{ entries: [{ ...good, extra: extraField(0x7075) }] }, "second name"],
  "zip64 fields": [{ entries: [{ ...good, extra: extraField(1, Buffer.alloc(16)) }] }, "zip64"],
  "zip64 sizes": [{ entries: [{ ...good, bytes: 0xffffffff, isDeflated: true }] }, "zip64"],
  "a zip64 count": [{ entries: [good], count: 0xffff }, "zip64"],
  "a damaged extra field": [{ entries: [{ ...good, extra: Buffer.from([1, 2, 3]) }] }, "damaged extra field"],
  "prepended data": [{ entries: [good], prefix: Buffer.from("#!/bin/sh\n") }, "bytes before it"],
  "prepended data that the offsets ignore": [
    { entries: [{ ...good, offset: 0 }], prefix: Buffer.from("MZ"), directoryOffset: 45 },
    "bytes before",
  ],
  "bytes between two entries": [{ entries: [{ ...good, trailer: Buffer.from("hidden") }, { name: "b" }] }, "belong to no entry"],
  "bytes before the directory": [{ entries: [good], beforeDirectory: Buffer.from("hidden") }, "belong to no entry"],
  "bytes before the end record": [
    { entries: [good], beforeEnd: Buffer.from("hidden") },
    "between its directory and its end record",
  ],
  "a comment": [{ entries: [good], suffix: Buffer.from("hello"), commentBytes: 5 }, "follows its end record"],
  "a comment that is not there": [{ entries: [good], commentBytes: 5 }, "before its comment"],
  "two end records": [{ entries: [good], suffix: buildRawZip({ entries: [{ name: "evil" }] }) }, "bytes before"],
  "several disks": [{ entries: [good], disk: 1 }, "several files"],
  "fewer entries than counted": [{ entries: [good], count: 2 }, "fewer entries"],
  "more entries than counted": [{ entries: [good, { name: "b" }], count: 1 }, "more than the entries"],
  "two entries on the same data": [
    {
      entries: [
        { name: "a", content: kilobyte },
        { name: "b", content: kilobyte, sharesDataOf: 0 },
      ],
    },
    "overlaps",
  ],
  "an entry that begins behind the directory": [
    {
      entries: [
        { ...good, localExtra: extraField(0x5455) },
        { name: "b", offset: 9_999 },
      ],
    },
    "does not begin where",
  ],
  encryption: [{ entries: [{ ...good, flags: 0x801 }] }, "encrypted"],
  "another method": [{ entries: [{ ...good, method: 14 }] }, "method 14"],
  "a name in an old alphabet": [{ entries: [{ name: Buffer.from([0x82, 0x2e]), flags: 0 }] }, "UTF-8"],
  "a name that is not UTF-8": [{ entries: [{ name: Buffer.from([0xff, 0xfe]) }] }, "UTF-8"],
  "a folder with content": [{ entries: [{ name: "dir/", content: "x", mode: 0o040755 }] }, "folder with content"],
  "a stored entry with two sizes": [{ entries: [{ ...good, bytes: 1 }] }, "two different sizes"],
  "a size that is too small": [
    { entries: [{ name: "a", content: kilobyte, isDeflated: true, bytes: 100 }] },
    "more than the 100 bytes",
  ],
  "a size that is too large": [
    { entries: [{ name: "a", content: kilobyte, isDeflated: true, bytes: 2_000 }] },
    "unpacks to 1024",
  ],
  "a wrong checksum": [{ entries: [{ ...good, crc: 1 }] }, "checksum"],
  "damaged compressed data": [
    { entries: [{ name: "a", content: kilobyte, isDeflated: true, packed: Buffer.from("garbage") }] },
    "damaged",
  ],
  "bytes behind the compressed data": [
    {
      entries: [
        {
          name: "a",
          content: kilobyte,
          isDeflated: true,
          packed: Buffer.concat([deflateRawSync(kilobyte), Buffer.from("hidden")]),
        },
      ],
    },
    "behind the end",
  ],
};

describe("reading an archive from a stranger", () => {
  it.each(Object.entries(hostileNames))("[R741] an archive with an entry called %j is refused", async (name, reason) => {
    const refusal = await readAll(buildRawZip({ entries: [good, { name, content: "x" }] })).catch((thrown: unknown) => thrown);

    expect(refusal).toMatchObject({ code: "E.PKG.INVALID", message: expect.stringContaining(reason), details: { entry: name } });
  });

  it.each(Object.entries(twins))("[R742] an archive with %s is refused", async (_, [first, second]) => {
    const refusal = readAll(buildRawZip({ entries: [{ name: first }, { name: second }] }));

    await expect(refusal).rejects.toMatchObject({ code: "E.PKG.INVALID", details: { entry: second } });
  });

  it.each(Object.entries(hostileArchives))("[R743] an archive with %s is refused", async (_, [raw, reason]) => {
    const refusal = readAll(buildRawZip(raw));

    await expect(refusal).rejects.toMatchObject({ code: "E.PKG.INVALID", message: expect.stringContaining(reason) });
  });

  it("[R743] folders, deflated entries and sizes behind the data are read", async () => {
    const descriptor = Buffer.alloc(16);
    const plain = buildRawZip({ entries: [{ name: "a", content: kilobyte, isDeflated: true }] });
    descriptor.writeUInt32LE(0x08074b50, 0);
    plain.copy(descriptor, 4, 14, 26);
    const streamed = { name: "b.txt", content: kilobyte, isDeflated: true, flags: 0x808, trailer: descriptor };

    const contents = await readAll(
      buildRawZip({ entries: [{ name: "dir/", mode: 0o040755 }, { name: "dir/a", content: "1" }, streamed] }),
    );

    expect([...contents]).toEqual([
      ["dir/a", Buffer.from("1")],
      ["b.txt", kilobyte],
    ]);
  });

  it("[R744] the limits on entries, sizes, the ratio and the directory refuse an archive before anything is unpacked", async () => {
    const many = buildRawZip({ entries: Array.from({ length: 11 }, (_, index) => ({ name: `f${index}` })) });
    const zeros = buildRawZip({ entries: [{ name: "zeros", content: Buffer.alloc(1_000_000), isDeflated: true }] });
    const limit = (limits: Partial<ArchiveLimits>): ArchiveLimits => ({ ...archiveLimits, ...limits });

    await expect(readAll(many, limit({ entriesMax: 10 }))).rejects.toThrow("11 entries; 10 are allowed");
    await expect(readAll(many, limit({ archiveBytesMax: 100 }))).rejects.toThrow("100 are allowed");
    await expect(readAll(many, limit({ directoryBytesMax: 100 }))).rejects.toThrow("directory");
    await expect(readAll(zeros, limit({ entryBytesMax: 999_999 }))).rejects.toThrow('entry "zeros" has 1000000 bytes');
    await expect(readAll(zeros, limit({ totalBytesMax: 999_999 }))).rejects.toThrow("beyond 999999 unpacked bytes");
    await expect(readAll(zeros, limit({ ratioFreeBytes: 0 }))).rejects.toThrow("more than 100 times its size");
  });

  it("[R744] a bomb whose sizes lie yields no more than its declared size and one chunk", async () => {
    const bomb = buildRawZip({
      entries: [{ name: "bomb", content: Buffer.alloc(64 * 1024 * 1024), isDeflated: true, bytes: 10 }],
    });
    const source = createMemorySource(bomb);
    const [entry] = await readZipEntries(source, archiveLimits);
    if (entry === undefined) throw new Error("the bomb has an entry");
    let produced = 0;

    const reading = (async () => {
      for await (const chunk of readEntryContent(source, entry)) produced += chunk.length;
    })();

    await expect(reading).rejects.toThrow("unpacks to more than the 10 bytes");
    expect(produced).toBeLessThanOrEqual(10 + 64 * 1024);
  });

  it("[R744] unpacking ends when its time is over", async () => {
    const source = createMemorySource(
      buildRawZip({ entries: [{ name: "long", content: Buffer.alloc(10_000_000), isDeflated: true }] }),
    );
    const [entry] = await readZipEntries(source, archiveLimits);
    if (entry === undefined) throw new Error("the archive has an entry");
    const time = new AbortController();
    let chunks = 0;

    const reading = (async () => {
      for await (const _ of readEntryContent(source, entry, time.signal))
        if (++chunks === 2) time.abort(new Error("time is over"));
    })();

    await expect(reading).rejects.toThrow("time is over");
    expect(chunks).toBe(2);
  });

  it("[R745] no changed byte of an archive makes the reader fail in another way than by refusing it", async () => {
    const files = [
      { name: "manifest.json", content: Buffer.from('{"name":"a"}') },
      { name: "adapters/a/main.py", content: Buffer.from("print(1)\n") },
    ];
    const archive = writeZip(files);
    const change = fc.tuple(fc.nat(archive.length - 1), fc.integer({ min: 1, max: 255 }));

    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 4 }), fc.nat(archive.length), async (changes, cut) => {
        const changed = Buffer.from(archive);
        for (const [at, by] of changes) changed[at] = (changed[at] ?? 0) ^ by;
        for (const bytes of [changed, changed.subarray(0, cut), changed.subarray(cut)]) {
          const outcome = await readAll(bytes).catch((thrown: unknown) => thrown);
          const isHarmless =
            outcome instanceof Map
              ? [...outcome.values()].every((content) => files.some((file) => file.content.equals(content)))
              : outcome instanceof Fault;
          expect(isHarmless).toBe(true);
        }
      }),
      { numRuns: 2_000 },
    );
  });
});
