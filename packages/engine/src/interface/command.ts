// What doors send to the engine: plain data without callbacks, so that the engine can run in a thread of its own.
// A command names its sender (tenant, worker, session) as the door authenticated it; the engine never trusts a body for that.

import type {
  AckDispatchesCommand,
  ReportErrorCommand,
  ReportFeedbackCommand,
  ReportResultCommand,
  RequestNextCommand,
} from "./attempt-reports.ts";
import type {
  CancelRunCommand,
  RebindRunCommand,
  RetryNodeCommand,
  SkipNodeCommand,
  StartRunCommand,
  WriteDocsCommand,
} from "./caller-commands.ts";
import type {
  AcknowledgeDrainCommand,
  DescribeWorkerCommand,
  DrainWorkerCommand,
  EnrolWorkerCommand,
  IssueWorkerCommand,
  JoinWorkerCommand,
  KickWorkerCommand,
  LeaveWorkerCommand,
  RecordHeartbeatCommand,
  RecordWorkerCommand,
  RelayVendorFrameCommand,
  ReportPackageStatusCommand,
  ReportResourceRemovedCommand,
} from "./worker-session-commands.ts";

export type * from "./attempt-reports.ts";
export type * from "./caller-commands.ts";
export type * from "./worker-session-commands.ts";

/** One incoming command; its answer has the same `ref`. */
export interface CommandRequest {
  readonly ref: number;
  readonly command: Command;
}

export type Command =
  | StartRunCommand
  | CancelRunCommand
  | SkipNodeCommand
  | RetryNodeCommand
  | RebindRunCommand
  | WriteDocsCommand
  | EnrolWorkerCommand
  | IssueWorkerCommand
  | RecordWorkerCommand
  | AcknowledgeDrainCommand
  | ReportPackageStatusCommand
  | ReportResourceRemovedCommand
  | RequestNextCommand
  | JoinWorkerCommand
  | RecordHeartbeatCommand
  | DescribeWorkerCommand
  | LeaveWorkerCommand
  | DrainWorkerCommand
  | KickWorkerCommand
  | RelayVendorFrameCommand
  | AckDispatchesCommand
  | ReportResultCommand
  | ReportErrorCommand
  | ReportFeedbackCommand;
