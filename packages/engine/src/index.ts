// The engine's entrance.

export { requirementsOf, type TaskRequirements } from "./core/fleet/route.ts";
export type { DeadLetterRecord } from "./core/nodes/dead-letters.ts";
export { type OperatorMarks, readMarks } from "./core/nodes/operator-marks.ts";
export { docsPerWriteMax } from "./core/operations/documents.ts";
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
} from "./core/placement/why-waiting.ts";
export { resultBytesMax } from "./core/progress/outcome.ts";
export { type ArtifactBody, readArtifact } from "./core/queueing/artifacts.ts";
export { type PackageBinding, readBindings } from "./core/queueing/package-bindings.ts";
export { type RunOrigin, readRunOrigin } from "./core/rows/run-origin.ts";
export { attemptPhase } from "./core/rows/task.ts";
export { lastStep, nodeAt, planOfScope, scopeOf, type TaskPath, taskPathOf } from "./core/rows/task-path.ts";
export { readTaskState, type TaskState } from "./core/rows/task-state.ts";
export { livenessAfter } from "./core/rows/worker.ts";
export type { WorkerCondition } from "./core/rows/worker-condition.ts";
export { readCondition } from "./core/rows/worker-condition.ts";
export { redactCommand, type WorkerCommandRecord } from "./core/workers/command-records.ts";
export type {
  AckDispatchesCommand,
  AcknowledgeDrainCommand,
  AttemptRef,
  AuditEntry,
  CancelRunCommand,
  Command,
  CommandRequest,
  ControlCommand,
  DescribeWorkerCommand,
  DocPut,
  DrainWorkerCommand,
  EnrolWorkerCommand,
  FaultData,
  IdempotencyKey,
  IssueWorkerCommand,
  JoinWorkerCommand,
  KickWorkerCommand,
  LeaveWorkerCommand,
  PackageCommand,
  PresetResult,
  RebindRunCommand,
  RecordHeartbeatCommand,
  RecordWorkerCommand,
  RelayVendorFrameCommand,
  ReportErrorCommand,
  ReportedArtifact,
  ReportFeedbackCommand,
  ReportPackageStatusCommand,
  ReportResourceRemovedCommand,
  ReportResultCommand,
  RequestNextCommand,
  RetryNodeCommand,
  SkipNodeCommand,
  StartRunCommand,
  VendorFrame,
  WorkerDescription,
  WriteDocsCommand,
} from "./interface/command.ts";
export type {
  AffectedTask,
  AnswerBody,
  CommandAnswer,
  Effect,
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
} from "./interface/effect.ts";
export type { EngineSettings, TenantSettings } from "./interface/settings.ts";
export { defaultSettings, settingsForTenant, settingsProblems, workerTimings } from "./interface/settings.ts";
export type { Engine, EngineFailpoint, EngineGauge, EngineProblem, World } from "./interface/world.ts";
export { engineFailpoints } from "./interface/world.ts";
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
} from "./storage/port.ts";
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
  RowColumns,
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
} from "./storage/rows.ts";
export {
  collectionsOwnedByRun,
  docId,
  docKey,
  keyOf,
  rootOf,
  runKey,
  runOf,
  splitKey,
  taskKey,
  workerKey,
} from "./storage/rows.ts";
export { hasSameSearchTerms, matchesAllWords, runSearchTerms, searchWords } from "./storage/search-terms.ts";
export { createEngine } from "./turn/driver.ts";
