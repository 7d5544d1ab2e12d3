import { mkdtempSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { createFakeDocumentStore } from "../testing/fake-document-store.ts";
import { createFakeEnvironment } from "../testing/fake-environment.ts";
import { type BlobStore, createDocumentBlobStore, documentBlobLimits } from "./blob-store.ts";
import { createFolderBlobStore, removeUnfinishedBlobs } from "./folder-blob-store.ts";

const home = mkdtempSync(join(tmpdir(), "blobs-"));
afterAll(() => rmSync(home, { recursive: true, force: true }));
let folders = 0;
const openFolder = () => {
  const folder = join(home, String(++folders));
  return { folder, blobs: createFolderBlobStore({ folder, ids: createFakeEnvironment().ids }) };
};

const place = { tenant: "default", name: "abc" };
const bytes = Buffer.from(Array.from({ length: 700_000 }, (_, at) => at % 251));
async function* cut(whole: Buffer, size = 65_536): AsyncGenerator<Buffer> {
  for (let at = 0; at < whole.length; at += size) yield whole.subarray(at, at + size);
}
const all = async (source: AsyncIterable<Uint8Array>): Promise<Buffer> => {
  const chunks: Uint8Array[] = [];
  for await (const chunk of source) chunks.push(chunk);
  return Buffer.concat(chunks);
};

const providers: [string, string, () => BlobStore][] = [
  ["A109", "local", () => openFolder().blobs],
  ["A110", "db", () => createDocumentBlobStore(createFakeDocumentStore())],
];
for (const [rule, provider, open] of providers)
  describe(`bytes of provider ${provider}`, () => {
    it(`[${rule}] a blob store writes, measures, reads whole or by range, and deletes bytes`, async () => {
      const blobs = open();

      const stored = await blobs.write(place, cut(bytes), bytes.length);

      expect(stored.sizeBytes).toBe(bytes.length);
      expect(stored.sha256).toMatch(/^[0-9a-f]{64}$/);
      expect((await all(blobs.read(place))).equals(bytes)).toBe(true);
      for (const [start, end] of [
        [0, 0],
        [262_143, 262_144],
        [100, 699_999],
        [699_999, 699_999],
      ] as const)
        expect((await all(blobs.read(place, { start, end }))).equals(bytes.subarray(start, end + 1))).toBe(true);
      expect(await blobs.stat(place)).toEqual({ sizeBytes: bytes.length });
      await blobs.write(place, cut(Buffer.from("shorter")), 10);
      expect((await all(blobs.read(place))).toString()).toBe("shorter");
      await blobs.delete(place);
      expect(await blobs.stat(place)).toBeNull();
      await blobs.delete(place);
      await expect(all(blobs.read(place))).rejects.toMatchObject({ code: "E.NOT_FOUND" });
    });

    it(`[${rule}] a blob store does not store bytes that are too many or whose source fails`, async () => {
      const blobs = open();
      async function* broken(): AsyncGenerator<Buffer> {
        yield Buffer.from("abc");
        throw new Error("gone");
      }

      await expect(blobs.write(place, cut(bytes), bytes.length - 1)).rejects.toMatchObject({ code: "E.REQUEST.TOO_LARGE" });
      await expect(blobs.write(place, broken(), 10)).rejects.toThrow("gone");

      expect(await blobs.stat(place)).toBeNull();
    });

    it(`[${rule}] a blob store deletes one blob without those of other names or other tenants`, async () => {
      const blobs = open();
      const others = [
        { tenant: "default", name: "abc.1" },
        { tenant: "default", name: "abcd" },
        { tenant: "other", name: "abc" },
      ];
      for (const one of [place, ...others]) await blobs.write(one, cut(Buffer.from(`${one.tenant} ${one.name}`)), 100);

      await blobs.delete(place);

      for (const one of others) expect((await all(blobs.read(one))).toString()).toBe(`${one.tenant} ${one.name}`);
    });

    it.each([
      ["default", "../x"],
      ["default", ""],
      ["default", "a/b"],
      ["default", "a.b"],
      ["..", "x"],
      ["a/b", "x"],
    ])(`[${rule}] a blob store refuses a key of tenant %s and name %s`, async (tenant, name) => {
      await expect(open().write({ tenant, name }, cut(bytes), bytes.length)).rejects.toThrow("invalid blob key");
    });
  });

describe("a folder of bytes", () => {
  it("[A109] a blob folder holds nothing unfinished, and its files are readable by nobody else", async () => {
    const { folder, blobs } = openFolder();
    await blobs.write(place, cut(bytes), bytes.length);
    await expect(blobs.write({ ...place, name: "big" }, cut(bytes), 10)).rejects.toMatchObject({
      code: expect.stringMatching(/^E\./),
    });

    expect(readdirSync(join(folder, "default"))).toEqual(["abc"]);
    expect(statSync(join(folder, "default", "abc")).mode & 0o077).toBe(0);
  });

  it("[A109] the cleanup of a blob folder removes what a crash left, but not what may still be in progress", async () => {
    const { folder, blobs } = openFolder();
    await blobs.write(place, cut(bytes), bytes.length);
    for (const [name, seconds] of [
      ["old", 1_000],
      ["new", 3_000],
    ] as const) {
      const path = join(folder, "default", `${name}.x.unfinished`);
      writeFileSync(path, "x");
      utimesSync(path, seconds, seconds);
    }

    expect(await removeUnfinishedBlobs(folder, 2_000_000)).toBe(1);

    expect(readdirSync(join(folder, "default")).toSorted()).toEqual(["abc", "new.x.unfinished"]);
  });
});

describe("bytes in the store", () => {
  it("[A110] the document blob store refuses files over its size limit", async () => {
    const blobs = createDocumentBlobStore(createFakeDocumentStore());

    await expect(blobs.write(place, cut(Buffer.alloc(documentBlobLimits.bytesMax + 1)), 1e9)).rejects.toMatchObject({
      code: "E.REQUEST.TOO_LARGE",
    });
  });
});
