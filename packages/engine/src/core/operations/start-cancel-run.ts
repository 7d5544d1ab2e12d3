// Starting and cancelling runs. Answers name the run; a repeat under the same Idempotency-Key gets the same run.

import type { Plan, PlanNode } from "@astraflow/graph";
import { Fault, fault } from "@astraflow/protocol";
import type { CancelRunCommand, PresetResult, StartRunCommand } from "../../interface/command.ts";
import type { AnswerBody } from "../../interface/effect.ts";
import type { RunId, RunRow } from "../../storage/rows.ts";
import { endRunEarly } from "../nodes/end-run.ts";
import { fanOut } from "../nodes/fan-out.ts";
import { withMarks } from "../nodes/operator-marks.ts";
import { newTaskFor } from "../nodes/reach.ts";
import { RunProgress } from "../nodes/run-progress.ts";
import { runFollowUps } from "../progress/follow-up.ts";
import { isRunLive, readRunOrigin } from "../rows/run.ts";
import { nodePath, topLevel } from "../rows/task-path.ts";
import { withTaskState } from "../rows/task-state.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";
import { recallAnswer, rememberAnswer } from "./idempotency.ts";

const runAnswer = (run: RunRow, repeated: boolean): AnswerBody => ({
  of: "run",
  run: run.id,
  phase: run.phase,
  workflow: run.workflow,
  client: run.client,
  createdAt: run.createdAt,
  repeated,
});

/** `id` was chosen before the turn began, so that the run's row could be taken with the others. */
export function startRun(work: UnitOfWork, command: StartRunCommand, id: RunId): AnswerBody | Fault {
  const earlier = recallAnswer(work, command, "run");
  if (earlier !== null) return earlier instanceof Fault ? earlier : answerRepeatedStart(work, earlier.run);
  if (command.refusal !== undefined) return fault(command.refusal.code, command.refusal.message, command.refusal.details);
  rememberAnswer(work, command, { of: "run", run: id });
  const workflow = `${command.tenant}/${command.digest}`;
  if (work.workflow(workflow) === null) work.put({ kind: "workflow", id: workflow, body: command.body });
  const timeoutMs = command.timeoutMs ?? work.settings.runTimeoutMs;
  const blank: RunRow = {
    kind: "run",
    id,
    tenant: command.tenant,
    phase: "queued",
    workflow,
    client: command.client,
    band: command.priority,
    open: 0,
    verdict: null,
    cursor: null,
    createdAt: work.now,
    startedAt: null,
    endedAt: null,
    due: timeoutMs === null ? null : work.now + timeoutMs,
    error: null,
    label: command.label ?? "",
    source: command.source ?? "",
    about: command.about ?? "{}",
    marks: null,
    bindings: null,
  };
  // Read although it cannot exist: only rows that were locked may be written.
  if (work.run(id) !== null) return fault("E.INTERNAL", `run ${id} exists already`);
  const plan = work.planOf(blank);
  work.put(blank);
  const { by, digest, client } = command;
  work.recordRunFact(blank, "run.created", { by, workflow: digest, client, ...startDetails(blank) });
  const progress = new RunProgress(work, blank);
  const starts = command.presetResults === undefined ? plan.starts : insertPresetTasks(progress, plan, command.presetResults);
  progress.refresh();
  const scopeOfFanOut = { scope: topLevel, plan, starts };
  progress.unfinishedFanOuts.push(...fanOut(progress, scopeOfFanOut, [{ from: null, at: 0 }]).left);
  runFollowUps(progress, command.presetResults && starts);
  return runAnswer(progress.refresh(), false);
}

/** A start's audit row is its first fact: under which request, and of a run that repeats another, of which, from where and why. */
function startDetails(run: RunRow): Readonly<Record<string, unknown>> {
  const { corr, replayOf: repeatOf, from, reason } = readRunOrigin(run);
  return Object.fromEntries(Object.entries({ corr, repeatOf, from, reason }).filter(([, value]) => value !== undefined));
}

function answerRepeatedStart(work: UnitOfWork, id: RunId): AnswerBody | Fault {
  const run = work.run(id);
  return run === null ? fault("E.NOT_FOUND", `run ${id} is gone`) : runAnswer(run, true);
}

/**
 * Inserts the nodes whose outcome came with the start as ended, and joins after them with a lower count. Returns the start nodes of
 * the run.
 */
function insertPresetTasks(progress: RunProgress, plan: Plan, presetResults: Readonly<Record<number, PresetResult>>): number[] {
  const { work, run } = progress;
  const known = new Set(Object.keys(presetResults).map(Number));
  for (const ordinal of known) {
    const node = plan.nodes[ordinal];
    if (node === undefined || node.host !== null)
      throw new Error(`preset result for node ${ordinal}, which run ${run.id} does not have`);
    insertPresetTask(progress, node, presetResults[ordinal] as PresetResult);
  }
  const isInTheWay = (ordinal: number) => plan.nodes[ordinal]?.before.some((one) => !known.has(one));
  if ([...known].some(isInTheWay)) work.put(withMarks(run, { isGiven: true }));
  const starts: number[] = [];
  for (const node of plan.nodes) {
    if (known.has(node.ordinal) || node.host !== null) continue;
    const needs = node.before.filter((one) => !known.has(one)).length;
    if (needs === 0) starts.push(node.ordinal);
    else if (needs < node.before.length) {
      const waiting = newTaskFor(progress, nodePath(topLevel, node.ordinal), node, needs);
      work.put(waiting);
      progress.record("task.waiting", { task: waiting.id });
      progress.openedTasks += 1;
    }
  }
  return starts;
}

function insertPresetTask(progress: RunProgress, node: PlanNode, { status, result, params, why }: PresetResult): void {
  const { work, run } = progress;
  const newTask = newTaskFor(progress, nodePath(topLevel, node.ordinal), node, 0);
  const blank = withTaskState({ ...newTask, key: null, params: params ?? null }, { why });
  const type = status === "succeeded" ? "succeed" : "skip";
  work.recordTaskFact(run, `task.${status}`, work.moveTask(blank, { type, result }), { why });
}

export function cancelRun(work: UnitOfWork, command: CancelRunCommand): AnswerBody | Fault {
  const run = work.run(command.run);
  if (run === null || run.tenant !== command.tenant)
    return fault("E.NOT_FOUND", `run ${command.run} does not exist`, { run: command.run });
  if (!isRunLive(run)) return run.verdict === "cancelled" && run.phase === "ending" ? runAnswer(run, true) : refuseCancel(run);
  work.recordRunFact(run, "run.cancelling", { by: command.by, reason: command.reason });
  endRunEarly(work, run, "cancelled", { code: "E.RUNNER.CANCELLED", message: command.reason });
  return runAnswer(work.existingRun(command.run), false);
}

/** A run that is being stopped because it failed will end as failed: a cancel cannot change that any more. */
function refuseCancel({ id, phase }: RunRow): Fault {
  const state = phase === "ending" ? "has failed and its open tasks are being stopped" : `is ${phase}`;
  return fault("E.RUN.TERMINAL", `run ${id} ${state}; nothing is left to cancel`, { run: id, phase });
}
