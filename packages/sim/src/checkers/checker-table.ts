// All checkers by name, with the invariant that each one checks. Names are part of the file names of regressions, so they never change.

import type { Checker, CheckerContext } from "../checking/checker.ts";
import { LedgerBalances } from "./log/ledger-balances.ts";
import { LogHasNoGaps } from "./log/log-has-no-gaps.ts";
import { OperatorActionsAreAudited } from "./log/operator-actions-are-audited.ts";
import { ReadsAgreeWithLog } from "./log/reads-agree-with-log.ts";
import { RunSnapshotsMatchEarlierReads } from "./log/run-snapshots-match-earlier-reads.ts";
import { WorkerCommandsEndOnce } from "./log/worker-commands-end-once.ts";
import { AcceptedRunsAreKept } from "./runs/accepted-runs-are-kept.ts";
import { AnswersAreDurable } from "./runs/answers-are-durable.ts";
import { CancelledRunsStop } from "./runs/cancelled-runs-stop.ts";
import { EndedWorkNeverChanges } from "./runs/ended-work-never-changes.ts";
import { EverythingEndsAfterFaults } from "./runs/everything-ends-after-faults.ts";
import { NoProcessCrashesOrSpins } from "./runs/no-process-crashes-or-spins.ts";
import { RunViewsAddUp } from "./runs/run-views-add-up.ts";
import { RunsAndTasksEndOnce } from "./runs/runs-and-tasks-end-once.ts";
import { AcksAreTruthful } from "./sessions/acks-are-truthful.ts";
import { DrainingWorkerGetsNoWork } from "./sessions/draining-worker-gets-no-work.ts";
import { InFlightWindowIsKept } from "./sessions/in-flight-window-is-kept.ts";
import { OneSessionPerWorker } from "./sessions/one-session-per-worker.ts";
import { ResumeRequestsAreAnswered } from "./sessions/resume-requests-are-answered.ts";
import { ReturningWorkerKeepsReportedAttempts } from "./sessions/returning-worker-keeps-reported-attempts.ts";
import { SessionFramesActInOrder } from "./sessions/session-frames-act-in-order.ts";
import { UnackedResultsAreKept } from "./sessions/unacked-results-are-kept.ts";
import { UnackedResultsAreResent } from "./sessions/unacked-results-are-resent.ts";
import { ConcurrencyLimitsHold } from "./tasks/concurrency-limits-hold.ts";
import { DeadlinesFireOnTime } from "./tasks/deadlines-fire-on-time.ts";
import { DeliveryLimitIsKept } from "./tasks/delivery-limit-is-kept.ts";
import { FailedTasksBecomeDeadLetters } from "./tasks/failed-tasks-become-dead-letters.ts";
import { FirstResultWins } from "./tasks/first-result-wins.ts";
import { GrantsGoToEligibleWorkers } from "./tasks/grants-go-to-eligible-workers.ts";
import { LeasedAttemptsAreHeld } from "./tasks/leased-attempts-are-held.ts";
import { LostAttemptsAreNotRepeated } from "./tasks/lost-attempts-are-not-repeated.ts";
import { NoIdleSlotWhileWorkWaits } from "./tasks/no-idle-slot-while-work-waits.ts";
import { OneLeasePerTask } from "./tasks/one-lease-per-task.ts";
import { StaleReportsChangeNothing } from "./tasks/stale-reports-change-nothing.ts";
import { UnackedGrantsAreTakenBack } from "./tasks/unacked-grants-are-taken-back.ts";
import { UnstoppedHandlersKeepTheirSlot } from "./tasks/unstopped-handlers-keep-their-slot.ts";
import { ContainerIterationsAreComplete } from "./workflows/container-iterations-are-complete.ts";
import { MiddlewareCallsAreAnsweredOnce } from "./workflows/middleware-calls-are-answered-once.ts";
import { OutputChunksHaveNoGaps } from "./workflows/output-chunks-have-no-gaps.ts";
import { PinnedWorkRunsAtItsWorker } from "./workflows/pinned-work-runs-at-its-worker.ts";
import { ResultsMatchWorkflowModel } from "./workflows/results-match-workflow-model.ts";
import { UnknownPackagesAreRefused } from "./workflows/unknown-packages-are-refused.ts";

