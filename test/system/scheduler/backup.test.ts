import { appendFileSync, existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import type { RunRef } from "@astraflow/protocol";
import { type PostgresServer, startPostgres } from "@astraflow/store/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { expectEachRunEndedOnce, submitUntilAccepted } from "../harness/accepted-runs.ts";
import { SchedulerApi, startScheduler, startWorker } from "../harness/installation.ts";
import { makeTemporaryFolder, runAstra, withTimeout } from "../harness/processes.ts";

const backUp = (dataDir: string, folder: string) => runAstra(["backup", "--json", "--data-dir", dataDir, folder]);
const restore = (folder: string, dataDir: string) => runAstra(["restore", "--json", "--data-dir", dataDir, folder]);

it("[O112] backups taken while a scheduler and its worker go on working restore to stores that keep every accepted run and finish it", async () => {
  const top = makeTemporaryFolder();
  const first = await startScheduler();
  const api = new SchedulerApi(first.http);
  const worker = await startWorker(first.ws);
  const refs: RunRef[] = [];
  const acceptedBefore: number[] = [];
  const backups = [0, 1].map((at) => join(top, `backup-${at}`));
  let isDone = false;
  const submitting = (async () => {
    // Three at a time: some are finished, some under way and some waiting at any moment.
    while (!isDone) {
      const batch = [0, 1, 2].map((at) => submitUntilAccepted(api, refs.length + at));
      refs.push(...(await Promise.all(batch)));
      await api.waitForRunEnd(refs.at(-3)?.runId ?? "");
    }
  })();
  for (const folder of backups) {
    acceptedBefore.push(refs.length);
    expect(await backUp(first.dataDir, folder)).toMatchObject({ code: 0 });
  }
  isDone = true;
  await submitting;
  for (const process of [worker, first.process]) {
    process.kill("SIGKILL");
    await withTimeout(process.ended, "the end after SIGKILL");
  }
  // Runs were accepted during each backup, or nothing was proved.
  expect(refs.length).toBeGreaterThan((acceptedBefore.at(-1) ?? 0) + 1);

  for (const [at, folder] of backups.entries()) {
    const dataDir = join(top, `restored-${at}`);
    expect(await restore(folder, dataDir)).toMatchObject({ code: 0 });
    // The tasks of the worker that is gone wait for its lease, which ends ten times sooner.
    const scheduler = await startScheduler({ dataDir, flags: ["--time-scale", "10"] });
    const restored = new SchedulerApi(scheduler.http);
    const other = await startWorker(scheduler.ws, { name: `w-${at}` });
    const known = new Set((await restored.listRuns()).map((run) => run.runId));
    const kept = refs.filter((ref) => known.has(ref.runId));

    expect(kept.length).toBeGreaterThanOrEqual(acceptedBefore[at] ?? 0);
    expect(known.size).toBe(kept.length);
    await Promise.all(kept.map((ref) => restored.waitForRunEnd(ref.runId)));
    const next = await submitUntilAccepted(restored, refs.length);
    expect(await restored.waitForRunEnd(next.runId)).toMatchObject({ status: "succeeded" });
    for (const ref of kept) {
      const facts = (await restored.listRunFacts(ref.runId)).map((fact) => fact.type);
      const count = (type: string) => facts.filter((one) => one === type).length;
      expect([count("run.created"), count("task.succeeded"), count("run.succeeded")]).toEqual([1, 3, 1]);
    }
    for (const process of [other, scheduler.process]) {
      process.kill("SIGTERM");
      await withTimeout(process.ended, "the end after SIGTERM");
    }
  }
}, 120_000);

it("[O113] a backup is closed to others, holds no session keys, and is refused once a byte of it has changed", async () => {
  const top = makeTemporaryFolder();
  const { process, dataDir } = await startScheduler();
  const folder = join(top, "backup");

  expect(await backUp(dataDir, folder)).toMatchObject({ code: 0 });
  process.kill("SIGTERM");
  await withTimeout(process.ended, "the end after SIGTERM");

  expect(readdirSync(folder).sort()).toEqual(["astra.db", "backup.json"]);
  expect([folder, join(folder, "astra.db")].map((path) => (statSync(path).mode & 0o777).toString(8))).toEqual(["700", "600"]);
  expect(JSON.parse(readFileSync(join(folder, "backup.json"), "utf8"))).toMatchObject({
    files: { "astra.db": { sha256: expect.stringMatching(/^[0-9a-f]{64}$/) } },
  });
  appendFileSync(join(folder, "astra.db"), "x");
  const refused = await restore(folder, join(top, "restored"));
  expect(refused).toMatchObject({ code: 1, stderr: expect.stringMatching(/E\.STORE\.DAMAGED.*has changed since the backup/) });
  expect(existsSync(join(top, "restored"))).toBe(false);
});

it("[O113] a backup overwrites no folder, and a restore overwrites no store, also not one that is in use", async () => {
  const top = makeTemporaryFolder();
  const { process, dataDir } = await startScheduler();
  const folder = join(top, "backup");
  await backUp(dataDir, folder);

  expect(await backUp(dataDir, folder)).toMatchObject({ code: 1, stderr: expect.stringContaining("exists already") });
  expect(await restore(folder, dataDir)).toMatchObject({ code: 1, stderr: expect.stringContaining("E.STORE.IN_USE") });
  process.kill("SIGTERM");
  await withTimeout(process.ended, "the end after SIGTERM");
  expect(await restore(folder, dataDir)).toMatchObject({ code: 1, stderr: expect.stringContaining("move it away") });
  expect(await restore(join(top, "none"), join(top, "restored"))).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("is no complete backup"),
  });
});

