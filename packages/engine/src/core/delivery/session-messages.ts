// Messages to a session of this scheduler: the answer to a call, the end of an attempt, the end of the session itself.

import type { AttemptRef, SessionReport } from "../../interface/command.ts";
import type { SendNextAnswer } from "../../interface/effect.ts";
import type { RunId, TaskRow } from "../../storage/rows.ts";
import type { ConnectedWorker } from "../fleet/connected-worker.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";
import { releaseStaleAttempt } from "./waiting-attempts.ts";

export interface AttemptStopReason {
  readonly code: string;
  readonly reason: string;
}

export const attemptNotHeld: AttemptStopReason = { code: "E.SESSION.STALE_BINDING", reason: "this attempt is no longer yours" };
export const sessionSuperseded: AttemptStopReason = { code: "E.SESSION.SUPERSEDED", reason: "superseded session" };

/** Tells a session that an attempt is over or was never its own. */
export function sendStop(
  work: UnitOfWork,
  { session, worker, tenant }: SessionReport,
  { run, task, fence }: AttemptRef & { readonly run: RunId },
  { code, reason }: AttemptStopReason,
): void {
  work.emit({ type: "stop", session, worker, tenant, run, task, fence, code, reason });
}

export type MiddlewareCallResult = Pick<SendNextAnswer, "request" | "result" | "error" | "trace">;

/** The answer to a middleware's call. */
export function sendNextAnswer(
  work: UnitOfWork,
  { session, worker, tenant }: SessionReport,
  caller: Pick<TaskRow, "id" | "run">,
  node: string,
  answer: MiddlewareCallResult,
): void {
  work.emit({ type: "next", session, worker, tenant, run: caller.run, task: caller.id, node, ...answer });
}

/** The rows no longer show this attempt as the worker's: release it and stop the worker. */
export function stopAttempt(work: UnitOfWork, connected: ConnectedWorker, held: AttemptRef, reason: AttemptStopReason): void {
  const attempt = releaseStaleAttempt(work, connected, held, "may-run");
  if (attempt !== null) sendStop(work, connected, attempt, reason);
}

/** The session ends and its worker is no longer connected here. */
export function endSession(work: UnitOfWork, { session, worker }: ConnectedWorker, { code, reason }: AttemptStopReason): void {
  work.changeFleet({ type: "disconnect", worker, session });
  work.emit({ type: "reset", session, worker, code, reason });
}
