// What doors say to the engine: plain data, no callbacks, so that the engine can live in a thread of its own.
// A command names who speaks (tenant, worker, session) as the door authenticated it; the engine never trusts a body for that.

import type {
  BeatWorker,
  DescribeWorker,
  DrainWorker,
  EnrolWorker,
  HearWorker,
  JoinWorker,
  KickWorker,
  LeaveWorker,
  NoteOrder,
  OrderWorker,
  RemoveResource,
  ReportPackage,
  TellWorker,
} from "./command-crew.ts";
import type { CancelRun, RebindRun, RetryNode, SkipNode, StartRun, WriteDocs } from "./command-orders.ts";
import type { AckTasks, ErrorTask, FeedbackTask, NextTask, ResultTask } from "./command-words.ts";

export type * from "./command-crew.ts";
export type * from "./command-orders.ts";
export type * from "./command-words.ts";

/** One command on its way in; `ref` comes back on its answer. */
export interface Inbound {
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
  | OrderWorker
  | NoteOrder
  | HearWorker
  | ReportPackage
  | RemoveResource
  | NextTask
  | JoinWorker
  | BeatWorker
  | DescribeWorker
  | LeaveWorker
  | DrainWorker
  | KickWorker
  | TellWorker
  | AckTasks
  | ResultTask
  | ErrorTask
  | FeedbackTask;
