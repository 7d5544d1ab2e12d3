// The package `files` in a real child host, on real folders.

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { sha256Hex } from "@astraflow/archive";
import { buildRawZip } from "@astraflow/archive/testing";
import { describe, expect, it } from "vitest";
import { ExamplePackage, makeFolder } from "./harness/example-package.ts";

/** A worker that lets tasks read `in` and write `out`; beside them is a file that no task may see. */
async function openFiles() {
  const base = realpathSync(makeFolder());
  const [inbox, outbox] = [join(base, "in"), join(base, "out")];
  mkdirSync(join(inbox, "sub"), { recursive: true });
  mkdirSync(outbox);
  writeFileSync(join(base, "private.txt"), "nobody's business");
  writeFileSync(join(inbox, "a.txt"), "first");
  writeFileSync(join(inbox, "sub", "b.json"), '{"n": 1}');
  symlinkSync(join(base, "private.txt"), join(inbox, "link.txt"));
  symlinkSync(base, join(inbox, "up"));
  symlinkSync(base, join(outbox, "up"));
  const files = await ExamplePackage.open("files", { FILES_PACKAGE_ROOTS: `in=${inbox},out=${outbox}:rw` });
  return { files, base, inbox, outbox };
}

const refused = (message: string) => ({ code: "E.RUNNER.REFUSED", message: expect.stringContaining(message) });

describe("reading and writing", () => {
  it("[W1380] a file of a root is read as text, JSON or base64, and hashed", async () => {
    const { files } = await openFiles();
    const from = { root: "in", path: "a.txt" };

    expect(await files.result("files.read", from)).toEqual({ content: "first", sizeBytes: 5 });
    expect(await files.result("files.read", { root: "in", path: "sub/b.json", as: "json" })).toMatchObject({ content: { n: 1 } });
    expect(await files.result("files.read", { ...from, as: "base64" })).toMatchObject({ content: "Zmlyc3Q=" });
    expect(await files.result("files.hash", from)).toEqual({ digest: sha256Hex(Buffer.from("first")), sizeBytes: 5 });
    await expect(files.run("files.read", { ...from, as: "json" })).rejects.toMatchObject(refused("a.txt is not JSON"));
    await expect(files.run("files.read", { ...from, maxBytes: 4 })).rejects.toMatchObject(
      refused("a.txt has 5 bytes; 4 are allowed"),
    );
    await expect(files.run("files.read", { root: "in", path: "c.txt" })).rejects.toMatchObject({ code: "E.RESOURCE.MISSING" });
  });

  it("[W1380] a file is written whole, also again by a second attempt, and replaces another only where that is wanted", async () => {
    const { files, outbox } = await openFiles();
    const to = { root: "out", path: "2026/report.json", as: "json", content: { total: 3 } };

    const first = await files.result("files.write", to);
    const again = await files.result("files.write", to);
    await expect(files.run("files.write", { ...to, content: 4 })).rejects.toMatchObject(
      refused("is there already, with other bytes"),
    );
    await files.run("files.write", { ...to, content: 5, overwrite: true });

    expect(first).toMatchObject({ path: "2026/report.json", sizeBytes: 17, file: null });
    expect(again).toEqual(first);
    expect(readFileSync(join(outbox, "2026/report.json"), "utf8")).toBe("5\n");
    expect(readdirSync(join(outbox, "2026"))).toEqual(["report.json"]);
  });

  it("[W1380] a pattern lists the files of a root in order, without links, up to a limit", async () => {
    const { files } = await openFiles();
    const list = async (more: object) => {
      const result = await files.result("files.list", { root: "in", ...more });
      return { ...result, files: (result["files"] as { path: string }[]).map(({ path }) => path) };
    };

    expect(await list({})).toEqual({ files: ["a.txt", "sub/b.json"], count: 2, isTruncated: false });
    expect(await list({ pattern: "*.txt" })).toMatchObject({ files: ["a.txt"] });
    expect(await list({ limit: 1 })).toEqual({ files: ["a.txt"], count: 1, isTruncated: true });
    expect(await list({ pattern: "../*" })).toMatchObject({ count: 0 });
  });
});

describe("roots", () => {
  it("[W1381] a path that leads out of its root, or is written as if it did, is E.PARAMS.INVALID", async () => {
    const { files } = await openFiles();

    for (const path of ["../private.txt", "/etc/passwd", "sub/../../private.txt", "a\0b", "sub//b.json", ""])
      await expect(files.run("files.read", { root: "in", path })).rejects.toMatchObject({ code: "E.PARAMS.INVALID" });
  });

  it("[W1381] a symbolic link is refused wherever it stands in a path, for reading and for writing", async () => {
    const { files, base } = await openFiles();

    for (const path of ["link.txt", "up/private.txt"])
      for (const node of ["files.read", "files.hash", "files.upload"])
        await expect(files.run(node, { root: "in", path })).rejects.toMatchObject(refused("leads through a symbolic link"));
    const write = { root: "out", path: "up/owned.txt", content: "x" };
    await expect(files.run("files.write", write)).rejects.toMatchObject(refused("leads through a symbolic link, up"));
    expect(readdirSync(base).toSorted()).toEqual(["in", "out", "private.txt"]);
  });

  it("[W1381] a root that the worker does not have, or that is read-only, is refused with those it has", async () => {
    const { files, inbox } = await openFiles();
    const bare = await ExamplePackage.open("files");

    await expect(files.run("files.list", { root: "etc" })).rejects.toMatchObject(refused("it has in, out"));
    await expect(bare.run("files.list", { root: "in" })).rejects.toMatchObject(
      refused("it has none (FILES_PACKAGE_ROOTS lists them)"),
    );
    await expect(files.run("files.write", { root: "in", path: "x", content: "x" })).rejects.toMatchObject(
      refused("root in of this worker is read-only"),
    );
    expect(existsSync(join(inbox, "x"))).toBe(false);
  });
});

