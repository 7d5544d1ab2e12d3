// Finds the violations of a crash test: compares the callers' answers, what both schedulers show, the log, and the workers' own journals. A pure function
// of that evidence.

import type { Run, RunEvent } from "@astraflow/protocol";
import { type JournalEntry, tasksPerRun } from "./jobs.ts";
import type { AcceptedJob } from "./retrying-api-client.ts";

export interface CrashTestEvidence {
  readonly accepted: readonly AcceptedJob[];
  /** The list of runs as each scheduler shows it. */
  readonly lists: readonly (readonly Run[])[];
  /** Every accepted run with its nodes, and its facts. */
  readonly runs: ReadonlyMap<string, { readonly run: Run; readonly facts: readonly RunEvent[] }>;
  /** Positions of the whole log of the tenant, in the order a reader sees them, and its head. */
  readonly log: { readonly positions: readonly number[]; readonly head: number };
  readonly executions: readonly JournalEntry[];
}

/** One sentence a violation; none is what was promised. */
export function findViolations(evidence: CrashTestEvidence): string[] {
  return [
    ...checkIdempotencyKeys(evidence),
    ...checkRunLists(evidence),
    ...evidence.accepted.flatMap((one) => checkRun(one, evidence)),
    ...checkLogPositions(evidence),
    ...checkExecutions(evidence),
  ];
}

const runIdOf = (accepted: AcceptedJob): string => [...accepted.runIds][0] ?? "";

function checkIdempotencyKeys({ accepted }: CrashTestEvidence): string[] {
  const twice = accepted.filter((one) => one.runIds.size !== 1);
  const shared = accepted.length - new Set(accepted.map(runIdOf)).size;
  return [
    ...twice.map((one) => `the key ${one.job.key} was answered with ${one.runIds.size} runs: ${[...one.runIds].join(", ")}`),
    ...(shared > 0 ? [`${shared} keys share a run with another one`] : []),
  ];
}

/** No run is lost, none is unexpected, both schedulers show the same, and all runs have ended. */
function checkRunLists({ accepted, lists }: CrashTestEvidence): string[] {
  const wanted = new Set(accepted.map(runIdOf));
  return lists.flatMap((runs, at) => {
    const measured = new Set(runs.map((run) => run.runId));
    const open = runs.filter((run) => run.status === "queued" || run.status === "running");
    return [
      ...[...wanted].filter((id) => !measured.has(id)).map((id) => `scheduler ${at} has lost the accepted run ${id}`),
      ...[...measured].filter((id) => !wanted.has(id)).map((id) => `scheduler ${at} has an unexpected run: ${id}`),
      ...(measured.size === runs.length ? [] : [`scheduler ${at} lists ${runs.length - measured.size} runs twice`]),
      ...open.map((run) => `scheduler ${at} shows run ${run.runId} as ${run.status} at the end`),
    ];
  });
}

/** It ended once, as expected: each task succeeded exactly once in the log, and the value that came out is the one that must. */
function checkRun(accepted: AcceptedJob, { runs }: CrashTestEvidence): string[] {
  const id = runIdOf(accepted);
  const found = runs.get(id);
  if (found === undefined) return [`run ${id} cannot be read`];
  const { run, facts } = found;
  const problems: string[] = [];
  const value = run.nodes?.at(-1)?.result?.["value"];
  if (run.status !== "succeeded") problems.push(`run ${id} is ${run.status}: ${JSON.stringify(run.error)}`);
  else if (value !== accepted.job.value)
    problems.push(`run ${id} ended with ${String(value)}, not with ${accepted.job.value}: a value was lost or counted twice`);
  for (const type of ["run.created", "run.succeeded"]) {
    const count = facts.filter((fact) => fact.type === type).length;
    if (count !== 1) problems.push(`run ${id} has ${count} facts ${type}`);
  }
  const succeeded = facts.filter((fact) => fact.type === "task.succeeded").map((fact) => String(fact.data["task"]));
  if (succeeded.length !== tasksPerRun || new Set(succeeded).size !== tasksPerRun)
    problems.push(`run ${id}: ${succeeded.length} successes of ${new Set(succeeded).size} tasks in the log, not ${tasksPerRun}`);
  if (!facts.every((fact, at) => at === 0 || fact.position > (facts[at - 1]?.position ?? 0)))
    problems.push(`run ${id}: its facts are not in the order of their positions`);
  return problems;
}

/** Positions run from 1 to the head without a gap, and every fact of a run has a position of its own. */
function checkLogPositions({ log, runs }: CrashTestEvidence): string[] {
  const gap = log.positions.findIndex((position, at) => position !== at + 1);
  const shown = [...runs.values()].flatMap(({ facts }) => facts.map((fact) => fact.position));
  const known = new Set(log.positions);
  const strays = shown.filter((position) => !known.has(position)).length;
  return [
    ...(gap >= 0 ? [`the log has ${log.positions[gap]} where ${gap + 1} must stand`] : []),
    ...(gap < 0 && log.positions.length !== log.head ? [`the log ends at ${log.positions.length}, its head is ${log.head}`] : []),
    ...(new Set(shown).size === shown.length ? [] : [`${shown.length - new Set(shown).size} positions belong to two facts`]),
    ...(strays > 0 ? [`${strays} facts of runs are not in the log`] : []),
  ];
}

/** What succeeded was done by somebody, and nothing was done that no run asked for. */
function checkExecutions({ accepted, executions }: CrashTestEvidence): string[] {
  const ended = new Set(executions.filter((one) => one.what === "end").map((one) => one.task));
  const wanted = new Set(
    accepted.flatMap((one) => Array.from({ length: tasksPerRun }, (_, ordinal) => `${runIdOf(one)}.${ordinal}`)),
  );
  const undone = [...wanted].filter((task) => !ended.has(task));
  const strange = [...new Set(executions.map((one) => one.task))].filter((task) => !wanted.has(task));
  return [
    ...(undone.length > 0 ? [`${undone.length} tasks were never executed to their end, such as ${undone[0]}`] : []),
    ...(strange.length > 0 ? [`${strange.length} tasks were executed that no accepted run has, such as ${strange[0]}`] : []),
  ];
}

/** Executions beyond the one that each task needs: by re-delivery after a kill, and what became of them. */
export function countRepeatedExecutions({ executions }: Pick<CrashTestEvidence, "executions">) {
  const tasks = new Set(executions.map((one) => one.task)).size;
  const count = (what: JournalEntry["what"]) => executions.filter((one) => one.what === what).length;
  return {
    executions: count("start"),
    repeats: count("start") - tasks,
    stopped: count("stop"),
    resultsInVain: count("end") - new Set(executions.filter((one) => one.what === "end").map((one) => one.task)).size,
  };
}
