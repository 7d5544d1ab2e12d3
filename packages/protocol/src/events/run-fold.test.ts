import { describe, expect, it } from "vitest";
import { nodeStatusByPhase, type RunFact, RunFold, type RunSnapshot, taskStateChangeOf } from "./run-fold.ts";

const foldRun = (before: RunSnapshot | null, facts: readonly RunFact[]) => new RunFold(before).add(facts).finish();

const facts = (...entries: readonly (readonly [string, Record<string, unknown>?])[]): RunFact[] =>
  entries.map(([type, data = {}], at) => ({ position: at + 1, at: (at + 1) * 10, type, data }));
const task = "r.0";
const taskOf = (snapshot: RunSnapshot) => snapshot.tasks.get(task);

const factsOfRun = facts(
  ["run.created", { by: "ann" }],
  ["task.ready", { task }],
  ["run.started"],
  ["task.granted", { task, fence: 5, attempt: 1, worker: "t/w" }],
  ["task.running", { task, fence: 5 }],
  ["task.feedback", { task, fence: 5, stage: "half", progress: 0.5, metrics: { rows: 1 } }],
  ["task.retrying", { task, fence: 5, nextFence: 7, delayMs: 100, error: { code: "E.TIMEOUT", message: "late" } }],
  ["task.granted", { task, fence: 8, attempt: 2, worker: "t/v" }],
  ["task.artifact", { task, resource: "a", type: "file", worker: "t/v", expiresAt: 900 }],
  ["task.failed", { task, fence: 8, worker: "t/v", error: { code: "E.RUNNER.FAILURE", message: "broken" } }],
  ["run.failed", { error: { code: "E.RUNNER.FAILURE", message: "broken" } }],
  ["task.refused", { task, fence: 5, holds: 8 }],
  ["task.feedback", { task, fence: 8, message: "too late", isLate: true }],
  ["artifact.removed", { resource: "a", reason: "expired" }],
);
const snapshotAt = (position: number) => foldRun(null, factsOfRun.slice(0, position));

