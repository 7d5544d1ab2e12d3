// Acks, results and errors. A report counts only under the current fence and from the session of the boot it was granted to.

import type { PlanNode } from "@astraflow/graph";
import { type Fault, fault } from "@astraflow/protocol";
import type {
  AckDispatchesCommand,
  AttemptReportCommand,
  ReportErrorCommand,
  ReportResultCommand,
} from "../../interface/command.ts";
import type { AnswerBody } from "../../interface/effect.ts";
import { type LeasedTask, type RunRow, runOf, type TaskRow } from "../../storage/rows.ts";
import { findDisconnectedWorker } from "../delivery/find-worker.ts";
import { releaseAttempt } from "../delivery/held-attempts.ts";
import { attemptNotHeld, sendStop } from "../delivery/session-messages.ts";
import { freeUnstoppedSlot, releaseStaleAttempt } from "../delivery/waiting-attempts.ts";
import { type ConnectedWorker, isSameAttempt, unstoppedKey } from "../fleet/connected-worker.ts";
import { announcesLeaving, knowsFences, refusesRunningTasks } from "../fleet/worker-abilities.ts";
import { RunProgress } from "../nodes/run-progress.ts";
import { isSchemaEnforced, recordWarning } from "../nodes/task-warnings.ts";
import { nodeForWorker } from "../nodes/worker-manifests.ts";
import {
  cancelByWorker,
  completeTask,
  deferRefusedTask,
  failAttempt,
  takeBackAttempt,
  withoutDelivery,
} from "../progress/end-attempt.ts";
import { isFormerHolder, withoutFormerHolder } from "../progress/former-holders.ts";
import { findResultProblem, withResultDetails } from "../progress/outcome.ts";
import { recordArtifacts } from "../queueing/artifacts.ts";
import { isEnded } from "../rows/task.ts";
import { readTaskState, withTaskState } from "../rows/task-state.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

type AttemptReport = Exclude<AttemptReportCommand, AckDispatchesCommand>;

export const applied: AnswerBody = { of: "word", applied: true };
export const repeated: AnswerBody = { of: "word", applied: false };

/** The same answer for unknown, foreign and stale attempts, so that it reveals nothing. */
function refuseStale(work: UnitOfWork, report: AttemptReport, connected: ConnectedWorker | null): Fault {
  if (connected !== null && report.fence !== null)
    sendStop(work, connected, { run: runOf(report.task), task: report.task, fence: report.fence }, attemptNotHeld);
  work.recordMetric("stale_words_total", { type: report.type });
  const message = `task ${report.task} is not held by this session under fence ${report.fence ?? "none"}; stop that attempt`;
  return fault("E.SESSION.STALE_BINDING", message, { task: report.task, fence: report.fence });
}

/** Acks stay in memory; long attempts have theirs stored later. One that names nothing held here is late: a result may overtake it. */
export function handleAcks(work: UnitOfWork, report: AckDispatchesCommand): AnswerBody {
  const connected = work.fleet.workerInSession(report.worker, report.session);
  if (connected === null) return repeated;
  for (const { task, fence } of report.held)
    if (connected.attempts.get(task)?.fence === fence || connected.unstopped?.has(unstoppedKey({ task, fence })))
      work.changeFleet({ type: "ack", worker: connected.worker, task, fence, stored: false, at: work.now });
  return applied;
}

export interface CurrentAttempt {
  readonly run: RunRow;
  readonly task: LeasedTask;
  readonly connected: ConnectedWorker;
}

/**
 * A worker that knows no fences may be running an attempt that was taken back, when the task is granted to the same process again: it refuses
 * the newer dispatch as still running there, and its outcome names the older one. That outcome is the newer attempt's: there will be
 * no other, and the task would stay leased as long as the worker sends heartbeats. Such a worker cannot be told to stop.
 */
