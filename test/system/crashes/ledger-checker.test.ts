import { describe, expect, it } from "vitest";
import { createJobs, type JournalEntry, tasksPerRun } from "../../../bench/crash-test/jobs.ts";
import { type CrashTestEvidence, countRepeatedExecutions, findViolations } from "../../../bench/crash-test/violations.ts";

type FoundRun = CrashTestEvidence["runs"] extends ReadonlyMap<string, infer F> ? F : never;

/** Two runs that went as they must: what everybody would show then. */
function makeEvidence(): CrashTestEvidence & { runs: Map<string, FoundRun>; executions: JournalEntry[] } {
  const runs = new Map<string, FoundRun>();
  const executions: JournalEntry[] = [];
  let position = 0;
  const accepted = createJobs(2 * tasksPerRun).map((job, at) => {
    const runId = `run-${at}`;
    const tasks = Array.from({ length: tasksPerRun }, (_, ordinal) => `${runId}.${ordinal}`);
    const fact = (type: string, data: Record<string, string> = {}) => ({ position: ++position, type, at: "", runId, data });
    const facts = [fact("run.created"), ...tasks.map((task) => fact("task.succeeded", { task })), fact("run.succeeded")];
    const nodes = tasks.map((taskId) => ({ nodeId: taskId, taskId, status: "succeeded" as const, result: { value: job.value } }));
    runs.set(runId, { run: { runId, status: "succeeded", definitionHash: "d", clientId: "c", nodes }, facts });
    for (const task of tasks) executions.push({ what: "start", task, attempt: 1 }, { what: "end", task, attempt: 1 });
    return { job, runIds: new Set([runId]) };
  });
  const list = [...runs.values()].map(({ run }) => run);
  const positions = Array.from({ length: position }, (_, at) => at + 1);
  return { accepted, runs, executions, lists: [list, list], log: { positions, head: position } };
}

const problemsAfterChange = (id: string, alter: (found: FoundRun) => FoundRun): string[] => {
  const evidence = makeEvidence();
  const found = evidence.runs.get(id);
  if (found === undefined) throw new Error(`there is no ${id}`);
  evidence.runs.set(id, alter(found));
  return findViolations(evidence);
};

describe("the judge of the ledger", () => {
  it("[O27] the ledger checker finds nothing if everything ended once, even after re-deliveries", () => {
    const evidence = makeEvidence();
    evidence.executions.push({ what: "start", task: "run-0.3", attempt: 2 }, { what: "end", task: "run-0.3", attempt: 2 });

    expect(findViolations(evidence)).toEqual([]);
    expect(countRepeatedExecutions(evidence)).toEqual({ executions: 21, repeats: 1, stopped: 0, resultsInVain: 1 });
  });

  it("[O27] the ledger checker finds a lost run, an unexpected run, a run that is still open, and two runs under one key", () => {
    const evidence = makeEvidence();
    const [list = []] = evidence.lists;
    const [first, second] = evidence.accepted;
    const stray = { ...list[0], runId: "stray", status: "running" as const, definitionHash: "d", clientId: "c" };
    if (first === undefined || second === undefined) throw new Error("there are two");

    expect(findViolations({ ...evidence, lists: [list, list.slice(1)] })).toEqual([
      expect.stringContaining("lost the accepted run run-0"),
    ]);
    expect(findViolations({ ...evidence, lists: [[...list, stray], list] })).toEqual([
      expect.stringContaining("has an unexpected run: stray"),
      expect.stringContaining("stray as running"),
    ]);
    expect(findViolations({ ...evidence, accepted: [{ ...first, runIds: new Set(["run-0", "run-9"]) }, second] })).toEqual([
      expect.stringContaining("answered with 2 runs"),
    ]);
  });

  it("[O27] the ledger checker finds a task that succeeded twice or never, a wrong value and a failed run", () => {
    const twice = problemsAfterChange("run-0", ({ run, facts }) => ({
      run,
      facts: facts.map((fact, at) => (at === 2 ? { ...fact, data: { task: "run-0.0" } } : fact)),
    }));
    const wrong = problemsAfterChange("run-0", ({ run, facts }) => ({
      run: { ...run, nodes: run.nodes?.map((node) => ({ ...node, result: { value: 11 } })) ?? [] },
      facts,
    }));
    const failed = problemsAfterChange("run-1", ({ run, facts }) => ({
      run: { ...run, status: "failed" },
      facts: facts.slice(0, -1),
    }));

    expect(twice).toEqual([expect.stringContaining("10 successes of 9 tasks")]);
    expect(wrong).toEqual([expect.stringContaining("ended with 11, not with 10")]);
    expect(failed).toEqual([expect.stringContaining("run-1 is failed"), expect.stringContaining("0 facts run.succeeded")]);
  });

  it("[O27] the ledger checker finds gaps in the log, positions used twice and facts out of order", () => {
    const { log, ...rest } = makeEvidence();
    const swapped = problemsAfterChange("run-0", ({ run, facts }) => ({ run, facts: [...facts].reverse() }));
    const doubled = problemsAfterChange("run-1", ({ run, facts }) => ({
      run,
      facts: facts.map((fact, at) => (at === 0 ? { ...fact, position: 1 } : fact)),
    }));

    expect(findViolations({ ...rest, log: { ...log, positions: log.positions.filter((one) => one !== 5) } })).toEqual([
      "the log has 6 where 5 must stand",
      "1 facts of runs are not in the log",
    ]);
    expect(findViolations({ ...rest, log: { ...log, head: log.head + 1 } })).toEqual([expect.stringContaining("its head is 25")]);
    expect(swapped).toEqual([expect.stringContaining("not in the order of their positions")]);
    expect(doubled).toEqual(["1 positions belong to two facts"]);
  });

  it("[O27] the ledger checker finds tasks that were never executed and executions that belong to no accepted run", () => {
    const { executions, ...rest } = makeEvidence();

    expect(findViolations({ ...rest, executions: executions.filter((one) => one.task !== "run-0.7") })).toEqual([
      expect.stringContaining("1 tasks were never executed to their end, such as run-0.7"),
    ]);
    expect(findViolations({ ...rest, executions: [...executions, { what: "start", task: "run-7.0", attempt: 1 }] })).toEqual([
      expect.stringContaining("no accepted run has, such as run-7.0"),
    ]);
  });
});
