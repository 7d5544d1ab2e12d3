import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import type { LoadedPackagesSummary } from "@astraflow/runtime";
import type { Logger } from "pino";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { PackageWatch } from "./package-watch.ts";

let root = "";
let watch: PackageWatch | undefined;
const logged: { readonly [key: string]: unknown }[] = [];
beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), "watch-"));
  mkdirSync(path.join(root, "author/lib"), { recursive: true });
  mkdirSync(path.join(root, "packages/tools"), { recursive: true });
  symlinkSync(path.join(root, "author"), path.join(root, "packages/tools/dev"));
  logged.length = 0;
});
afterEach(() => {
  watch?.close();
  rmSync(root, { recursive: true, force: true });
});

const write = (file: string, text = "x") => writeFileSync(path.join(root, "author", file), text);
const loaded = (identity: string, problems: LoadedPackagesSummary["problems"] = []): LoadedPackagesSummary => ({
  packages: [{ name: "tools", version: "1.0.0", dir: "tools/dev", manifestJson: {}, nodeTypes: [], identity }],
  problems,
});

/** A worker whose reloads end with these packages, one after the other. */
function startWatch(...states: LoadedPackagesSummary[]): { reloads(count: number): Promise<void> } {
  const write = (entry: object, msg: string) => logged.push({ ...entry, msg });
  let current = loaded("0");
  let count = 0;
  let wake = () => {};
  watch = new PackageWatch({
    packagesDir: path.join(root, "packages"),
    log: { info: write, error: write } as unknown as Logger,
    loadedPackages: () => current,
    reload: async () => {
      current = states[count] ?? current;
      count += 1;
      wake();
      return current;
    },
  });
  return {
    async reloads(wanted) {
      while (count < wanted) await new Promise<void>((resolve) => (wake = resolve));
      // The report follows the reload.
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

describe("a worker that watches its packages", () => {
  it("[W1251] a change in the folder that a package is linked to is a reload, also below it, in a new folder, and of a replaced file", async () => {
    const worker = startWatch();

    write("main.py");
    await worker.reloads(1);
    write("lib/text.py");
    await worker.reloads(2);
    mkdirSync(path.join(root, "author/more"));
    await worker.reloads(3);
    write("more/new.py");
    await worker.reloads(4);
    write("more/new.py.tmp", "y");
    renameSync(path.join(root, "author/more/new.py.tmp"), path.join(root, "author/more/new.py"));
    await worker.reloads(5);

    expect(logged).toEqual([]);
  });

  it("[W1251] the log says what is offered with new code, what keeps the code before because it is broken, and what is gone", async () => {
    const problem = { dir: "tools/dev", code: "E.PKG.INVALID", message: "broken" };
    const worker = startWatch(loaded("1"), loaded("1", [problem]), { packages: [], problems: [] });

    for (const count of [1, 2, 3]) {
      write("main.py", String(count));
      await worker.reloads(count);
    }

    const tools = ["tools 1.0.0"];
    expect(logged).toMatchObject([
      { event: "reloaded", offered: tools, removed: [], kept: [], problems: 0, msg: "offered with new code: tools 1.0.0" },
      {
        event: "reloaded",
        offered: [],
        kept: tools,
        problems: 1,
        msg: "broken, so with the code before: tools 1.0.0; 1 problem",
      },
      { event: "reloaded", removed: tools, msg: "no longer offered: tools 1.0.0" },
    ]);
  });
});
