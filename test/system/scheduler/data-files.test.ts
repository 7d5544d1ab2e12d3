import { chmodSync, mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { startScheduler } from "../harness/installation.ts";
import { makeTemporaryFolder, runAstra, withTimeout } from "../harness/processes.ts";

const modeOf = (path: string): string => (statSync(path).mode & 0o777).toString(8);

/** A data folder as an earlier version left it. */
function makeOpenFolder(): string {
  const dataDir = join(makeTemporaryFolder(), "data");
  mkdirSync(dataDir);
  chmodSync(dataDir, 0o755);
  writeFileSync(join(dataDir, "notes.txt"), "readable by everybody");
  chmodSync(join(dataDir, "notes.txt"), 0o644);
  return dataDir;
}

it("[O110] the scheduler starts in a folder that others could read, closes it and everything in it, and logs what it changed", async () => {
  const { process, dataDir } = await startScheduler({ dataDir: makeOpenFolder() });

  expect(modeOf(dataDir)).toBe("700");
  const modes = Object.fromEntries(readdirSync(dataDir).map((name) => [name, modeOf(join(dataDir, name))]));
  expect(modes).toMatchObject({ "astra.db": "600", "astra.db-wal": "600", "session-keys.json": "600", "notes.txt": "600" });
  expect(Object.keys(modes).filter((name) => modes[name] !== "600")).toEqual(["blobs"]);
  expect(modes["blobs"]).toBe("700");
  const line =
    process
      .stderr()
      .split("\n")
      .find((one) => one.includes("files.closed")) ?? "";
  expect(JSON.parse(line)).toMatchObject({ changed: [dataDir, join(dataDir, "notes.txt")] });
  process.kill("SIGTERM");
  await withTimeout(process.ended, "the end after SIGTERM");
});

it("[O110] astra doctor closes a data folder that others could read, and prints what it changed", async () => {
  const dataDir = makeOpenFolder();

  const end = await runAstra(["doctor", "--listen", "127.0.0.1:0", "--data-dir", dataDir]);

  expect(end).toMatchObject({ code: 0, stdout: expect.stringContaining(`files: closed for other users: ${dataDir}`) });
  expect([dataDir, join(dataDir, "notes.txt")].map(modeOf)).toEqual(["700", "600"]);
});
