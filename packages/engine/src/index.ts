// The engine's entrance.

export type {
  AckTasks,
  ArtifactWord,
  Ask,
  AuditWords,
  BeatWorker,
  CancelRun,
  Command,
  ControlOrder,
  DescribeWorker,
  DocPut,
  DrainWorker,
  EnrolWorker,
  ErrorTask,
  FeedbackTask,
  Given,
  HearWorker,
  Held,
  Inbound,
  JoinWorker,
  KickWorker,
  LeaveWorker,
  NextTask,
  NoteOrder,
  OrderWorker,
  RebindRun,
  RemoveResource,
  ReportPackage,
  ResultTask,
  RetryNode,
  SkipNode,
  StartRun,
  TellWorker,
  VendorFrame,
  WorkerAbout,
  WorkerOrder,
  WriteDocs,
} from "./command.ts";
export { type OrderBody, type OrderError, shownOrder } from "./core/crew/command-book.ts";
export type { Condition } from "./core/crew/condition.ts";
export { readCondition } from "./core/crew/condition.ts";
export { livenessAfter } from "./core/crew/worker.ts";
export { type Marks, marksOf } from "./core/flow/marks.ts";
export { resultBytesMax } from "./core/flow/outcome.ts";
export { type ArtifactBody, readArtifact } from "./core/place/artifacts.ts";
export { type Binding, bindingsOf } from "./core/place/bindings.ts";
export { type Needs, needsOf } from "./core/place/route.ts";
export {
  type Candidate,
  candidateOf,
  type Holder,
  type Reason,
  type ReasonCode,
  type RuleCode,
  ruleFor,
  type Seen,
  type Why,
  type WorkerWhy,
  whyWaits,
} from "./core/place/why.ts";
export { aboutOf, type RunAbout } from "./core/rows/about.ts";
export { lastStep, nodeAt, planIn, type Slot, scopeOf, slotOf } from "./core/rows/slot.ts";
export { stateOf, type TaskState } from "./core/rows/state.ts";
export { attemptPhase } from "./core/rows/task.ts";
export { hasSameTerms, hasWords, termsOf, wordsOf } from "./core/rows/terms.ts";
export { docsPerWriteMax } from "./core/steer/docs.ts";
export type { DeadLetter } from "./core/word/letter.ts";
export type {
  Answer,
  AnswerBody,
  Counted,
  Effect,
  FaultData,
  LogGrew,
  ResourceRef,
  SendDispatch,
  SendDrain,
  SendNext,
  SendOrder,
  SendReset,
  SendStop,
  SendTell,
  Steered,
  WorkerNews,
} from "./effect.ts";
export type {
  Claim,
  Committed,
  CrewCount,
  Depth,
  EventPage,
  EventQuery,
  Hint,
  LineDepth,
  LogEntry,
  PageOf,
  PageQuery,
  Reader,
  RunDetail,
  Store,
  TaskList,
  Tx,
  Unit,
  Want,
} from "./port.ts";
export type {
  AskRow,
  ChunkRow,
  DocRow,
  Fact,
  Happening,
  Key,
  KeyRow,
  Line,
  Mail,
  Millis,
  Position,
  RouteId,
  RouteRow,
  Row,
  RunId,
  RunPhase,
  RunRow,
  TaskId,
  TaskPhase,
  TaskRow,
  Tenant,
  WorkerId,
  WorkerPhase,
  WorkerRow,
  WorkflowRow,
} from "./rows.ts";
export { docId, docKey, keyOf, rootOf, runCollections, runKey, runOf, splitKey, taskKey, workerKey } from "./rows.ts";
export type { TenantSettings } from "./thresholds.ts";
export { paceOf, settingsProblems, thresholdsOf } from "./thresholds.ts";
export { createEngine } from "./turn/driver.ts";
export type { Engine, EngineFailpoint, EngineGauge, Problem, Settings, World } from "./world.ts";
export { defaultSettings, engineFailpoints } from "./world.ts";