describe("stored files", () => {
  it("[W1382] a file is stored with the scheduler from a root or as written, read by its reference, and fetched into a root", async () => {
    const { files, outbox } = await openFiles();

    const { result: uploaded, artifacts } = await files.run("files.upload", { root: "in", path: "sub/b.json" });
    const written = await files.result("files.write", { path: "note.txt", content: "kept" });
    const { file } = uploaded;
    const fetched = await files.result("files.download", { file, root: "out", path: "copy.json" });

    expect(uploaded).toMatchObject({ file: { filename: "b.json" }, sizeBytes: 8 });
    expect(artifacts).toHaveLength(1);
    expect(files.readStored(written["file"]).toString()).toBe("kept");
    expect(await files.result("files.read", { file, as: "json" })).toMatchObject({ content: { n: 1 } });
    expect(fetched).toMatchObject({ path: "copy.json", sha256: uploaded["sha256"] });
    expect(readFileSync(join(outbox, "copy.json"), "utf8")).toBe('{"n": 1}');
    await expect(files.run("files.upload", { root: "in", path: "a.txt", maxBytes: 1 })).rejects.toMatchObject(
      refused("1 are allowed"),
    );
  });
});

describe("archives", () => {
  it("[W1383] files are packed into an archive that other programs read, the same for the same files, and unpacked into a new folder", async () => {
    const { files, outbox } = await openFiles();

    const packed = await files.result("files.zip", { root: "in", targetRoot: "out", target: "all.zip" });
    const { result: stored } = await files.run("files.zip", { root: "in" });
    const unpacked = await files.result("files.unzip", { file: stored["file"], targetRoot: "out", target: "new/all" });

    expect(packed).toMatchObject({ path: "all.zip", count: 2, sha256: stored["sha256"] });
    expect(execFileSync("python3", ["-m", "zipfile", "-t", join(outbox, "all.zip")]).toString()).toContain("Done testing");
    expect(unpacked).toEqual({ files: ["a.txt", "sub/b.json"], count: 2 });
    expect(readFileSync(join(outbox, "new/all/sub/b.json"), "utf8")).toBe('{"n": 1}');
    await expect(
      files.run("files.unzip", { root: "out", path: "all.zip", targetRoot: "out", target: "new/all" }),
    ).rejects.toMatchObject(refused("new/all in root out is there already"));
    await expect(files.run("files.zip", { root: "in", maxBytes: 9 })).rejects.toMatchObject(
      refused("has 8 bytes; 4 are allowed"),
    );
    await expect(files.run("files.zip", { root: "in", pattern: "*.pdf" })).rejects.toMatchObject({ code: "E.RESOURCE.MISSING" });
  });

  const hostileArchives = [
    ["a path out of the folder", buildRawZip({ entries: [{ name: "../evil.txt", content: "x" }] }), "is no path inside a root"],
    ["an absolute path", buildRawZip({ entries: [{ name: "/evil.txt", content: "x" }] }), "is no path inside a root"],
    ["a symbolic link", buildRawZip({ entries: [{ name: "l", content: "/etc", mode: 0o120777 }] }), "l is a symbolic link"],
    [
      "a name twice",
      buildRawZip({
        entries: [
          { name: "a", content: "1" },
          { name: "A", content: "2" },
        ],
      }),
      "A is in it twice",
    ],
    [
      "too many bytes",
      buildRawZip({ entries: [{ name: "a", content: "x".repeat(5_000), isDeflated: true }] }),
      "unpacks to 5000 bytes",
    ],
    [
      "a lying size",
      buildRawZip({ entries: [{ name: "a", content: "x".repeat(5_000), isDeflated: true, bytes: 5 }] }),
      "larger than announced",
    ],
    [
      "a wrong checksum",
      buildRawZip({
        entries: [
          { name: "b", content: "ok" },
          { name: "a", content: "x", crc: 1 },
        ],
      }),
      "a is damaged",
    ],
    ["an encrypted file", buildRawZip({ entries: [{ name: "a", content: "x", flags: 0x801 }] }), "a is encrypted"],
    ["a size beyond the archive", buildRawZip({ entries: [{ name: "a", content: "x", offset: 9_999 }] }), "does not begin where"],
    ["no archive", Buffer.from("just a text that is long enough"), "it is not a zip archive"],
  ] as const;

  it("[W1384] a hostile or damaged archive is refused with its entry, and leaves nothing", async () => {
    const { files, base, inbox, outbox } = await openFiles();
    const unzip = { root: "in", path: "evil.zip", targetRoot: "out", target: "x", maxBytes: 1_000 };

    for (const [what, archive, message] of hostileArchives) {
      writeFileSync(join(inbox, "evil.zip"), archive);
      const thrown: unknown = await files.run("files.unzip", unzip).catch((failed: unknown) => failed);
      expect([what, thrown, readdirSync(outbox)]).toMatchObject([what, refused(message), ["up"]]);
    }
    expect(readdirSync(base).toSorted()).toEqual(["in", "out", "private.txt"]);
  });
});
