import { createHash } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, it } from "vitest";
import { startScheduler } from "../harness/installation.ts";
import { makeTemporaryFolder, runAstra, spawnAstra } from "../harness/processes.ts";

const digest = (file: string): string => createHash("sha256").update(readFileSync(file)).digest("hex");

/** All files below a folder with their contents: what "nothing written" is judged by. */
function folderDigests(folder: string): Record<string, string> {
  const names = existsSync(folder)
    ? readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
    : [];
  return Object.fromEntries(
    names.map((entry) => [join(entry.parentPath, entry.name), digest(join(entry.parentPath, entry.name))]),
  );
}

function startWithDataDir(dataDir: string, ...more: string[]) {
  return runAstra(["scheduler", "--dev", "--listen", "127.0.0.1:0", "--data-dir", dataDir, ...more]);
}

describe("a scheduler that cannot start as it was told", () => {
  it("[O2] a scheduler with a wrong flag names the flag, exits with 2 and writes nothing", async () => {
    const folder = makeTemporaryFolder();

    const end = await startWithDataDir(join(folder, "data"), "--lisen", "127.0.0.1:1", "--threads", "many");

    expect(end).toMatchObject({ code: 2, stdout: "" });
    expect(end.stderr.trim().split("\n")).toEqual([
      "error E.CONFIG.INVALID: 2 settings cannot be used:",
      expect.stringContaining("There is no flag --lisen; did you mean --listen?"),
      expect.stringContaining(`--threads is "many"`),
      "try: astra scheduler --help",
      "docs: docs/faults.md#E.CONFIG.INVALID",
    ]);
    expect(folderDigests(folder)).toEqual({});
  });

  it("[O2] a scheduler whose port is in use names the port, exits with 2 and writes nothing", async () => {
    const folder = makeTemporaryFolder();
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const { port } = other.address() as AddressInfo;

    const end = await runAstra(["scheduler", "--dev", "--listen", `127.0.0.1:${port}`, "--data-dir", join(folder, "data")]);
    other.close();

    expect(end).toMatchObject({ code: 2, stdout: "" });
    expect(end.stderr).toMatch(
      new RegExp(`^error E\\.CONFIG\\.INVALID: 127\\.0\\.0\\.1:${port} is in use by another program; .*--listen.*\\.\\n`),
    );
    expect(folderDigests(folder)).toEqual({});
  });

  it("[O2] a scheduler whose data folder is in use names the process that uses it and exits with 2, and the first scheduler continues", async () => {
    const first = await startScheduler();

    const end = await startWithDataDir(first.dataDir);

    expect(end).toMatchObject({ code: 2, stdout: "" });
    expect(end.stderr).toContain(`is in use by process ${first.process.pid}`);
    expect((await fetch(`${first.http}/readyz`)).status).toBe(200);
  });

  it("[O2] a scheduler whose store is from a newer version reports it, exits with 2 and leaves the store unchanged", async () => {
    const first = await startScheduler();
    first.process.kill("SIGTERM");
    await first.process.ended;
    const folder = first.dataDir;
    const file = join(folder, "astra.db");
    const database = new DatabaseSync(file);
    database.exec("PRAGMA user_version = 9999");
    database.close();
    const before = folderDigests(folder);

    const end = await startWithDataDir(folder);

    expect(end).toMatchObject({ code: 2, stdout: "" });
    expect(end.stderr).toMatch(/9999/);
    expect(end.stderr).toContain(file);
    expect(folderDigests(folder)).toEqual(before);
  });

  it("[O2] a scheduler whose store file is not a database reports it, exits with 2 and leaves the file unchanged", async () => {
    const folder = makeTemporaryFolder();
    const file = join(folder, "astra.db");
    writeFileSync(file, "these are somebody's notes, not a database\n".repeat(100));
    const before = folderDigests(folder);

    const end = await startWithDataDir(folder);

    expect(end).toMatchObject({ code: 2, stdout: "" });
    expect(end.stderr).toMatch(/astra\.db cannot be opened: .*--data-dir or --store\.\n/);
    expect(folderDigests(folder)).toEqual(before);
  });

  it("[O2] a scheduler whose data folder cannot be created reports it, exits with 2 and writes nothing", async () => {
    const folder = makeTemporaryFolder();
    writeFileSync(join(folder, "data"), "a file where a folder should be");
    const before = folderDigests(folder);

    const end = await startWithDataDir(join(folder, "data", "scheduler"));

    expect(end).toMatchObject({ code: 2, stdout: "" });
    expect(end.stderr).toContain(join(folder, "data", "scheduler"));
    expect(folderDigests(folder)).toEqual(before);
  });

  it("[O2] a scheduler whose data folder is where the system lets nobody create one reports it at once and exits with 2", async (ctx) => {
    if (!existsSync("/proc")) ctx.skip("this system has no /proc, where folders cannot be made");

    const end = await startWithDataDir("/proc/none/of/ours");

    expect(end).toMatchObject({ code: 2, stdout: "" });
    expect(end.stderr).toMatch(
      /^error E\.STORE\.OPEN: \/proc\/none\/of\/ours\/astra\.db cannot be opened: .*--data-dir or --store\.\n/,
    );
  });

  it("[O2] a scheduler whose store belongs to another cluster reports it and exits with 2", async () => {
    const first = await startScheduler({ flags: ["--cluster", "berlin"] });
    first.process.kill("SIGTERM");
    await first.process.ended;

    const end = await startWithDataDir(first.dataDir, "--cluster", "tokyo");

    expect(end).toMatchObject({ code: 2, stdout: "" });
    expect(end.stderr).toMatch(/belongs to cluster berlin, not to tokyo; use that name with --cluster/);
  });

  it("[O6] a scheduler given a failpoint that does not exist names it and exits with 2", async () => {
    const end = await runAstra(["scheduler", "--dev"], { ASTRA_FAILPOINTS: "turn.sideways=kill" });

    expect(end).toMatchObject({ code: 2, stdout: "" });
    expect(end.stderr).toContain(`Unknown failpoint "turn.sideways" in ASTRA_FAILPOINTS`);
  });
});

