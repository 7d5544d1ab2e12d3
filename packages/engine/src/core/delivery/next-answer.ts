// The answer to a middleware's call as an effect for its session. middleware-calls.ts decides when, worker-mail.ts delivers to another scheduler.

import type { SendNextAnswer } from "../../interface/effect.ts";
import type { TaskRow } from "../../storage/rows.ts";
import type { ConnectedWorker } from "../fleet/connected-worker.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

export type NextRequestAnswer = Pick<SendNextAnswer, "request" | "result" | "error" | "trace">;

export function sendNextAnswer(
  work: UnitOfWork,
  { session, worker, tenant }: Pick<ConnectedWorker, "session" | "worker" | "tenant">,
  caller: Pick<TaskRow, "id" | "run">,
  node: string,
  answer: NextRequestAnswer,
): void {
  work.emit({ type: "next", session, worker, tenant, run: caller.run, task: caller.id, node, ...answer });
}