function countsForNewerAttempt(work: UnitOfWork, connected: ConnectedWorker, task: TaskRow, fence: number): boolean {
  if (knowsFences(connected.about) || fence >= task.fence) return false;
  if (isEnded(task)) return true;
  const attempt = connected.attempts.get(task.id);
  // Kept over a join and not rechecked yet: its reports from before the join are lost, and it will repeat them.
  if (attempt?.fence !== task.fence) return false;
  if (attempt.isRunningOlder || attempt.recheckFrom !== null) return true;
  // Reported in this very turn, before the outcome: the fleet does not show it yet.
  return work.fleetChanges.some((one) => one.type === "ack" && one.isRunningOlder === true && isSameAttempt(one, attempt));
}

/** The worker will not run this attempt any more. */
const isOutcome = (report: AttemptReport): boolean =>
  report.type === "task.result" || (report.type === "task.error" && report.code !== "E.CMD.CONCURRENCY_VIOLATION");

/** The attempt of a report, if it is the sender's and current. */
export function findAttempt(work: UnitOfWork, report: AttemptReport): CurrentAttempt | Fault | "ended" {
  // A disconnected worker may still report outcomes, but not request `next`.
  const connected =
    work.fleet.workerInSession(report.worker, report.session) ??
    (report.type === "task.next" ? null : findDisconnectedWorker(work, report));
  if (connected === null) return refuseStale(work, report, null);
  const handler = isOutcome(report) ? "ended" : "may-run";
  if (handler === "ended" && connected.unstopped !== undefined) freeUnstoppedSlot(work, connected, report.task, report.fence);
  const run = work.run(runOf(report.task));
  const task = run === null || run.tenant !== report.tenant ? null : work.task(report.task);
  // An outcome that ended its task may be repeated by the worker's next process, which found it in its outbox.
  const isMine =
    run !== null &&
    task !== null &&
    task.worker === report.worker &&
    (task.boot === connected.boot || (isEnded(task) && task.fence === report.fence));
  if (
    !isMine ||
    (report.fence !== null && task.fence !== report.fence && !countsForNewerAttempt(work, connected, task, report.fence))
  ) {
    if (report.fence !== null) releaseStaleAttempt(work, connected, { task: report.task, fence: report.fence }, handler);
    if (run !== null && task !== null) recordRefusal(work, { run, task, connected }, report, "E.SESSION.STALE_BINDING");
    return refuseStale(work, report, connected);
  }
  if (isEnded(task)) {
    releaseStaleAttempt(work, connected, { task: task.id, fence: task.fence }, handler);
    return "ended";
  }
  // The same process on a newer session, perhaps of another scheduler: reports of the older one are refused.
  if (task.epoch !== connected.epoch) return refuseStale(work, report, connected);
  if (task.phase === "leased" && run.phase !== "ending") return { run, task, connected };
  const refusal = refuseStale(work, report, connected);
  // The run is ending: stop the attempt, but keep its output so that the log has no gap.
  return task.phase === "leased" && report.type === "task.feedback" ? { run, task, connected } : refusal;
}

/** Refusals of one task that are recorded; a worker that repeats itself for ever must not fill the log. */
const refusalsMax = 20;

/** An outcome that came too late is recorded beside the one that counts; other stale reports are only counted. */
function recordRefusal(
  work: UnitOfWork,
  { run, task, connected }: { readonly run: RunRow; readonly task: TaskRow; readonly connected: ConnectedWorker | null },
  report: AttemptReport,
  code: string,
): void {
  // Ignore fences this task never had.
  if (
    (report.type !== "task.result" && report.type !== "task.error") ||
    report.fence === null ||
    report.fence <= 0 ||
    report.fence > task.fence
  )
    return;
  const { refused = 0 } = readTaskState(task);
  if (refused >= refusalsMax) return;
  const counted = withTaskState(task, { refused: refused + 1 });
  const isOver = connected !== null && !isEnded(task) && isOutcome(report);
  work.put(isOver ? withoutFormerHolder(counted, connected) : counted);
  const about = { task: task.id, fence: report.fence, holds: task.fence, worker: report.worker, code };
  work.recordRunFact(run, "task.refused", { ...about, ...(code === "E.RESULT.DUPLICATE" && digestsOf(work, task, report)) });
}

