// The contract on pages: cursors, filters, details, and tenants that never see each other.

import assert from "node:assert/strict";
import type { RouteRow, RunPhase, WorkflowRow } from "@astraflow/engine";
import { changeSet, keyRow, logEntry, runRow, taskRow, workerRow } from "../fixtures/sample-rows.ts";
import { StoreClient, withFixture } from "../fixtures/store-client.ts";
import type { ContractCase } from "../fixtures/store-fixture.ts";

const runPagesFollowTheirCursor: ContractCase = {
  title: "[S20] a store pages runs newest first, by cursor, by phase and by client, each run once",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const phases: RunPhase[] = ["queued", "running", "succeeded", "failed"];
      const runs = Array.from({ length: 20 }, (_, at) =>
        runRow(`r${String(at).padStart(2, "0")}`, { phase: phases[at % 4] as RunPhase, client: at % 5 === 0 ? "odd" : "cli" }),
      );
      await client.write(changeSet({ puts: runs, logEntries: [logEntry("acme", "run/r00", ["made"])] }));
      const walk = async (filter: { phase?: RunPhase; client?: string }, limit: number) => {
        const ids: string[] = [];
        for (let before: string | undefined; ; ) {
          const page = await client.store.page({
            page: "runs",
            tenant: "acme",
            limit,
            ...filter,
            ...(before === undefined ? {} : { before }),
          });
          ids.push(...page.items.map((run) => run.id));
          assert.ok(page.items.length <= limit);
          assert.equal(page.head, 1);
          if (page.next === null) return ids;
          before = page.next;
        }
      };
      const expect = (fits: (run: (typeof runs)[number]) => boolean) =>
        runs
          .filter(fits)
          .map((run) => run.id)
          .reverse();

      assert.deepEqual(
        await walk({}, 3),
        expect(() => true),
      );
      assert.deepEqual(
        await walk({}, 20),
        expect(() => true),
      );
      for (const phase of phases)
        assert.deepEqual(
          await walk({ phase }, 2),
          expect((run) => run.phase === phase),
        );
      assert.deepEqual(
        await walk({ client: "odd" }, 3),
        expect((run) => run.client === "odd"),
      );
      assert.deepEqual(
        await walk({ client: "odd", phase: "failed" }, 3),
        expect((run) => run.client === "odd" && run.phase === "failed"),
      );
      assert.deepEqual(await walk({ phase: "cancelled" }, 3), []);
    }),
};

const tenantsStayApart: ContractCase = {
  title: "[S20] a store shows a tenant's runs, workers and facts to that tenant only, even if its name is a prefix of another's",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const tenants = ["acme", "acme2", "beta"];
      for (const tenant of tenants)
        await client.write(
          changeSet({
            puts: [runRow(`r-${tenant}`, { tenant }), taskRow(`r-${tenant}.0`), workerRow(`${tenant}/w1`)],
            logEntries: [logEntry(tenant, `run/r-${tenant}`, [`of ${tenant}`])],
          }),
        );

      for (const tenant of tenants) {
        const runs = await client.store.page({ page: "runs", tenant, limit: 9 });
        const workers = await client.store.page({ page: "workers", tenant });
        const log = await client.store.events({ tenant, after: 0, limit: 9 });
        assert.deepEqual(
          runs.items.map((run) => run.id),
          [`r-${tenant}`],
        );
        assert.deepEqual(workers.items, [workerRow(`${tenant}/w1`)]);
        assert.deepEqual(
          log.items.map((entry) => [entry.position, entry.type]),
          [[1, `of ${tenant}`]],
        );
        for (const other of tenants) {
          const { detail } = await client.store.page({ page: "run", tenant, run: `r-${other}` });
          assert.equal(detail === null, other !== tenant, `${tenant} asks for the run of ${other}`);
        }
      }
    }),
};

