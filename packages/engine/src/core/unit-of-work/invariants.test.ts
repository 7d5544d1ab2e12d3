// Each rule by itself, on a unit of work without a store. How a broken one ends is in test/engine/turns/invariants.test.ts.
import { describe, expect, it } from "vitest";
import type { Row, RowColumns, RunPhase, RunRow, TaskRow, TaskRowPhase, WorkerPhase } from "../../storage/rows.ts";
import { sampleContext, sampleRun, sampleTask, sampleWorker, withColumns } from "../../testing/sample-rows.ts";
import { InvariantBroken } from "../rows/invariant-broken.ts";
import { findMisfit } from "../rows/row-shapes.ts";
import { runMoves } from "../rows/run.ts";
import { taskMoves } from "../rows/task.ts";
import { workerMoves } from "../rows/worker.ts";
import { BrokenChangeSet } from "./change-sets.ts";
import { UnitOfWork } from "./unit-of-work.ts";

const run = sampleRun("r-1", { phase: "running" });
const leased = sampleTask("r-1.0", { phase: "leased", worker: "acme/w", boot: "b", epoch: 1, fence: 7 });

function workWith(rows: readonly Row[], checksFences = true): UnitOfWork {
  const row = (kind: Row["kind"], id: string): Row | null => rows.find((one) => one.kind === kind && one.id === id) ?? null;
  return new UnitOfWork(
    { now: 1_000, row, tasks: () => [], peekWorker: () => null },
    sampleContext({ forgetsFence: !checksFences }),
  );
}

/** Reads a task and writes it changed. */
function rewrite(before: TaskRow, change: Partial<RowColumns<TaskRow>>, checksFences = true): () => void {
  const work = workWith([run, before], checksFences);
  const task = work.task(before.id) as TaskRow;
  return () => work.put(withColumns(task, change));
}

describe("what a turn may write", () => {
  it("[U16] the unit of work refuses to write counts below zero", () => {
    expect(() => workWith([run]).put({ ...run, open: -1 })).toThrow(InvariantBroken);
    expect(rewrite(leased, { needs: -1 })).toThrow("open count");
  });

  it("[U19] the unit of work refuses to write a phase that the move table does not allow, even without a transition", () => {
    expect(rewrite(leased, { phase: "waiting", fence: 8 })).toThrow("legal move");
    expect(rewrite(sampleTask(leased.id, { phase: "succeeded" }), { phase: "leased", fence: 8 })).toThrow("legal move");
    expect(rewrite(leased, { phase: "succeeded" })).not.toThrow();
    const ended = workWith([sampleRun(run.id, { phase: "failed" })]);
    expect(ended.run(run.id)?.phase).toBe("failed");
    expect(() => ended.put(run)).toThrow("legal move");
  });

  it("[U20] the unit of work refuses a fence that falls, or that stays while the holder changes, except in the forgetsFence mutant", () => {
    expect(rewrite(leased, { fence: 6 })).toThrow("fence rises");
    expect(rewrite(leased, { phase: "ready", worker: null })).toThrow("fence rises");
    expect(rewrite(leased, { phase: "ready", worker: null, fence: 8 })).not.toThrow();
    expect(rewrite(leased, { phase: "ready", worker: null }, false)).not.toThrow();
  });

  it("[U17] the unit of work refuses a row under another root, and a task of a run that does not exist", () => {
    const moved = workWith([run, leased]);
    moved.task(leased.id);
    moved.put({ ...leased, run: "r-2" });
    expect(() => moved.changeSets()).toThrow(BrokenChangeSet);

    const orphan = workWith([]);
    orphan.insert(sampleTask("r-9.0", { phase: "ready", line: "r|route-1" }));
    expect(() => orphan.changeSets()).toThrow("change set has its root");
  });

  it("[U18] the unit of work refuses rows and facts of two tenants in one change set", () => {
    const work = workWith([run]);
    work.savepoint();
    work.put(run);
    work.put({ kind: "key", id: "other/k", limit: 1, holders: [], due: null });
    expect(() => work.changeSets()).toThrow("one tenant");

    const facts = workWith([run]);
    facts.savepoint();
    facts.put(run);
    facts.recordFact("other", "worker/other/w", "worker.left", {});
    expect(() => facts.changeSets()).toThrow("one tenant");
  });

  it("[U18] the unit of work puts rows of two tenants into separate change sets when no command connects them", () => {
    const work = workWith([run]);
    for (const row of [run, { kind: "key", id: "other/k", limit: 1, holders: [], due: null } as const]) {
      work.savepoint();
      work.put(row);
    }
    expect(work.changeSets().units).toHaveLength(2);
  });

  it("[U18] the unit of work builds change sets without tying the run of a queued task to the last command of the turn", () => {
    const queued = sampleTask("r-1.0", { phase: "ready", line: "r|route-1" });
    const work = workWith([run]);
    for (const row of [run, queued, { ...queued, id: "r-2.0", run: "r-2" }, sampleRun("r-2", { tenant: "other" })]) {
      work.savepoint();
      work.put(row);
    }

    expect(work.changeSets().units.map((unit) => unit.roots)).toEqual([["run/r-1"], ["run/r-2"]]);
  });
});

describe("what a turn may read", () => {
  const taskPhases = Object.keys(taskMoves) as TaskRowPhase[];
  const allPhases: readonly Row[] = [
    ...taskPhases.map((phase): TaskRow => sampleTask("r-1.0", { phase })),
    ...(Object.keys(runMoves) as RunPhase[]).map((phase) => sampleRun("r-1", { phase })),
    ...(Object.keys(workerMoves) as WorkerPhase[]).map((phase) => sampleWorker("acme/w", { phase })),
  ];

  it("[U22] the row check accepts rows of every phase whose fields fit the phase", () => {
    expect(allPhases.map(findMisfit)).toEqual(allPhases.map(() => null));
  });

  it("[U22] the unit of work refuses to read a row that lacks what its phase requires, or has what its phase excludes", () => {
    const damaged = [
      withColumns<TaskRow>(leased, { worker: null }),
      withColumns<TaskRow>(leased, { line: "r|x" }),
      withColumns<TaskRow>(sampleTask("r-1.0", { phase: "ready" }), { line: null }),
      withColumns<TaskRow>(sampleTask("r-1.0", { phase: "parked" }), { line: null }),
      withColumns<TaskRow>(sampleTask("r-1.0", { phase: "succeeded" }), { endedAt: null }),
      withColumns<TaskRow>(leased, { phase: "bogus" as TaskRowPhase }),
    ];
    for (const row of damaged) {
      expect(() => workWith([run, row]).task(row.id)).toThrow("row shape");
      expect(workWith([run, row]).run(run.id)).toBe(run);
    }
    const unstarted = withColumns<RunRow>(run, { startedAt: null });
    expect(() => workWith([unstarted]).run(run.id)).toThrow("run r-1 is running and its startedAt is null");
  });
});