/** What was kept and what was refused, so that the audit can tell them apart without storing either again. */
function digestsOf(work: UnitOfWork, { phase, result }: TaskRow, report: AttemptReport) {
  const kept = { phase, digest: result === null ? null : work.digest(result) };
  const refused =
    report.type === "task.result" ? { phase: report.status, digest: work.digest(report.result) } : { phase: "failed" };
  return { kept, refused };
}

export function handleResult(work: UnitOfWork, report: ReportResultCommand): AnswerBody | Fault {
  const found = findAttempt(work, report);
  if (found === "ended") return answerRepeatedResult(work, report);
  if (!("task" in found)) return found;
  const { run } = found;
  const progress = new RunProgress(work, run);
  const task = withResultDetails(countRepeatedRun(work, found), report, work.now);
  const attempt = found.connected.attempts.get(task.id);
  if (attempt !== undefined) work.resultLatencies.observe(run.tenant, attempt.nodeType, work.now - task.grantedAt);
  const node = work.nodeOf(run, task);
  const problem =
    report.status === "succeeded"
      ? findResultProblem(work.checks, run.tenant, nodeAtWorker(work, found, node), report.result)
      : null;
  const isWarning = problem?.code === "E.RESULT.INVALID" && !isSchemaEnforced(node);
  if ((problem !== null && !isWarning) || report.status === "failed") {
    const error = problem ?? report.error ?? { code: "E.RUNNER.FAILURE", message: `task ${task.id} failed; its result says why` };
    // The result is not stored, so its repeat is recognised by its digest.
    const failing = problem === null ? task : withTaskState(task, { unusableResult: work.digest(report.result) });
    releaseAttempt(work, failing, null);
    failAttempt(progress, failing, error, problem === null ? report.result : null);
  } else if (report.status === "cancelled") cancelByWorker(progress, task);
  else {
    recordArtifacts(work, run, task, report.artifacts ?? []);
    const how = report.status === "skipped" ? "skip" : "succeed";
    const warned = problem === null ? task : recordWarning(work, run, node, task, problem);
    completeTask(progress, warned, how, report.result, report.durationMs === null ? {} : { durationMs: report.durationMs });
  }
  return applied;
}

/**
 * A worker that has lost the outcome of an attempt produces it again when the dispatch is repeated: it acks the dispatch and does not refuse it
 * as still running. That run of the handler is an attempt of its own, under the same fence.
 */
function countRepeatedRun(work: UnitOfWork, { run, task, connected }: CurrentAttempt): LeasedTask {
  const attempt = connected.attempts.get(task.id);
  if (attempt?.isSentAgain !== true || attempt.fence !== task.fence || attempt.isRunningOlder) return task;
  const acks = work.fleetChanges.filter((change) => change.type === "ack" && isSameAttempt(change, attempt));
  const isAcked = attempt.acked || acks.length > 0;
  // By its first report a worker may show its dialect in this very turn.
  const described = work.fleetChanges.findLast((change) => change.type === "describe" && change.worker === connected.worker);
  const about = described?.type === "describe" ? described.about : connected.about;
  if (!isAcked || acks.some((ack) => "isRunningOlder" in ack) || !refusesRunningTasks(about)) return task;
  const again = { ...task, attempt: task.attempt + 1 };
  work.recordTaskFact(run, "task.repeated", again, { attempt: again.attempt });
  return again;
}

/** The node by the manifest of the worker that ran it. Hot: workers rarely have different ones. */
const nodeAtWorker = (work: UnitOfWork, { run, task, connected }: CurrentAttempt, node: PlanNode): PlanNode =>
  node.manifest === undefined ? node : nodeForWorker(work, run, node, connected.about, readTaskState(task).version);