const runDetailsAreComplete: ContractCase = {
  title: "[S20] a store returns a run with its tasks and workflow, all routes, and the number of open tasks in each phase",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const workflow: WorkflowRow = { kind: "workflow", id: "acme/w1", body: '{"name":"w"}' };
      const routes: RouteRow[] = ["b", "a"].map((id) => ({ kind: "route", id, tenant: "acme", needs: "{}" }));
      const tasks = [
        taskRow("r1.0", { phase: "succeeded" }),
        taskRow("r1.1", { phase: "leased" }),
        taskRow("r1.2"),
        taskRow("r1.3"),
      ];
      const ended = runRow("r2", { phase: "succeeded", open: 0, workflow: "acme/gone" });
      await client.write(
        changeSet({ puts: [workflow, ...routes] }),
        changeSet({ puts: [runRow("r1", { phase: "running" }), ...tasks], logEntries: [logEntry("acme", "run/r1", ["made"])] }),
        changeSet({ puts: [ended, taskRow("r2.0", { phase: "succeeded" })] }),
        changeSet({
          puts: [runRow("q1", { tenant: "beta" }), taskRow("q1.0", { phase: "leased" })],
          logEntries: [logEntry("beta", "run/q1", ["made"])],
        }),
      );

      const one = await client.store.page({ page: "run", tenant: "acme", run: "r1" });
      assert.deepEqual(one, { detail: { run: runRow("r1", { phase: "running" }), tasks, workflow: workflow.body }, head: 1 });
      const two = await client.store.page({ page: "run", tenant: "acme", run: "r2" });
      assert.equal(two.detail?.workflow, "");
      assert.deepEqual(await client.store.page({ page: "run", tenant: "acme", run: "none" }), { detail: null, head: 1 });
      assert.deepEqual((await client.store.page({ page: "routes" })).items, [...routes].reverse());
      assert.deepEqual((await client.store.page({ page: "depth" })).items, [
        { tenant: "acme", phase: "leased", tasks: 1 },
        { tenant: "acme", phase: "waiting", tasks: 2 },
        { tenant: "beta", phase: "leased", tasks: 1 },
      ]);
    }),
};

const workerPageShowsHeldTasks: ContractCase = {
  title: "[S64] a store returns one worker with the attempts leased to it, in order and up to a limit, to its own tenant only",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const mine = { worker: "acme/w1", phase: "leased" } as const;
      const tasks = [
        taskRow("r1.0", mine),
        taskRow("r1.1", { worker: "acme/w2", phase: "leased" }),
        taskRow("r1.2", { ...mine, phase: "succeeded" }),
        taskRow("r1.3", mine),
        taskRow("r1.4", mine),
      ];
      const worker = workerRow("acme/w1", { condition: '{"strain":"disk"}' });
      await client.write(
        changeSet({ puts: [worker], logEntries: [logEntry("acme", "worker/acme/w1", ["joined"])] }),
        changeSet({ puts: [runRow("r1", { phase: "running" }), ...tasks] }),
      );

      const page = (tenant: string, id: string, limit: number) =>
        client.store.page({ page: "worker", tenant, worker: id, limit });
      assert.deepEqual(await page("acme", "acme/w1", 2), { worker, held: [tasks[0], tasks[3]], head: 1 });
      assert.deepEqual(await page("acme", "acme/w1", 0), { worker, held: [], head: 1 });
      assert.deepEqual(await page("beta", "acme/w1", 2), { worker: null, held: [], head: 0 });
      assert.deepEqual(await page("acme", "acme/none", 2), { worker: null, held: [], head: 1 });
    }),
};

