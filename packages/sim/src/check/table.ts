// Every checker by its name, with the invariant it judges. A name is part of the file name of a regression, so it stays.

import { checkAcksAreTruthful } from "./acks.ts";
import { checkOperatorActionsAreAudited } from "./audit.ts";
import { checkReturningWorkerKeepsReportedAttempts } from "./binding.ts";
import { checkCancelledRunsStop } from "./cancel.ts";
import { checkMiddlewareCallsAreAnsweredOnce } from "./chains.ts";
import type { Checker, CheckerContext } from "./checker.ts";
import { checkWorkerCommandsEndOnce } from "./commands.ts";
import { checkRunViewsAddUp } from "./conservation.ts";
import { checkEverythingEndsAfterFaults } from "./convergence.ts";
import { checkDeliveryLimitIsKept } from "./deliveries.ts";
import { checkDrainingWorkerGetsNoWork } from "./drain.ts";
import { checkFirstResultWins } from "./duplicates.ts";
import { checkAnswersAreDurable } from "./durable.ts";
import { checkGrantsGoToEligibleWorkers } from "./eligibility.ts";
import { checkStaleReportsChangeNothing } from "./fencing.ts";
import { checkContainerIterationsAreComplete } from "./frames.ts";
import { checkSessionFramesActInOrder } from "./in-order.ts";
import { checkUnackedResultsAreKept } from "./kept.ts";
import { checkLedgerBalances } from "./ledger.ts";
import { checkFailedTasksBecomeDeadLetters } from "./letters.ts";
import type { MergedLog } from "./log-book.ts";
import { checkRunSnapshotsMatchEarlierReads } from "./moments.ts";
import { checkAcceptedRunsAreKept } from "./no-loss.ts";
import { checkRunsAndTasksEndOnce } from "./once.ts";
import { checkOneSessionPerWorker } from "./one-session.ts";
import { checkResultsMatchWorkflowModel } from "./outcome.ts";
import { checkUnackedResultsAreResent } from "./owed.ts";
import { checkPinnedWorkRunsAtItsWorker } from "./pinned.ts";
import type { RequestedRuns } from "./plans.ts";
import { checkLogHasNoGaps } from "./positions.ts";
import { checkOutputChunksHaveNoGaps } from "./printed.ts";
import { checkReadsAgreeWithLog } from "./reads.ts";
import { checkConcurrencyLimitsHold } from "./single-flight.ts";
import { checkOneLeasePerTask } from "./single-lease.ts";
import { checkNoProcessCrashesOrSpins } from "./soundness.ts";
import { checkEndedWorkNeverChanges } from "./terminal.ts";
import { checkDeadlinesFireOnTime } from "./timers.ts";
import { checkUnackedGrantsAreTakenBack } from "./unacked.ts";
import { checkUnknownPackagesAreRefused } from "./unknown-package.ts";
import { checkResumeRequestsAreAnswered } from "./verdicts.ts";
import { checkInFlightWindowIsKept } from "./window.ts";
import { checkNoIdleSlotWhileWorkWaits } from "./work-conserving.ts";

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
