// The engine's entrance.

export type {
  AckDispatches,
  AcknowledgeDrain,
  AttemptRef,
  AuditEntry,
  CancelRun,
  Command,
  CommandRequest,
  ControlCommand,
  DescribeWorker,
  DocPut,
  DrainWorker,
  EnrolWorker,
  IdempotencyKey,
  IssueWorkerCommand,
  JoinWorker,
  KickWorker,
  LeaveWorker,
  PackageCommand,
  PresetResult,
  RebindRun,
  RecordHeartbeat,
  RecordWorkerCommand,
  RelayVendorFrame,
  ReportError,
  ReportedArtifact,
  ReportFeedback,
  ReportPackageStatus,
  ReportResourceRemoved,
  ReportResult,
  RequestNext,
  RetryNode,
  SkipNode,
  StartRun,
  VendorFrame,
  WorkerDescription,
  WriteDocs,
} from "./command.ts";
export { redactCommand, type WorkerCommandError, type WorkerCommandRecord } from "./core/crew/command-book.ts";
export type { WorkerCondition } from "./core/crew/condition.ts";
export { readCondition } from "./core/crew/condition.ts";
export { livenessAfter } from "./core/crew/worker.ts";
export { type OperatorMarks, readMarks } from "./core/flow/marks.ts";
export { resultBytesMax } from "./core/flow/outcome.ts";
export { type ArtifactBody, readArtifact } from "./core/place/artifacts.ts";
export { type PackageBinding, readBindings } from "./core/place/bindings.ts";
export { requirementsOf, type TaskRequirements } from "./core/place/route.ts";
export {
  explainWaiting,
  firstFailedRule,
  type KeyHolder,
  type PlacementCandidate,
  type PlacementRuleCode,
  toCandidate,
  type WaitExplanation,
  type WaitingTaskFacts,
  type WaitReason,
  type WaitReasonCode,
  type WorkerVerdict,
} from "./core/place/why.ts";
export { type RunOrigin, readRunOrigin } from "./core/rows/about.ts";
export { lastStep, nodeAt, planOfScope, type Slot, scopeOf, slotOf } from "./core/rows/slot.ts";
export { readTaskState, type TaskState } from "./core/rows/state.ts";
export { attemptPhase } from "./core/rows/task.ts";
export { hasSameSearchTerms, matchesAllWords, runSearchTerms, searchWords } from "./core/rows/terms.ts";
export { docsPerWriteMax } from "./core/steer/docs.ts";
export type { DeadLetterRecord } from "./core/word/letter.ts";
export type {
  AffectedTask,
  AnswerBody,
  CommandAnswer,
  Effect,
  FaultData,
  LogGrew,
  MetricSamples,
  ResourceRef,
  SendDispatch,
  SendDrain,
  SendNextAnswer,
  SendReset,
  SendStop,
  SendVendorFrame,
  SendWorkerCommand,
  WorkerNotice,
} from "./effect.ts";
export type {
  ChangeSet,
  CommitOutcome,
  EventPage,
  EventQuery,
  LoggedFact,
  PageOf,
  PageQuery,
  QueueClaim,
  QueueDepth,
  RunDetail,
  Store,
  StoreHint,
  StoreReader,
  TaskCount,
  TaskListQuery,
  TurnRequest,
  TurnTransaction,
  WorkerCount,
} from "./port.ts";
export type {
  ChunkRow,
  ConcurrencyKeyRow,
  DocRow,
  Fact,
  IdempotencyRow,
  LogEntry,
  Mail,
  Millis,
  Position,
  QueueName,
  RouteId,
  RouteRow,
  Row,
  RowKey,
  RunId,
  RunPhase,
  RunRow,
  TaskId,
  TaskRow,
  TaskRowPhase,
  Tenant,
  WorkerId,
  WorkerPhase,
  WorkerRow,
  WorkflowRow,
} from "./rows.ts";
export { collectionsOwnedByRun, docId, docKey, keyOf, rootOf, runKey, runOf, splitKey, taskKey, workerKey } from "./rows.ts";
export type { TenantSettings } from "./thresholds.ts";
export { settingsForTenant, settingsProblems, workerTimings } from "./thresholds.ts";
export { createEngine } from "./turn/driver.ts";
export type { Engine, EngineFailpoint, EngineGauge, EngineProblem, EngineSettings, World } from "./world.ts";
export { defaultSettings, engineFailpoints } from "./world.ts";
