import { chmodSync, copyFileSync, mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { spawnScheduler, startScheduler } from "../harness/installation.ts";
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

it("[O111] a copy of the database file alone of a running scheduler is refused, and astra doctor --repair lets a scheduler start on it", async () => {
  const first = await startScheduler();
  const dataDir = join(makeTemporaryFolder(), "copy");
  mkdirSync(dataDir, 0o700);
  copyFileSync(join(first.dataDir, "astra.db"), join(dataDir, "astra.db"));

  const { process: refused } = spawnScheduler({ dataDir });

  expect(await withTimeout(refused.ended, "the refusal")).toMatchObject({ code: 2 });
  expect(refused.stderr()).toMatch(/E\.STORE\.DAMAGED.*-wal.*astra restore.*astra doctor --repair/);
  const repair = await runAstra(["doctor", "--repair", "--listen", "127.0.0.1:0", "--data-dir", dataDir]);
  expect(repair).toMatchObject({ code: 0, stdout: expect.stringContaining("goes on from its last checkpoint") });
  const second = await startScheduler({ dataDir });
  for (const { process } of [first, second]) {
    process.kill("SIGTERM");
    await withTimeout(process.ended, "the end after SIGTERM");
  }
});
