import { openPostgres } from "@astraflow/store";
import { startPostgres } from "@astraflow/store/testing";
import { expect, it } from "vitest";
import { makeTemporaryFolder, runAstra } from "../harness/processes.ts";

async function runDoctor(store: string) {
  const end = await runAstra(["doctor", "--json", "--listen", "127.0.0.1:0", "--data-dir", makeTemporaryFolder()], {
    ASTRA_SCHEDULER_STORE: store,
  });
  const { checks } = JSON.parse(end.stdout) as { checks: { name: string; isGood: boolean; found: string }[] };
  return { ...end, checks, server: checks.find((check) => check.name === "postgres") };
}

it("[L13] astra doctor checks the database server named by the scheduler's own setting and never shows its password", async () => {
  const server = await startPostgres();
  const store = await server.createDatabase();
  try {
    const empty = await runDoctor(store);
    const scheduler = openPostgres({ url: store });
    await scheduler.open({ replica: "first", cluster: "c1" });
    await scheduler.close();
    const there = await runDoctor(store);
    const refused = await runDoctor(store.replace(server.password, "a-wrong-guess"));
    await server.halt("fast");
    const away = await runDoctor(store);

    expect(empty).toMatchObject({ code: 0, server: { isGood: true } });
    expect(there).toMatchObject({ code: 0, server: { isGood: true } });
    const found = Object.fromEntries(there.checks.map((check) => [check.name, check.found]));
    expect(found["postgres durability"]).toContain("synchronous_commit on");
    expect(found["postgres schema"]).toContain("cluster c1");
    expect(found["schedulers"]).toContain("first (epoch 1");
    expect(refused).toMatchObject({
      code: 1,
      server: { isGood: false, found: expect.stringContaining("rejects this user and password") },
    });
    expect(away).toMatchObject({ code: 1, server: { isGood: false, found: expect.stringContaining("ECONNREFUSED") } });
    for (const { stdout, stderr } of [there, refused, away])
      expect(stdout + stderr).not.toMatch(new RegExp(`${server.password}|a-wrong-guess`));
  } finally {
    await server.stop();
  }
});