interface CheckerDefinition {
  readonly invariant: string;
  /** Has something to judge only where workflows have chains and containers. */
  readonly isNested?: true;
  readonly property: new (context: CheckerContext) => Checker;
}

export const checkers = {
  "no-loss": { invariant: "I1", property: AcceptedRunsAreKept },
  unacked: { invariant: "I2", property: UnackedGrantsAreTakenBack },
  "single-lease": { invariant: "I3", property: OneLeasePerTask },
  fencing: { invariant: "I4", property: StaleReportsChangeNothing },
  once: { invariant: "I5", property: RunsAndTasksEndOnce },
  terminal: { invariant: "I6", property: EndedWorkNeverChanges },
  duplicates: { invariant: "I7", property: FirstResultWins },
  durable: { invariant: "I8", property: AnswersAreDurable },
  kept: { invariant: "I9", property: UnackedResultsAreKept },
  deliveries: { invariant: "I12", property: DeliveryLimitIsKept },
  timers: { invariant: "I13", property: DeadlinesFireOnTime },
  cancel: { invariant: "I14", property: CancelledRunsStop },
  conservation: { invariant: "I15", property: RunViewsAddUp },
  "single-flight": { invariant: "I16", property: ConcurrencyLimitsHold },
  "work-conserving": { invariant: "I17", property: NoIdleSlotWhileWorkWaits },
  eligibility: { invariant: "I18", property: GrantsGoToEligibleWorkers },
  "in-order": { invariant: "I19", property: SessionFramesActInOrder },
  owed: { invariant: "I19", property: UnackedResultsAreResent },
  verdicts: { invariant: "I19", property: ResumeRequestsAreAnswered },
  window: { invariant: "I20", property: InFlightWindowIsKept },
  acks: { invariant: "I21", property: AcksAreTruthful },
  "one-session": { invariant: "I22", property: OneSessionPerWorker },
  binding: { invariant: "I23", property: ReturningWorkerKeepsReportedAttempts },
  drain: { invariant: "I24", property: DrainingWorkerGetsNoWork },
  soundness: { invariant: "I37", property: NoProcessCrashesOrSpins },
  convergence: { invariant: "I39", property: EverythingEndsAfterFaults },
  positions: { invariant: "I42", property: LogHasNoGaps },
  reads: { invariant: "I42", property: ReadsAgreeWithLog },
  frames: { invariant: "I43", isNested: true, property: ContainerIterationsAreComplete },
  chains: { invariant: "I44", isNested: true, property: MiddlewareCallsAreAnsweredOnce },
  printed: { invariant: "I45", property: OutputChunksHaveNoGaps },
  audit: { invariant: "I46", property: OperatorActionsAreAudited },
  pinned: { invariant: "I47", isNested: true, property: PinnedWorkRunsAtItsWorker },
  letters: { invariant: "I48", property: FailedTasksBecomeDeadLetters },
  outcome: { invariant: "I49", isNested: true, property: ResultsMatchWorkflowModel },
  moments: { invariant: "I50", property: RunSnapshotsMatchEarlierReads },
  ledger: { invariant: "I51", property: LedgerBalances },
  commands: { invariant: "I52", property: WorkerCommandsEndOnce },
  held: { invariant: "I54", property: LeasedAttemptsAreHeld },
  unstopped: { invariant: "I55", property: UnstoppedHandlersKeepTheirSlot },
  "silent-repeat": { invariant: "I56", property: LostAttemptsAreNotRepeated },
  "unknown-package": { invariant: "I53", property: UnknownPackagesAreRefused },
} as const satisfies Record<string, CheckerDefinition>;

export type CheckerName = keyof typeof checkers;

/** Those that a profile gives something to judge. */
export const checkerNamesFor = (isNested: boolean): CheckerName[] =>
  (Object.keys(checkers) as CheckerName[]).filter((name) => isNested || !("isNested" in checkers[name]));
