// Every checker by its name, with the invariant it checkers. A name is part of the file name of a regression, so it stays.

import type { Checker, CheckerContext } from "../checking/checker.ts";
import type { MergedLog } from "../checking/merged-log.ts";
import type { RequestedRuns } from "../checking/requested-runs.ts";
import { checkLedgerBalances } from "./log/ledger-balances.ts";
import { checkLogHasNoGaps } from "./log/log-has-no-gaps.ts";
import { checkOperatorActionsAreAudited } from "./log/operator-actions-are-audited.ts";
import { checkReadsAgreeWithLog } from "./log/reads-agree-with-log.ts";
import { checkRunSnapshotsMatchEarlierReads } from "./log/run-snapshots-match-earlier-reads.ts";
import { checkWorkerCommandsEndOnce } from "./log/worker-commands-end-once.ts";
import { checkAcceptedRunsAreKept } from "./runs/accepted-runs-are-kept.ts";
import { checkAnswersAreDurable } from "./runs/answers-are-durable.ts";
import { checkCancelledRunsStop } from "./runs/cancelled-runs-stop.ts";
import { checkEndedWorkNeverChanges } from "./runs/ended-work-never-changes.ts";
import { checkEverythingEndsAfterFaults } from "./runs/everything-ends-after-faults.ts";
import { checkNoProcessCrashesOrSpins } from "./runs/no-process-crashes-or-spins.ts";
import { checkRunViewsAddUp } from "./runs/run-views-add-up.ts";
import { checkRunsAndTasksEndOnce } from "./runs/runs-and-tasks-end-once.ts";
import { checkAcksAreTruthful } from "./sessions/acks-are-truthful.ts";
import { checkDrainingWorkerGetsNoWork } from "./sessions/draining-worker-gets-no-work.ts";
import { checkInFlightWindowIsKept } from "./sessions/in-flight-window-is-kept.ts";
import { checkOneSessionPerWorker } from "./sessions/one-session-per-worker.ts";
import { checkResumeRequestsAreAnswered } from "./sessions/resume-requests-are-answered.ts";
import { checkReturningWorkerKeepsReportedAttempts } from "./sessions/returning-worker-keeps-reported-attempts.ts";
import { checkSessionFramesActInOrder } from "./sessions/session-frames-act-in-order.ts";
import { checkUnackedResultsAreKept } from "./sessions/unacked-results-are-kept.ts";
import { checkUnackedResultsAreResent } from "./sessions/unacked-results-are-resent.ts";
import { checkConcurrencyLimitsHold } from "./tasks/concurrency-limits-hold.ts";
import { checkDeadlinesFireOnTime } from "./tasks/deadlines-fire-on-time.ts";
import { checkDeliveryLimitIsKept } from "./tasks/delivery-limit-is-kept.ts";
import { checkFailedTasksBecomeDeadLetters } from "./tasks/failed-tasks-become-dead-letters.ts";
import { checkFirstResultWins } from "./tasks/first-result-wins.ts";
import { checkGrantsGoToEligibleWorkers } from "./tasks/grants-go-to-eligible-workers.ts";
import { checkNoIdleSlotWhileWorkWaits } from "./tasks/no-idle-slot-while-work-waits.ts";
import { checkOneLeasePerTask } from "./tasks/one-lease-per-task.ts";
import { checkStaleReportsChangeNothing } from "./tasks/stale-reports-change-nothing.ts";
import { checkUnackedGrantsAreTakenBack } from "./tasks/unacked-grants-are-taken-back.ts";
import { checkContainerIterationsAreComplete } from "./workflows/container-iterations-are-complete.ts";
import { checkMiddlewareCallsAreAnsweredOnce } from "./workflows/middleware-calls-are-answered-once.ts";
import { checkOutputChunksHaveNoGaps } from "./workflows/output-chunks-have-no-gaps.ts";
import { checkPinnedWorkRunsAtItsWorker } from "./workflows/pinned-work-runs-at-its-worker.ts";
import { checkResultsMatchWorkflowModel } from "./workflows/results-match-workflow-model.ts";
import { checkUnknownPackagesAreRefused } from "./workflows/unknown-packages-are-refused.ts";

