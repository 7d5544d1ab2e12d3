// The contract on finding runs and what is in them: filters that may be combined, words, tasks by cursor and by range, lines.

import assert from "node:assert/strict";
import type { ChangeSet, PageQuery, RouteRow, RunPhase, RunRow, TaskRow } from "@astraflow/engine";
import { withColumns } from "@astraflow/engine/testing";
import { changeSet, logEntry, runRow, taskRow } from "../fixtures/sample-rows.ts";
import { StoreClient, withFixture } from "../fixtures/store-client.ts";
import type { ContractCase } from "../fixtures/store-fixture.ts";

type RunsFilter = Partial<Omit<Extract<PageQuery, { page: "runs" }>, "page" | "limit">>;

async function listAllPages(client: StoreClient, filter: RunsFilter, limit: number): Promise<string[]> {
  const ids: string[] = [];
  for (let before: string | undefined; ; ) {
    const cursor = before === undefined ? {} : { before };
    const page = await client.store.page({ page: "runs", tenant: "acme", limit, ...filter, ...cursor });
    assert.ok(page.items.length <= limit);
    ids.push(...page.items.map((run) => run.id));
    if (page.next === null) return ids;
    assert.ok(before === undefined || page.next < before, `the page before ${before} leads to ${page.next}`);
    before = page.next;
  }
}

const start = 1_700_000_000_000;

