// What callers order: start a run, cancel one. Answers name the run; a repeat under the same Idempotency-Key gets the same run.

import { type Fault, fault } from "@astraflow/protocol";
import type { CancelRun, StartRun } from "../../command.ts";
import type { AnswerBody } from "../../effect.ts";
import type { RunId, RunRow } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import { aboutOf } from "../rows/about.ts";
import { isRunEnded } from "../rows/run.ts";
import { topLevel } from "../rows/slot.ts";
import type { Tools } from "../tools.ts";
import { bearGiven } from "./given.ts";
import { newFlow } from "./reach.ts";
import { follow } from "./settle.ts";
import { spread } from "./spread.ts";
import { condemnRun } from "./sweep.ts";

const runAnswer = (run: RunRow, repeated: boolean): AnswerBody => ({
  of: "run",
  run: run.id,
  phase: run.phase,
  workflow: run.workflow,
  client: run.client,
  createdAt: run.createdAt,
  repeated,
});

/** `id` was chosen before the turn began, so that the run's row could be taken with the others. */
export function startRun(board: Board, tools: Tools, order: StartRun, id: RunId): AnswerBody | Fault {
  if (order.ask !== null) {
    const asked = board.ask(`${order.tenant}/${order.ask.key}`);
    if (asked !== null) return sameAsk(board, order, asked);
    if (order.refusal === undefined)
      board.put({ kind: "ask", id: `${order.tenant}/${order.ask.key}`, digest: order.ask.digest, run: id, at: board.now });
  }
  if (order.refusal !== undefined) return fault(order.refusal.code, order.refusal.message, order.refusal.details);
  const workflow = `${order.tenant}/${order.digest}`;
  if (board.workflow(workflow) === null) board.put({ kind: "workflow", id: workflow, body: order.body });
  const timeoutMs = order.timeoutMs ?? tools.settings.runTimeoutMs;
  const blank: RunRow = {
    kind: "run",
    id,
    tenant: order.tenant,
    phase: "queued",
    workflow,
    client: order.client,
    band: order.priority,
    open: 0,
    verdict: null,
    cursor: null,
    createdAt: board.now,
    startedAt: null,
    endedAt: null,
    due: timeoutMs === null ? null : board.now + timeoutMs,
    error: null,
    label: order.label ?? "",
    source: order.source ?? "",
    about: order.about ?? "{}",
    marks: null,
    bindings: null,
  };
  // Looked at although it cannot be there: only what was taken may be written.
  if (board.run(id) !== null) return fault("E.INTERNAL", `run ${id} exists already`);
  const plan = tools.plans.of(board, blank);
  board.bear(blank);
  board.tell(blank, "run.created", { by: order.by, workflow: order.digest, client: order.client, ...startWords(blank) });
  const flow = newFlow();
  const starts = order.given === undefined ? plan.starts : bearGiven(board, tools, blank, plan, order.given, flow);
  const field = { scope: topLevel, plan, starts };
  flow.left.push(...spread(board, tools, board.run(id) as RunRow, field, [{ from: null, at: 0 }], flow).left);
  follow(board, tools, id, flow, order.given && starts);
  return runAnswer(board.run(id) as RunRow, false);
}

/** A start's audit row is its first fact: under which request, and of a run that repeats another, of which, from where and why. */
function startWords(run: RunRow): Readonly<Record<string, unknown>> {
  const { corr, replayOf, from, reason } = aboutOf(run);
  return {
    ...(corr === undefined ? {} : { corr }),
    ...(replayOf === undefined ? {} : { repeatOf: replayOf }),
    ...(from === undefined ? {} : { from }),
    ...(reason === undefined ? {} : { reason }),
  };
}

function sameAsk(board: Board, order: StartRun, asked: { digest: string; run: RunId }): AnswerBody | Fault {
  if (asked.digest !== order.ask?.digest)
    return fault("E.IDEMPOTENCY.MISMATCH", `Idempotency-Key "${order.ask?.key}" was used for another request; use a new key`, {
      run: asked.run,
    });
  const run = board.run(asked.run);
  return run === null ? fault("E.NOT_FOUND", `run ${asked.run} is gone`) : runAnswer(run, true);
}

export function cancelRun(board: Board, tools: Tools, order: CancelRun): AnswerBody | Fault {
  const run = board.run(order.run);
  if (run === null || run.tenant !== order.tenant)
    return fault("E.NOT_FOUND", `run ${order.run} does not exist`, { run: order.run });
  // Cancelling what has ended, or is being cancelled, changes nothing and is no error.
  if (isRunEnded(run) || run.phase === "ending") return runAnswer(run, true);
  board.tell(run, "run.cancelling", { by: order.by, reason: order.reason });
  condemnRun(board, tools, run, "cancelled", { code: "E.RUNNER.CANCELLED", message: order.reason });
  return runAnswer(board.run(order.run) as RunRow, false);
}
