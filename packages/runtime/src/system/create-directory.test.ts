import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createDirectory } from "./create-directory.ts";

let root = "";
beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), "folder-"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

/** In a process of its own: where it hangs, it hangs in a system call that no timer of ours can end. */
const script = `
  import { createDirectory } from ${JSON.stringify(new URL("./create-directory.ts", import.meta.url).href)};
  try { createDirectory("/proc/none/of/ours"); } catch (thrown) { console.log(thrown.code); }
`;

describe("a folder for the worker's files", () => {
  it("[W35] a directory for the worker's files is created with its parents, and left alone where it exists", () => {
    const dir = path.join(root, "a", "b", "c");

    createDirectory(dir);
    writeFileSync(path.join(dir, "kept"), "");
    createDirectory(dir);

    expect(statSync(path.join(dir, "kept")).isFile()).toBe(true);
    expect(() => createDirectory(path.join(dir, "kept", "below"))).toThrow("ENOTDIR");
  });

  it("[W35] creating a directory fails at once where the system lets nobody create one", (ctx) => {
    if (!existsSync("/proc")) ctx.skip("this system has no /proc, where folders cannot be made");

    const end = spawnSync(process.execPath, ["--no-warnings", "--input-type=module", "--eval", script], {
      encoding: "utf8",
      timeout: 10_000,
      killSignal: "SIGKILL",
    });

    expect(end).toMatchObject({ status: 0, stdout: "ENOENT\n" });
  }, 20_000);
});