describe("secrets", () => {
  it("[O4] without --dev a scheduler does not start without a token, and the dev token is refused", async () => {
    const folder = makeTemporaryFolder();
    const secret = join(folder, "secret");
    mkdirSync(join(folder, "data"));
    writeFileSync(secret, "a-long-enough-secret-1\n");
    chmodSync(secret, 0o600);

    const bare = await runAstra(["scheduler", "--listen", "127.0.0.1:0", "--data-dir", join(folder, "data")]);
    expect(bare).toMatchObject({ code: 2, stdout: "" });
    expect(bare.stderr).toContain("--token NAME=@FILE");
    expect(folderDigests(join(folder, "data"))).toEqual({});

    const scheduler = spawnAstra([
      "scheduler",
      "--listen",
      "127.0.0.1:0",
      "--data-dir",
      join(folder, "data"),
      "--token",
      `ops=@${secret}`,
      "--log-level",
      "warn",
    ]);
    const http = String((await scheduler.ready())["http"]);
    const ask = (token: string) => fetch(`${http}/api/v1/runs`, { headers: { authorization: `Bearer ${token}` } });
    expect((await ask("dev-token")).status).toBe(401);
    expect((await ask("a-long-enough-secret-1")).status).toBe(200);
    expect(await (await fetch(`${http}/`)).text()).not.toContain("dev-token");
  });

  it("[O3] a scheduler with --dev on an address that other machines can reach is refused with exit code 2", async () => {
    const end = await runAstra(["scheduler", "--dev", "--listen", "0.0.0.0:0", "--data-dir", makeTemporaryFolder()]);

    expect(end).toMatchObject({ code: 2, stdout: "" });
    expect(end.stderr).toContain("only listen on loopback, not on 0.0.0.0");
  });
});
