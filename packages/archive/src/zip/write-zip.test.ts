import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { archiveLimits } from "./archive-limits.ts";
import { createMemorySource } from "./byte-source.ts";
import { readZipEntries } from "./read-zip.ts";
import { createFolderTarget, unpackArchive } from "./unpack-archive.ts";
import { writeZip } from "./write-zip.ts";

const files = [
  { name: "scripts/install.sh", content: Buffer.from("#!/bin/sh\necho hello\n") },
  { name: "manifest.json", content: Buffer.from('{"name":"acme.tools"}\n') },
  { name: "adapters/acme/caf\u00E9.py", content: Buffer.from("x = 1\n") },
  { name: "adapters/acme/__init__.py", content: Buffer.alloc(0) },
];

let root = "";
beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), "archive-"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

describe("writing an archive", () => {
  it("[R740] the same files give the same bytes, in whatever order they are listed and whichever Node writes them", () => {
    const archive = writeZip(files);

    expect(writeZip(files.toReversed())).toEqual(archive);
    // Written once with Node 20 and once with Node 24.
    expect(createHash("sha256").update(archive).digest("hex")).toBe(
      "7c393f6c668cbd88aff8882d65e1ffe39ce8b8e3cb3ab78770a622f5aad2dc6b",
    );
  });

  it("[R740] an archive unpacks to the files it was made of; only what begins with #! is executable", async () => {
    const source = createMemorySource(writeZip(files));
    const folder = path.join(root, "new");

    await unpackArchive(source, await readZipEntries(source, archiveLimits), createFolderTarget(folder));

    for (const { name, content } of files) expect(readFileSync(path.join(folder, name))).toEqual(content);
    expect(statSync(path.join(folder, "scripts/install.sh")).mode & 0o777).toBe(0o755);
    expect(statSync(path.join(folder, "manifest.json")).mode & 0o777).toBe(0o644);
  });

  it.each(["../evil", "a\\b", "con"])("[R740] a file called %j is refused before it is packed", (name) => {
    expect(() => writeZip([{ name, content: Buffer.alloc(0) }])).toThrow(`"${name}" has`);
  });

  it("[R746] an archive is not unpacked into a folder that exists, and every file and folder is synced, parents last", async () => {
    const source = createMemorySource(writeZip(files));
    const entries = await readZipEntries(source, archiveLimits);
    const steps: string[] = [];
    const target = {
      createFolder: async (name: string) => void steps.push(`create ${name}`),
      writeFile: async (name: string, content: AsyncIterable<Uint8Array>) => {
        for await (const _ of content) continue;
        steps.push(`write ${name}`);
      },
      syncFolder: async (name: string) => void steps.push(`sync ${name}`),
    };

    await unpackArchive(source, entries, target);

    expect(steps).toEqual([
      "create ",
      "create adapters",
      "create scripts",
      "create adapters/acme",
      "write adapters/acme/__init__.py",
      "write adapters/acme/caf\u00E9.py",
      "write manifest.json",
      "write scripts/install.sh",
      "sync adapters/acme",
      "sync scripts",
      "sync adapters",
      "sync ",
    ]);
    await expect(unpackArchive(source, entries, createFolderTarget(root))).rejects.toThrow("EEXIST");
    expect(readdirSync(root)).toEqual([]);
  });

  it("[R746] an error of the disk ends the unpacking", async () => {
    const source = createMemorySource(writeZip(files));
    const real = createFolderTarget(path.join(root, "new"));
    const full = { ...real, writeFile: () => Promise.reject(new Error("ENOSPC: no space left on device")) };

    await expect(unpackArchive(source, await readZipEntries(source, archiveLimits), full)).rejects.toThrow("ENOSPC");
  });
});
