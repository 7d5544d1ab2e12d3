// What doors send to the engine: plain data without callbacks, so that the engine can run in a thread of its own.
// A command names its sender (tenant, worker, session) as the door authenticated it; the engine never trusts a body for that.

import type { AckDispatches, ReportError, ReportFeedback, ReportResult, RequestNext } from "./attempt-reports.ts";
import type { CancelRun, RebindRun, RetryNode, SkipNode, StartRun, WriteDocs } from "./caller-commands.ts";
import type {
  AcknowledgeDrain,
  DescribeWorker,
  DrainWorker,
  EnrolWorker,
  IssueWorkerCommand,
  JoinWorker,
  KickWorker,
  LeaveWorker,
  RecordHeartbeat,
  RecordWorkerCommand,
  RelayVendorFrame,
  ReportPackageStatus,
  ReportResourceRemoved,
} from "./worker-commands.ts";

export type * from "./attempt-reports.ts";
export type * from "./caller-commands.ts";
export type * from "./worker-commands.ts";

/** One incoming command; its answer has the same `ref`. */
export interface CommandRequest {
  readonly ref: number;
  readonly command: Command;
}

export type Command =
  | StartRun
  | CancelRun
  | SkipNode
  | RetryNode
  | RebindRun
  | WriteDocs
  | EnrolWorker
  | IssueWorkerCommand
  | RecordWorkerCommand
  | AcknowledgeDrain
  | ReportPackageStatus
  | ReportResourceRemoved
  | RequestNext
  | JoinWorker
  | RecordHeartbeat
  | DescribeWorker
  | LeaveWorker
  | DrainWorker
  | KickWorker
  | RelayVendorFrame
  | AckDispatches
  | ReportResult
  | ReportError
  | ReportFeedback;