/** As the engine makes them: an instant first, then chance. */
function runIdAt(at: number, tail: number): string {
  const hex = at.toString(16).padStart(12, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7${(tail % 4096).toString(16).padStart(3, "0")}-8000-${String(tail).padStart(12, "0")}`;
}

const minute = 60_000;
const phases: readonly RunPhase[] = ["succeeded", "failed", "running", "queued", "cancelled"];
const words = ["nightly", "report", "üben", "E2E"];

function createManyRuns(count: number): RunRow[] {
  return Array.from({ length: count }, (_, at) => {
    // Three of a kind share an instant, and their ids are not in the order of their making.
    const createdAt = start + Math.floor(at / 3) * 10 * minute;
    return runRow(runIdAt(createdAt, (at * 7919) % 4096), {
      createdAt,
      phase: phases[at % 5] as RunPhase,
      client: at % 4 === 0 ? "cli" : "console",
      source: at % 3 === 0 ? "" : `wf-${at % 3}`,
      label: `${words[at % 4]} no ${at}`,
      about: JSON.stringify({ by: `user${at % 6}`, labels: { team: at % 2 === 0 ? "blue" : "green", place: "x" } }),
      error: at % 5 === 1 ? JSON.stringify({ code: "E.TASK.FAILED", message: `no worker for node${at % 7}` }) : null,
    });
  });
}

const filtersCombine: ContractCase = {
  title:
    "[S78] a store finds runs by phase, client, workflow, time and search words, in any combination, newest first, each once",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const runs = createManyRuns(45);
      for (let at = 0; at < runs.length; at += 4)
        await client.write(
          changeSet({ puts: runs.slice(at, at + 4) }),
          changeSet({ puts: [runRow(`other-${at}`, { tenant: "beta", source: "wf-1" })] }),
        );
      const expect = (fits: (run: RunRow, at: number) => boolean) =>
        runs
          .filter(fits)
          .map((run) => run.id)
          .sort()
          .reverse();
      const [since, until] = [start + 40 * minute, start + 90 * minute];
      const filters: [RunsFilter, (run: RunRow, at: number) => boolean][] = [
        [{ source: "wf-1" }, (run) => run.source === "wf-1"],
        [{ source: "" }, (run) => run.source === ""],
        [{ source: "wf-1", phase: "failed" }, (run) => run.source === "wf-1" && run.phase === "failed"],
        [{ source: "wf-2", phase: "succeeded" }, (run) => run.source === "wf-2" && run.phase === "succeeded"],
        [{ since }, (run) => run.createdAt >= since],
        [{ until }, (run) => run.createdAt < until],
        [{ since, until }, (run) => run.createdAt >= since && run.createdAt < until],
        [{ since, until, phase: "running" }, (run) => run.createdAt >= since && run.createdAt < until && run.phase === "running"],
        [{ since: until, until: since }, () => false],
        [{ search: "nightly" }, (_, at) => at % 4 === 0],
        [{ search: "NIGHT blu" }, (_, at) => at % 4 === 0 && at % 2 === 0],
        [{ search: "üb" }, (_, at) => at % 4 === 2],
        [{ search: "user3" }, (_, at) => at % 6 === 3],
        [{ search: "e.task.failed" }, (run) => run.error !== null],
        [{ search: "worker node6" }, (run, at) => run.error !== null && at % 7 === 6],
        [{ search: "e2", client: "cli" }, () => false],
        [
          { search: "green", source: "wf-2", since },
          (run, at) => at % 2 === 1 && run.source === "wf-2" && run.createdAt >= since,
        ],
        [{ search: "labels" }, () => false],
        [{ search: "-- %" }, () => true],
      ];
      for (const [filter, fits] of filters)
        for (const limit of [1, 4, 99])
          assert.deepEqual(await listAllPages(client, filter, limit), expect(fits), `${JSON.stringify(filter)}, limit ${limit}`);
      for (const run of [runs[0], runs[17], runs[44]] as RunRow[]) {
        assert.deepEqual(await listAllPages(client, { search: run.id }, 3), [run.id]);
        assert.deepEqual(await listAllPages(client, { search: run.id.slice(0, -4).toUpperCase(), phase: run.phase }, 3), [
          run.id,
        ]);
        assert.deepEqual(await listAllPages(client, { search: run.id, tenant: "beta" }, 3), []);
      }
    }),
};

const searchFollowsRunChanges: ContractCase = {
  title:
    "[S79] a store finds a run by its error once it has failed and by its current words only, also after the store is reopened",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      let client = await StoreClient.open(fixture);
      const runs = Array.from({ length: 12 }, (_, at) => runRow(`r${10 + at}`, { label: at === 2 ? "odd one" : "even" }));
      await client.write(...runs.map((run) => changeSet({ puts: [run] })));
      assert.deepEqual(await listAllPages(client, { search: "lost" }, 5), []);
      const failed = runRow("r12", { ...runs[2], phase: "failed", error: '{"code":"E.LOST","message":"worker gone"}' });
      await client.write(changeSet({ puts: [failed] }));
      await client.write(changeSet({ puts: [{ ...(runs[3] as RunRow), label: "renamed" }] }));

      for (let times = 0; times < 2; times++) {
        assert.deepEqual(await listAllPages(client, { search: "lost gone" }, 5), ["r12"]);
        assert.deepEqual(await listAllPages(client, { search: "odd" }, 5), ["r12"]);
        assert.deepEqual(await listAllPages(client, { search: "renam" }, 5), ["r13"]);
        assert.equal((await listAllPages(client, { search: "even" }, 3)).length, 10);
        await client.store.close();
        client = await StoreClient.open(fixture);
      }
      const tx = await client.begin({ rows: ["run/r99"] });
      fixture.setCommitOutcome("a", client.nextTurn, "failed");
      assert.equal((await client.commit(tx, [changeSet({ puts: [runRow("r99", { label: "phantom" })] })])).outcome, "failed");
      assert.deepEqual(await listAllPages(client, { search: "phantom" }, 5), []);
    }),
};

const tasksArePaged: ContractCase = {
  title:
    "[S82] a store returns a run with its first tasks, all tasks by cursor, and one task with its run, to its own tenant only",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const tasks = ["0", "10", "4", "4*0", "4*0/7", "4*1", "5~1"].map((slot) =>
        taskRow(`r1.${slot}`, { state: `{"s":"${slot}"}` }),
      );
      const run = runRow("r1");
      const made = logEntry("acme", "run/r1", ["made"]);
      await client.write(
        changeSet({ puts: [run, ...tasks], logEntries: [made] }),
        changeSet({ puts: [runRow("r10"), taskRow("r10.0")] }),
      );
      const all = async (limit: number) => {
        const items: unknown[] = [];
        for (let after: string | undefined; ; ) {
          const cursor = after === undefined ? {} : { after };
          const page = await client.store.page({ page: "tasks", tenant: "acme", run: "r1", limit, ...cursor });
          items.push(...page.items);
          if (page.next === null) return items;
          after = page.next;
        }
      };

      for (const limit of [1, 3, 7, 9]) assert.deepEqual(await all(limit), tasks, `limit ${limit}`);
      for (const tasksMax of [0, 2, 9]) {
        const { detail } = await client.store.page({ page: "run", tenant: "acme", run: "r1", tasksMax });
        assert.deepEqual(detail, { run, tasks: tasks.slice(0, tasksMax), workflow: "" });
      }
      const brief = await client.store.page({ page: "run", tenant: "acme", run: "r1", tasksMax: 2, withoutInputs: true });
      const withoutParams = tasks.slice(0, 2).map((task) => ({ ...task, params: null }));
      assert.deepEqual(brief.detail, { run, tasks: withoutParams, workflow: "" });
      const one = (tenant: string, task: string) => client.store.page({ page: "task", tenant, task });
      assert.deepEqual(await one("acme", "r1.4*0/7"), { run, task: tasks[4], head: 1 });
      for (const [tenant, task] of [
        ["beta", "r1.0"],
        ["acme", "r1.99"],
        ["acme", "r9.0"],
        ["acme", "r1"],
      ] as const)
        assert.deepEqual(await one(tenant, task), { run: null, task: null, head: tenant === "acme" ? 1 : 0 });
      assert.deepEqual(await client.store.page({ page: "tasks", tenant: "beta", run: "r1", limit: 9 }), {
        items: [],
        next: null,
        head: 0,
      });
    }),
};

const taskRangesTakeTheRun: ContractCase = {
  title: "[S76] a store lists the tasks of a run between two ids in any phase, up to a limit, with the run locked",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const tasks = ["4", "4*0", "4*0/1", "4*0/2", "4*1", "4*1/1", "5"].map((slot, at) =>
        taskRow(`r1.${slot}`, { phase: at % 2 === 0 ? "succeeded" : "hosting" }),
      );
      await client.write(changeSet({ puts: [runRow("r1"), ...tasks] }), changeSet({ puts: [runRow("r10"), taskRow("r10.4*0")] }));
      const range = (after: string, last: string, limit = 9) => ({ of: "range", run: "r1", after, last, limit }) as const;
      const asked = [
        [range("r1.4*0", "r1.4*0/2"), [2, 3]],
        [range("r1.4*0/", "r1.4*00"), [2, 3]],
        [range("r1.", "r1.~"), [0, 1, 2, 3, 4, 5, 6]],
        [range("", "s"), [0, 1, 2, 3, 4, 5, 6]],
        [range("r1.4", "r1.5", 2), [1, 2]],
        [range("r1.4", "r1.5", 0), []],
        [range("r1.6", "r1.9"), []],
      ] as const;

      const tx = await client.begin({ lists: asked.map(([list]) => list) });
      for (const [list, places] of asked)
        assert.deepEqual(
          tx.tasks(list),
          places.map((at) => tasks[at]),
          JSON.stringify(list),
        );
      if (fixture.hasConcurrentTurns) {
        const other = await StoreClient.open(fixture, "b");
        const second = await other.begin({ rows: ["run/r1"], lists: [range("r1.", "r1.~")] });
        assert.deepEqual([second.row("run", "r1"), second.tasks(range("r1.", "r1.~"))], ["busy", []]);
        await second.loadMore([], [range("r1.4", "r1.5")]);
        assert.deepEqual(second.tasks(range("r1.4", "r1.5")), []);
        await second.abort();
      }
      const late = range("r1.4*1", "r1.5");
      await tx.loadMore([], [late]);
      assert.deepEqual(tx.tasks(late), [tasks[5], tasks[6]]);
      const answer = await client.commit(tx, [changeSet({ puts: [withColumns(tasks[1] as TaskRow, { phase: "failed" })] })]);
      assert.equal(answer.outcome, "committed");
    }),
};

const hostingTasksCountAsOpen: ContractCase = {
  title: "[S77] a store counts a task that other tasks carry out as open, in its own phase",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const tasks = [
        taskRow("r1.0", { phase: "hosting", state: "{}" }),
        taskRow("r1.1", { phase: "skipped" }),
        taskRow("r1.2", { phase: "hosting" }),
        taskRow("r1.3"),
      ];
      const made = logEntry("acme", "run/r1", ["made"]);
      await client.write(changeSet({ puts: [runRow("r1", { phase: "running" }), ...tasks], logEntries: [made] }));

      const open = { of: "open", run: "r1", after: "", limit: 9 } as const;
      const tx = await client.begin({ lists: [open] });
      assert.deepEqual(tx.tasks(open), [tasks[0], tasks[2], tasks[3]]);
      await tx.abort();
      for (const bound of [{}, { max: 9 }, { tenant: "acme" }])
        assert.deepEqual((await client.store.page({ page: "depth", ...bound })).items, [
          { tenant: "acme", phase: "hosting", tasks: 2 },
          { tenant: "acme", phase: "waiting", tasks: 1 },
        ]);
    }),
};

const taskQueuesAreCounted: ContractCase = {
  title:
    "[S83] a store lists a tenant's queues of tasks that wait for a worker, with route, task count up to a limit, and oldest ready time",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const route = (id: string, tenant = "acme"): RouteRow => ({ kind: "route", id, tenant, needs: `{"of":"${id}"}` });
      const routes = [route("a"), route("ab"), route("b", "beta"), route("idle")];
      const wait = (run: string, line: string, readyAts: readonly number[]): ChangeSet => {
        const tasks = readyAts.map((readyAt, at) => taskRow(`${run}.${at}`, { phase: "ready", line, readyAt }));
        return changeSet({
          puts: [runRow(run), ...tasks],
          enqueued: tasks.map(({ id }) => ({ task: id, tenant: "acme", cost: 1 })),
        });
      };
      await client.write(
        changeSet({ puts: routes, logEntries: [logEntry("acme", "run/r1", ["made"])] }),
        wait("r1", "r|a", [50, 40, 60, 10]),
        wait("r2", "r|a|acme/w1", [70]),
        wait("r3", "r|ab", [80]),
        wait("r4", "r|b", [90]),
        wait("r5", "k|acme/key", [5]),
        wait("r6", "r|unknown", [6]),
        changeSet({ puts: [runRow("r7"), taskRow("r7.0", { phase: "succeeded", readyAt: 1 })] }),
      );
      const [a, ab] = routes;

      assert.deepEqual(await client.store.page({ page: "lines", tenant: "acme", max: 3 }), {
        items: [
          { line: "r|a", route: a, tasks: 3, oldestReadyAt: 40 },
          { line: "r|ab", route: ab, tasks: 1, oldestReadyAt: 80 },
          { line: "r|a|acme/w1", route: a, tasks: 1, oldestReadyAt: 70 },
        ].sort((x, y) => (x.line < y.line ? -1 : 1)),
        head: 1,
      });
      assert.equal((await client.store.page({ page: "lines", tenant: "beta", max: 3 })).items.length, 1);
      assert.deepEqual((await client.store.page({ page: "lines", tenant: "none", max: 3 })).items, []);
    }),
};

const runsAreFoundByWorker: ContractCase = {
  title:
    "[A377] a store finds runs by the workers that hold or last held one of their tasks, with other filters, however many tasks there are",
  run: (createFixture) =>
    withFixture(createFixture, async (fixture) => {
      const client = await StoreClient.open(fixture);
      const runs = createManyRuns(260);
      // Every third run has a task of w1, every fifth one of w2 behind many others; ids that begin alike are other runs'.
      const tasksOf = (run: RunRow, at: number) => [
        taskRow(`${run.id}.0`, { run: run.id, phase: "succeeded", worker: at % 3 === 0 ? "acme/w1" : null }),
        ...Array.from({ length: at % 20 }, (_, n) => taskRow(`${run.id}.${n + 1}`, { run: run.id, worker: "acme/w9" })),
        ...(at % 5 === 0 ? [taskRow(`${run.id}.9/1`, { run: run.id, phase: "failed", worker: "acme/w2" })] : []),
      ];
      for (const [at, run] of runs.entries()) await client.write(changeSet({ puts: [run, ...tasksOf(run, at)] }));
      const expect = (fits: (run: RunRow, at: number) => boolean) =>
        runs
          .filter(fits)
          .map((run) => run.id)
          .sort()
          .reverse();
      const [w1, w2] = [["acme/w1"], ["acme/w2"]];
      const cases: [RunsFilter, (run: RunRow, at: number) => boolean][] = [
        [{ workers: w1 }, (_, at) => at % 3 === 0],
        [{ workers: [...w1, ...w2] }, (_, at) => at % 3 === 0 || at % 5 === 0],
        [{ workers: w2, phase: "succeeded" }, (run, at) => at % 5 === 0 && run.phase === "succeeded"],
        [{ workers: w2, client: "cli", search: "nightly" }, (_, at) => at % 5 === 0 && at % 4 === 0],
        [{ workers: w1, source: "wf-1" }, (run, at) => at % 3 === 0 && run.source === "wf-1"],
        [{ workers: ["acme/none' OR 1=1"] }, () => false],
        [{ workers: w1, tenant: "beta" }, () => false],
      ];
      for (const [filter, fits] of cases)
        for (const limit of [7, 200])
          assert.deepEqual(await listAllPages(client, filter, limit), expect(fits), `${JSON.stringify(filter)}, limit ${limit}`);
    }),
};

export const runCases: readonly ContractCase[] = [
  filtersCombine,
  runsAreFoundByWorker,
  searchFollowsRunChanges,
  tasksArePaged,
  taskRangesTakeTheRun,
  hostingTasksCountAsOpen,
  taskQueuesAreCounted,
];