const workersAreCounted: ContractCase = {
  title: "[S65] a store counts workers by tenant, phase and whether they are draining",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      assert.deepEqual(await client.store.page({ page: "crew" }), { items: [] });
      const rows = [
        workerRow("acme/w1", { phase: "online" }),
        workerRow("acme/w2", { phase: "online" }),
        workerRow("acme/w3", { phase: "online", draining: true }),
        workerRow("acme/w4", { phase: "lost", due: null }),
        workerRow("beta/w1", { tenant: "beta", phase: "away" }),
      ];
      await client.write(...rows.map((row) => changeSet({ puts: [row] })));

      assert.deepEqual((await client.store.page({ page: "crew" })).items, [
        { tenant: "acme", phase: "lost", draining: false, workers: 1 },
        { tenant: "acme", phase: "online", draining: false, workers: 2 },
        { tenant: "acme", phase: "online", draining: true, workers: 1 },
        { tenant: "beta", phase: "away", draining: false, workers: 1 },
      ]);
    }),
};

const tenantsAreListed: ContractCase = {
  title: "[S86] a store lists the tenants that have a log, by name and page by page, not those that were only queried",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      await client.store.page({ page: "workers", tenant: "asked" });
      for (const tenant of ["beta", "acme", "gamma"])
        await client.write(changeSet({ logEntries: [logEntry(tenant, `worker/${tenant}/w1`, ["joined"])] }));

      const page = (limit: number, after?: string) =>
        client.store.page({ page: "tenants", limit, ...(after !== undefined && { after }) });
      assert.deepEqual(await page(2), { items: ["acme", "beta"], next: "beta" });
      assert.deepEqual(await page(2, "beta"), { items: ["gamma"], next: null });
      assert.deepEqual(await page(3), { items: ["acme", "beta", "gamma"], next: null });
    }),
};

const concurrencyKeysAreShown: ContractCase = {
  title: "[S87] a store returns a concurrency key with its holders, to its own tenant only",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const key = keyRow("acme/press/1", { limit: 2, holders: ["r1.0", "r2.10"] });
      await client.write(changeSet({ puts: [key], logEntries: [logEntry("acme", "key/acme/press/1", ["held"])] }));

      const page = (tenant: string, name: string) => client.store.page({ page: "key", tenant, key: name });
      assert.deepEqual(await page("acme", "press/1"), { key, head: 1 });
      assert.deepEqual(await page("acme", "press"), { key: null, head: 1 });
      assert.deepEqual(await page("beta", "press/1"), { key: null, head: 0 });
    }),
};

const openTaskCountsAreBounded: ContractCase = {
  title: "[S66] a store counts open tasks of one tenant or of each, up to a limit, those of queued runs first",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const open = (run: string, tenant: string, phase: "queued" | "running", tasks: "ready" | "leased") =>
        changeSet({
          puts: [
            runRow(run, { tenant, phase }),
            ...["0", "1", "2"].map((slot) => taskRow(`${run}.${slot}`, { phase: tasks, worker: null })),
          ],
          logEntries: [logEntry(tenant, `run/${run}`, ["made"])],
        });
      await client.write(open("a1", "acme", "running", "leased"), open("a2", "acme", "queued", "ready"));
      await client.write(open("b1", "beta", "queued", "ready"));
      const depth = async (query: { tenant?: string; max?: number }) =>
        (await client.store.page({ page: "depth", ...query })).items.map(
          ({ tenant, phase, tasks }) => `${tenant} ${phase} ${tasks}`,
        );

      assert.deepEqual(await depth({ tenant: "acme" }), ["acme leased 3", "acme ready 3"]);
      assert.deepEqual(await depth({ max: 4 }), ["acme leased 1", "acme ready 3", "beta ready 3"]);
      assert.deepEqual(await depth({ tenant: "acme", max: 2 }), ["acme ready 2"]);
      assert.deepEqual(await depth({ tenant: "none", max: 2 }), []);
    }),
};

export const pageCases: readonly ContractCase[] = [
  runPagesFollowTheirCursor,
  tenantsStayApart,
  runDetailsAreComplete,
  workerPageShowsHeldTasks,
  workersAreCounted,
  tenantsAreListed,
  concurrencyKeysAreShown,
  openTaskCountsAreBounded,
];
