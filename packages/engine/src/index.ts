// The engine's entrance.

export type {
  AckTasks,
  BeatWorker,
  CancelRun,
  Command,
  DescribeWorker,
  DrainWorker,
  ErrorTask,
  FeedbackTask,
  Held,
  Inbound,
  JoinWorker,
  KickWorker,
  LeaveWorker,
  ResultTask,
  StartRun,
  TellWorker,
  VendorFrame,
  WorkerAbout,
} from "./command.ts";
export type { Condition } from "./core/condition.ts";
export { readCondition } from "./core/condition.ts";
export { attemptPhase } from "./core/task.ts";
export { livenessAfter } from "./core/worker.ts";
export type {
  Answer,
  AnswerBody,
  Counted,
  Effect,
  FaultData,
  LogGrew,
  SendDispatch,
  SendDrain,
  SendReset,
  SendStop,
  SendTell,
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
export { keyOf, rootOf, runKey, runOf, splitKey, taskKey, workerKey } from "./rows.ts";
export type { TenantSettings } from "./thresholds.ts";
export { paceOf, settingsProblems, thresholdsOf } from "./thresholds.ts";
export { createEngine } from "./turn/driver.ts";
export type { Engine, EngineFailpoint, EngineGauge, Problem, Settings, World } from "./world.ts";
export { defaultSettings, engineFailpoints } from "./world.ts";
