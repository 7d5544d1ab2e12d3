import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { restrictFolder, restrictStoreFile } from "./private-files.ts";

let top = "";
let folder = "";

beforeEach(() => {
  top = mkdtempSync(join(tmpdir(), "astra-private-"));
  folder = join(top, "data");
  mkdirSync(folder);
  chmodSync(folder, 0o755);
});

afterEach(() => rmSync(top, { recursive: true }));

const modeOf = (path: string): string => (statSync(path).mode & 0o7777).toString(8);

function createFile(path: string, mode: number): string {
  writeFileSync(path, "content");
  chmodSync(path, mode);
  return path;
}

describe("the scheduler's files", () => {
  it("[O110] a data folder that others could read becomes 0700 and every file in it 0600, and each changed path is named", () => {
    const store = createFile(join(folder, "astra.db"), 0o644);
    mkdirSync(join(folder, "blobs", "acme"), { recursive: true, mode: 0o750 });
    const blob = createFile(join(folder, "blobs", "acme", "one"), 0o664);
    const quiet = createFile(join(folder, "replica_name"), 0o600);

    const { changed, problems } = restrictFolder(folder);

    expect([folder, join(folder, "blobs"), store, blob, quiet].map(modeOf)).toEqual(["700", "700", "600", "600", "600"]);
    expect(problems).toEqual([]);
    expect([...changed].sort()).toEqual([folder, store, join(folder, "blobs"), join(folder, "blobs", "acme"), blob].sort());
    expect(restrictFolder(folder)).toEqual({ changed: [], problems: [] });
  });

  it("[O110] a symbolic link in a data folder is not followed, and a missing folder is no problem", () => {
    const outside = createFile(join(top, "outside"), 0o644);
    symlinkSync(outside, join(folder, "link"));

    expect(restrictFolder(folder)).toEqual({ changed: [folder], problems: [] });
    expect(modeOf(outside)).toBe("644");
    expect(restrictFolder(join(top, "none"))).toEqual({ changed: [], problems: [] });
  });

  it("[O110] a folder that several users share is left as it is, with a sentence that names it and the way out", () => {
    chmodSync(folder, 0o1777);

    const { changed, problems } = restrictFolder(folder);

    expect(changed).toEqual([]);
    expect(problems).toEqual([`${folder} is shared by several users; use a folder of its own with --data-dir`]);
    expect(modeOf(folder)).toBe("1777");
  });

  it("[O110] a key file that others could read keeps its permissions, so that the start sees it and replaces the keys", () => {
    const keys = createFile(join(folder, "session-keys.json"), 0o644);

    restrictFolder(folder);

    expect([modeOf(keys), modeOf(folder)]).toEqual(["644", "700"]);
  });

  it("[O110] a store outside of the data folder is closed for others together with the files beside it, and its folder is not", () => {
    const file = createFile(join(folder, "mine.db"), 0o644);
    const wal = createFile(`${file}-wal`, 0o644);
    const other = createFile(join(folder, "other.txt"), 0o644);

    expect(restrictStoreFile(file).changed).toEqual([file, wal]);
    expect([file, wal, other, folder].map(modeOf)).toEqual(["600", "600", "644", "755"]);
  });
});