describe("RunFold", () => {
  it("[C26] the run fold gives the run and its tasks as the facts up to any position describe them", () => {
    expect(snapshotAt(0)).toMatchObject({ status: null, open: 0, position: 0 });
    expect(snapshotAt(2)).toMatchObject({ status: "queued", createdAt: 10, startedAt: null, open: 1 });
    expect(taskOf(snapshotAt(2))).toMatchObject({ phase: "ready", readyAt: 20, worker: null });
    expect(taskOf(snapshotAt(4))).toMatchObject({
      phase: "leased",
      fence: 5,
      attempt: 1,
      worker: "t/w",
      isAcked: false,
      grantedAt: 40,
    });
    expect(taskOf(snapshotAt(6))).toMatchObject({
      isAcked: true,
      feedback: { stage: "half", progress: 0.5, metrics: { rows: 1 }, at: 60 },
    });
    expect(taskOf(snapshotAt(7))).toMatchObject({
      phase: "parked",
      fence: 7,
      worker: null,
      feedback: null,
      error: null,
      grantedAt: 40,
    });
    expect(snapshotAt(10)).toMatchObject({ status: "running", open: 0 });
    expect(snapshotAt(11)).toMatchObject({ status: "failed", endedAt: 110, error: { code: "E.RUNNER.FAILURE" } });
  });

  it("[C26] the run fold keeps the warnings of a task, also those recorded before it is ready", () => {
    const warning = (field: string) => ({ code: "E.PARAMS.INVALID", message: "no", field });
    const warned = facts(
      ["run.created"],
      ["task.warning", { task, fence: 0, node: "n", ...warning("/parameters/a") }],
      ["task.granted", { task, fence: 5, attempt: 1, worker: "t/w" }],
      ["task.warning", { task, fence: 5, node: "n", ...warning("/results/b") }],
      ["task.succeeded", { task, fence: 5 }],
    );

    expect(taskOf(foldRun(null, warned.slice(0, 3)))?.warnings).toEqual([warning("/parameters/a")]);
    expect(taskOf(foldRun(null, warned))?.warnings).toEqual([warning("/parameters/a"), warning("/results/b")]);
    expect(foldRun(null, warned).open).toBe(0);
  });

  it("[C26] the run fold parks a task that its worker refused, and gives the number of its attempt to the next grant", () => {
    const refused = facts(
      ["run.created"],
      ["task.granted", { task, fence: 1, attempt: 1, worker: "t/w" }],
      ["task.requeued", { task, fence: 2, attempt: 0, delayMs: 1_000 }],
      ["task.granted", { task, fence: 3, attempt: 1, worker: "t/w", isRedelivery: true }],
    );

    expect(taskOf(foldRun(null, refused.slice(0, 3)))).toMatchObject({ phase: "parked", attempt: 0, worker: null });
    expect(taskOf(foldRun(null, refused))).toMatchObject({ phase: "leased", attempt: 1, fence: 3 });
  });

  it("[C26] the run fold dates a task as ready from the first fact that made it ready, though a later fact repeats it", () => {
    const again = facts(["run.created"], ["task.ready", { task }], ["task.ready", { task }]);

    expect(taskOf(foldRun(null, again))).toMatchObject({ phase: "ready", readyAt: 20 });
    const requeued = facts(
      ["run.created"],
      ["task.granted", { task, fence: 1, attempt: 1, worker: "t/w" }],
      ["task.requeued", { task, fence: 2 }],
      ["task.ready", { task }],
    );
    expect(taskOf(foldRun(null, requeued))).toMatchObject({ phase: "ready", readyAt: 30, fence: 2 });
  });

  it("[C26] the run fold lets no fact that follows a task's end change the task", () => {
    const ended = taskOf(snapshotAt(10));

    expect(ended).toMatchObject({ phase: "failed", endedAt: 100, error: { message: "broken" }, artifacts: [{ resource: "a" }] });
    expect(taskOf(snapshotAt(factsOfRun.length))).toEqual(ended);
    expect(snapshotAt(factsOfRun.length).removed.get("a")).toBe("expired");
  });

  it("[C26] the run fold gives the same snapshot wherever the facts are split, and does not change the snapshot it continues from", () => {
    const whole = foldRun(null, factsOfRun);
    for (let cut = 0; cut <= factsOfRun.length; cut++) {
      const before = foldRun(null, factsOfRun.slice(0, cut));
      const seen = structuredClone(before);

      expect(foldRun(before, factsOfRun.slice(cut))).toEqual(whole);
      expect(before).toEqual(seen);
    }
  });

  it("[C26] the run fold keeps a container hosting while it retries an iteration, and ends a frame with the status in its event", () => {
    const snapshot = foldRun(
      null,
      facts(
        ["run.created"],
        ["task.hosting", { task }],
        ["frame.opened", { task: "r.0*0", index: 3 }],
        ["frame.ended", { task: "r.0*0", index: 3, status: "failed", error: { code: "E.TIMEOUT", message: "late" } }],
        ["task.retrying", { task, fence: 0, frame: 3, delayMs: 10 }],
      ),
    );

    expect(taskOf(snapshot)).toMatchObject({ phase: "hosting", fence: 0 });
    expect(snapshot.tasks.get("r.0*0")).toMatchObject({ phase: "failed", iteration: 3, error: { code: "E.TIMEOUT" } });
  });

  it("[A291] the status that events give a node is the status of its phase", () => {
    const words: Record<string, string> = { dispatching: "running", completed: "succeeded" };
    const types = ["waiting", "ready", "parked", "requeued", "retrying", "hosting", "granted", "running", "rebound"];
    const ends = ["succeeded", "failed", "cancelled", "skipped"];
    const turns = [...types, ...ends].map((type) => ({ type, ...taskStateChangeOf({ type: `task.${type}`, data: {} }) }));

    for (const { type, status, phase } of turns)
      expect([type, words[status ?? ""] ?? status]).toEqual([type, phase && nodeStatusByPhase[phase]]);
    expect(taskStateChangeOf({ type: "task.retrying", data: { frame: 1, delayMs: 5 } })).toEqual({
      phase: "hosting",
      status: "running",
    });
  });
});
