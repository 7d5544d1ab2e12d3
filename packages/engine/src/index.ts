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
  LeaveWorker,
  ResultTask,
  StartRun,
  WorkerAbout,
} from "./command.ts";
export { attemptPhase } from "./core/task.ts";
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
} from "./effect.ts";
export type {
  Claim,
  Committed,
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
export { createEngine } from "./turn/driver.ts";
export type { Engine, EngineFailpoint, EngineGauge, Problem, Settings, World } from "./world.ts";
export { defaultSettings, engineFailpoints } from "./world.ts";