/** The first result counts. The same again is acknowledged; a different one under the same fence is refused and recorded. */
function answerRepeatedResult(work: UnitOfWork, report: ReportResultCommand): AnswerBody | Fault {
  const task = work.existingTask(report.task);
  if (task.phase === report.status && (task.result ?? "{}") === report.result) return repeated;
  if (task.phase === "cancelled") return repeated;
  const { unusableResult } = readTaskState(task);
  if (unusableResult !== undefined && unusableResult === work.digest(report.result)) return repeated;
  return refuseDuplicate(work, task, report);
}

function refuseDuplicate(work: UnitOfWork, task: TaskRow, report: AttemptReport): Fault {
  work.recordMetric("duplicate_results_total", {});
  recordRefusal(work, { run: work.existingRun(task.run), task, connected: null }, report, "E.RESULT.DUPLICATE");
  const message = `task ${task.id} already ended as ${task.phase} under this fence; the first result is kept`;
  return fault("E.RESULT.DUPLICATE", message, { task: task.id, fence: task.fence, phase: task.phase });
}

/** An error after a result is another outcome of the same attempt, unless it says only that the worker did not run the task. */
function answerLateError(work: UnitOfWork, report: ReportErrorCommand): AnswerBody | Fault {
  const task = work.existingTask(report.task);
  const isOtherOutcome = isOutcome(report) && report.code !== "E.RUNNER.CANCELLED";
  return isOtherOutcome && task.phase === "succeeded" ? refuseDuplicate(work, task, report) : repeated;
}

/**
 * A worker that refuses a concurrency key runs this very task if it was given it before and has not reported its end. Otherwise another task
 * holds the key there.
 */
function isStillRunning({ task, connected }: CurrentAttempt, { isRepeated }: ReportErrorCommand): boolean {
  const attempt = connected.attempts.get(task.id);
  const wasSentAgain = attempt?.fence === task.fence && (attempt.isSentAgain === true || attempt.recheckFrom !== null);
  return isRepeated === true || wasSentAgain || attempt?.isRunningOlder === true || isFormerHolder(task, connected);
}

/** Where a worker was that hands back a task which it had begun; others refuse it before that. */
const begunWhere: ReadonlySet<unknown> = new Set(["worker.runner", "worker.host"]);

export function handleError(work: UnitOfWork, report: ReportErrorCommand): AnswerBody | Fault {
  const found = findAttempt(work, report);
  if (found === "ended") return answerLateError(work, report);
  if (!("task" in found)) return found;
  const { task, connected } = found;
  const { worker, code, message, details } = report;
  const error = { code, message, ...(details === undefined ? {} : { details }) };
  switch (code) {
    case "E.CMD.CONCURRENCY_VIOLATION":
      if (isStillRunning(found, report)) {
        // The newer attempt stands for the older one, whose slot it takes.
        freeUnstoppedSlot(work, connected, task.id, null);
        const attempt = { worker, task: task.id, fence: task.fence };
        work.changeFleet({ type: "ack", ...attempt, stored: false, at: work.now, isRunningOlder: true });
      } else deferRefusedTask(work, found.run, task, error);
      return applied;
    case "E.RUNNER.CANCELLED": {
      // The worker hands it back: no verdict on the task. One that is leaving may do so any number of times; any other is counted,
      // so that two sides that disagree about slots do not play the task back and forth for ever.
      const isLeaving = connected.draining || !connected.healthy;
      const until = work.now + work.settings.handBackPauseMs;
      if (!announcesLeaving(connected.about)) work.changeFleet({ type: "hand-back", worker, task: task.id, until });
      takeBackAttempt(work, found.run, isLeaving ? withoutDelivery(task) : task, error, {
        handler: "ended",
        mayRepeat: !begunWhere.has(details?.["where"]),
      });
      return applied;
    }
    default: {
      const ended = countRepeatedRun(work, found);
      releaseAttempt(work, ended, null);
      failAttempt(new RunProgress(work, found.run), ended, error, null);
      return applied;
    }
  }
}
