// The engine's entrance.

export { requirementsOf, type TaskRequirements } from "./core/fleet/route.ts";
export type { DeadLetterRecord } from "./core/nodes/dead-letters.ts";
export { explainWaiting, firstFailedRule, type KeyHolder, toCandidate } from "./core/placement/why-waiting.ts";
export { resultBytesMax } from "./core/progress/outcome.ts";
export { readBindings } from "./core/queueing/affinity.ts";
export { readArtifact } from "./core/queueing/artifacts.ts";
export { type RunOrigin, readRunOrigin } from "./core/rows/run.ts";
export { attemptPhase } from "./core/rows/task.ts";
export { lastStep, nodeAt, scopeOf, taskPathOf } from "./core/rows/task-path.ts";
export { readTaskState, type TaskState } from "./core/rows/task-state.ts";
export { isGone, livenessAfter } from "./core/rows/worker.ts";
export { readCondition, type WorkerCondition } from "./core/rows/worker-condition.ts";
export { redactCommand, type WorkerCommandRecord } from "./core/workers/command-records.ts";
export type {
  AttemptRef,
  AuditEntry,
  Command,
  CommandRequest,
  DescribeWorkerCommand,
  DocPut,
  EnrolWorkerCommand,
  FaultData,
  IdempotencyKey,
  JoinWorkerCommand,
  LeaveWorkerCommand,
  PackageCommand,
  PackageSignatureClaim,
  PresetResult,
  RecordHeartbeatCommand,
  ReportErrorCommand,
  ReportedArtifact,
  ReportFeedbackCommand,
  ReportPackageStatusCommand,
  ReportResourceRemovedCommand,
  ReportResultCommand,
  RequestNextCommand,
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
  MetricSamples,
  ResourceRef,
  SendDispatch,
  SendDrain,
  SendNextAnswer,
  SendReset,
  SendStop,
  SendVendorFrame,
  SendWorkerCommand,
} from "./interface/effect.ts";
export { type PackageDocument, packageCollection } from "./interface/package-document.ts";
export {
  defaultSettings,
  type EngineSettings,
  settingsProblems,
  type TenantSettings,
  workerTimings,
} from "./interface/settings.ts";
export {
  type Engine,
  type EngineFailpoint,
  type EngineGauge,
  type EngineProblem,
  engineFailpoints,
  type World,
} from "./interface/world.ts";
export type {
  ChangeSet,
  CommitOutcome,
  EventPage,
  EventQuery,
  LoggedFact,
  PageOf,
  PageQuery,
  QueueDepth,
  RemovalOutcome,
  RemovalSlice,
  RemovedCounts,
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
export {
  type ChunkRow,
  type ConcurrencyKeyRow,
  collectionsOwnedByRun,
  type DocRow,
  docId,
  docKey,
  type Fact,
  type IdempotencyRow,
  keyOf,
  type Mail,
  type Millis,
  type Position,
  type QueueName,
  type RouteRow,
  type Row,
  type RowColumns,
  type RowKey,
  type RunId,
  type RunPhase,
  type RunRow,
  rootOf,
  runKey,
  runOf,
  splitKey,
  type TaskId,
  type TaskRow,
  type TaskRowPhase,
  type Tenant,
  type WorkerId,
  type WorkerPhase,
  type WorkerRow,
  type WorkflowRow,
  workerKey,
} from "./storage/rows.ts";
export { hasSameSearchTerms, matchesAllWords, runSearchTerms, searchWords } from "./storage/search-terms.ts";
export { createEngine } from "./turn/driver.ts";