/** A scheduler whose data folder holds the file of a resource, and the address of that file. */
async function storeFile(http: string): Promise<string> {
  const form = new FormData();
  form.append("file", new Blob(["kept apart from the store"]), "note.txt");
  const headers = { authorization: "Bearer dev-token" };
  const response = await fetch(`${http}/api/v1/resources`, { method: "POST", headers, body: form });
  const { resourceId } = (await response.json()) as { resourceId: string };
  return `/api/v1/resources/${resourceId}/download`;
}

it("[O112] files of resources are in the backup beside the store, and open again after the restore", async () => {
  const top = makeTemporaryFolder();
  const first = await startScheduler();
  const address = await storeFile(first.http);

  const backedUp = await backUp(first.dataDir, join(top, "backup"));
  const restored = await restore(join(top, "backup"), join(top, "restored"));
  const second = await startScheduler({ dataDir: join(top, "restored") });
  const file = await new SchedulerApi(second.http).send("GET", address);

  expect([backedUp.code, restored.code]).toEqual([0, 0]);
  expect(await file.text()).toBe("kept apart from the store");
});

describe("of a PostgreSQL server", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  const onDatabase = (url: string) => ({ ASTRA_SCHEDULER_STORE: url });

  it("[O1491] a dump taken beside working schedulers restores into another database, where every accepted run is finished once", async () => {
    const top = makeTemporaryFolder();
    const [from, to] = [await server.createDatabase(), await server.createDatabase()];
    const first = await startScheduler({ env: onDatabase(from) });
    const api = new SchedulerApi(first.http);
    const refs = [await submitUntilAccepted(api, 0), await submitUntilAccepted(api, 1)];
    const worker = await startWorker(first.ws);
    await api.waitForRunEnd(refs[0]?.runId ?? "");
    const folder = join(top, "backup");

    const backedUp = await runAstra(["backup", "--json", "--data-dir", first.dataDir, folder], onDatabase(from));
    for (const process of [worker, first.process]) {
      process.kill("SIGKILL");
      await withTimeout(process.ended, "the end after SIGKILL");
    }
    const restored = await runAstra(["restore", "--json", "--data-dir", join(top, "restored"), folder], onDatabase(to));
    const again = await runAstra(["restore", "--json", "--data-dir", join(top, "restored"), folder], onDatabase(to));
    const second = await startScheduler({ env: onDatabase(to), flags: ["--time-scale", "10"] });
    await startWorker(second.ws, { name: "other" });
    const next = await submitUntilAccepted(new SchedulerApi(second.http), 2);

    expect([backedUp.code, restored.code]).toEqual([0, 0]);
    expect(readdirSync(folder).sort()).toEqual(["astra.dump", "backup.json"]);
    expect((statSync(join(folder, "astra.dump")).mode & 0o777).toString(8)).toBe("600");
    expect(again).toMatchObject({ code: 1, stderr: expect.stringMatching(/E\.CONFLICT.*has a store already/) });
    await expectEachRunEndedOnce(new SchedulerApi(second.http), [...refs, next]);
  }, 120_000);

  it("[O1491] a backup of a server is refused where there is no store, no pg_dump, or another kind of store to restore to, and never shows the password", async () => {
    const top = makeTemporaryFolder();
    const url = await server.createDatabase();
    const backUpServer = (env: Record<string, string> = {}) =>
      runAstra(["backup", join(top, "none")], { ...onDatabase(url), ...env });
    const empty = await backUpServer();
    const wrongPassword = await backUpServer(onDatabase(url.replace(`:${server.password}@`, ":not-its-password@")));
    const { process } = await startScheduler({ env: onDatabase(url) });
    const withoutTool = await backUpServer({ PATH: top });
    await runAstra(["backup", join(top, "backup")], onDatabase(url));
    process.kill("SIGTERM");
    const intoFile = await restore(join(top, "backup"), join(top, "restored"));

    expect(empty).toMatchObject({ code: 1, stderr: expect.stringContaining("there is nothing to back up") });
    expect(wrongPassword).toMatchObject({ code: 1, stderr: expect.stringContaining("E.STORE.OPEN") });
    expect(withoutTool).toMatchObject({ code: 1, stderr: expect.stringContaining("pg_dump is not on PATH; install") });
    expect(intoFile).toMatchObject({ code: 1, stderr: expect.stringContaining("is the backup of a PostgreSQL server") });
    for (const { stderr } of [empty, wrongPassword, withoutTool]) expect(stderr).not.toMatch(/not-its-password/);
    for (const { stderr } of [empty, withoutTool]) expect(stderr).not.toContain(`:${server.password}@`);
    expect(existsSync(join(top, "none"))).toBe(false);
  });
});