interface CheckerDefinition {
  readonly invariant: string;
  /** Has something to judge only where workflows have chains and containers. */
  readonly isNested?: true;
  readonly make: (
    context: CheckerContext,
    sources: { readonly requestedRuns: RequestedRuns; readonly mergedLog: MergedLog },
  ) => Checker;
}

export const checkers = {
  "no-loss": { invariant: "I1", make: checkAcceptedRunsAreKept },
  unacked: { invariant: "I2", make: checkUnackedGrantsAreTakenBack },
  "single-lease": { invariant: "I3", make: checkOneLeasePerTask },
  fencing: { invariant: "I4", make: checkStaleReportsChangeNothing },
  once: { invariant: "I5", make: (context, { requestedRuns }) => checkRunsAndTasksEndOnce(context, requestedRuns) },
  terminal: { invariant: "I6", make: checkEndedWorkNeverChanges },
  duplicates: { invariant: "I7", make: checkFirstResultWins },
  durable: { invariant: "I8", make: checkAnswersAreDurable },
  kept: { invariant: "I9", make: checkUnackedResultsAreKept },
  deliveries: { invariant: "I12", make: checkDeliveryLimitIsKept },
  timers: { invariant: "I13", make: checkDeadlinesFireOnTime },
  cancel: { invariant: "I14", make: checkCancelledRunsStop },
  conservation: { invariant: "I15", make: (context, { requestedRuns }) => checkRunViewsAddUp(context, requestedRuns) },
  "single-flight": { invariant: "I16", make: checkConcurrencyLimitsHold },
  "work-conserving": { invariant: "I17", make: checkNoIdleSlotWhileWorkWaits },
  eligibility: { invariant: "I18", make: checkGrantsGoToEligibleWorkers },
  "in-order": { invariant: "I19", make: checkSessionFramesActInOrder },
  owed: { invariant: "I19", make: checkUnackedResultsAreResent },
  verdicts: { invariant: "I19", make: checkResumeRequestsAreAnswered },
  window: { invariant: "I20", make: checkInFlightWindowIsKept },
  acks: { invariant: "I21", make: checkAcksAreTruthful },
  "one-session": { invariant: "I22", make: checkOneSessionPerWorker },
  binding: { invariant: "I23", make: checkReturningWorkerKeepsReportedAttempts },
  drain: { invariant: "I24", make: checkDrainingWorkerGetsNoWork },
  soundness: { invariant: "I37", make: checkNoProcessCrashesOrSpins },
  convergence: { invariant: "I39", make: checkEverythingEndsAfterFaults },
  positions: { invariant: "I42", make: checkLogHasNoGaps },
  reads: {
    invariant: "I42",
    make: (context, { requestedRuns, mergedLog }) => checkReadsAgreeWithLog(context, mergedLog, requestedRuns),
  },
  frames: { invariant: "I43", isNested: true, make: checkContainerIterationsAreComplete },
  chains: { invariant: "I44", isNested: true, make: checkMiddlewareCallsAreAnsweredOnce },
  printed: { invariant: "I45", make: checkOutputChunksHaveNoGaps },
  audit: { invariant: "I46", make: checkOperatorActionsAreAudited },
  pinned: { invariant: "I47", isNested: true, make: checkPinnedWorkRunsAtItsWorker },
  letters: { invariant: "I48", make: checkFailedTasksBecomeDeadLetters },
  outcome: {
    invariant: "I49",
    isNested: true,
    make: (context, { requestedRuns }) => checkResultsMatchWorkflowModel(context, requestedRuns),
  },
  moments: { invariant: "I50", make: checkRunSnapshotsMatchEarlierReads },
  ledger: { invariant: "I51", make: (context, { mergedLog }) => checkLedgerBalances(context, mergedLog) },
  commands: { invariant: "I52", make: checkWorkerCommandsEndOnce },
  "unknown-package": { invariant: "I53", make: checkUnknownPackagesAreRefused },
} as const satisfies Record<string, CheckerDefinition>;

export type CheckerName = keyof typeof checkers;

/** Those that a profile gives something to judge. */
export const checkerNamesFor = (isNested: boolean): CheckerName[] =>
  (Object.keys(checkers) as CheckerName[]).filter((name) => isNested || !("isNested" in checkers[name]));
