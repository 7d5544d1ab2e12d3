// What doors send to the engine: plain data without callbacks, so that the engine can run in a thread of its own.
// A command names its sender (tenant, worker, session) as the door authenticated it; the engine never trusts a body for that.

import type { AttemptReportCommand } from "./attempt-reports.ts";
import type { CallerCommand } from "./caller-commands.ts";
import type { WorkerSessionCommand } from "./worker-session-commands.ts";

export type * from "./attempt-reports.ts";
export type * from "./caller-commands.ts";
export type * from "./worker-session-commands.ts";

export type Command = CallerCommand | WorkerSessionCommand | AttemptReportCommand;

/** One incoming command; its answer has the same `ref`. */
export interface CommandRequest {
  readonly ref: number;
  readonly command: Command;
}
