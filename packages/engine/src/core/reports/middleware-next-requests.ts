// A middleware requests the next node of its chain. A repeat is answered from the caller's row and runs nothing twice.

import type { PlanNode } from "@astraflow/graph";
import type { Fault } from "@astraflow/protocol";
import type { RequestNextCommand } from "../../interface/command.ts";
import type { AnswerBody } from "../../interface/effect.ts";
import { type HostingTask, type RunRow, runOf, type TaskRow } from "../../storage/rows.ts";
import { openCalls, openCallsMax, sendStoredAnswer, withCalls } from "../delivery/middleware-calls.ts";
import { sendNextAnswer } from "../delivery/session-messages.ts";
import { setAttemptWaiting } from "../delivery/waiting-attempts.ts";
import { isInsideEndedHost } from "../nodes/end-host-task.ts";
import { callParams } from "../nodes/node-params.ts";
import { nodeParams } from "../nodes/reach.ts";
import { RunProgress } from "../nodes/run-progress.ts";
import { type ChainPosition, findChain } from "../progress/end-chain.ts";
import { runFollowUps } from "../progress/follow-up.ts";
import { startCall } from "../progress/middleware-chain.ts";
import { concurrencyKeyOf } from "../queueing/task-queue.ts";
import { isRunLive } from "../rows/run.ts";
import { callPath, nodePath, taskIdAt, taskPathOf } from "../rows/task-path.ts";
import { type MiddlewareCall, readTaskState, withTaskState } from "../rows/task-state.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";
import { applied, type CurrentAttempt, findAttempt, repeated } from "./acks-and-outcomes.ts";

/** How often one node of a chain is run for one reach of its host: a middleware that never stops asking must not fill the store. */
const callsMax = 10_000;
/** Calls of one chain that may be open at once: all of them are stopped in one turn when the outermost is over. */
const inCallMax = 500;

export function handleNextRequest(work: UnitOfWork, report: RequestNextCommand): AnswerBody | Fault {
  const over = refuseIfOver(work, report);
  if (over !== null) return over;
  const found = findAttempt(work, report);
  if (found === "ended") return repeated;
  if (!("task" in found)) return found;
  work.changeFleet({ type: "ack", worker: report.worker, task: report.task, fence: found.task.fence, stored: false });
  const known = readTaskState(found.task).calls?.find((call) => isSameRequest(call, found, report));
  if (known === undefined) return acceptNextRequest(work, report, found);
  sendStoredAnswer(work, found.run, found.task, known, found.connected);
  return repeated;
}

/** Request ids count within one process of a worker: another one's, or another attempt's, is another request. */
const isSameRequest = (call: MiddlewareCall, { task, connected }: CurrentAttempt, report: RequestNextCommand): boolean =>
  call.request === report.request && call.boot === connected.boot && call.fence === task.fence;

/** The caller's own attempt, or the whole run, is over: sent as an answer, because a waiting worker listens for nothing else. */
function refuseIfOver(work: UnitOfWork, report: RequestNextCommand): AnswerBody | null {
  const connected = work.fleet.workerInSession(report.worker, report.session);
  const run = connected === null ? null : work.run(runOf(report.task));
  const task = run === null || run.tenant !== report.tenant ? null : work.task(report.task);
  if (connected === null || run === null || task === null || task.worker !== report.worker) return null;
  if (report.fence !== null && task.fence !== report.fence) return null;
  const attempt = { run, task, connected };
  if (!isRunLive(run)) return refuseNext(work, attempt, report, "next_run_finalised", `run ${run.id} is ${run.phase}`);
  if (task.phase === "leased") return null;
  return refuseNext(work, attempt, report, "next_unavailable", `task ${task.id} is ${task.phase}; its attempt is over`);
}

/** A refusal is not stored: the same request may be possible a moment later. */
function refuseNext(
  work: UnitOfWork,
  { run, task, connected }: Omit<CurrentAttempt, "task"> & { readonly task: TaskRow },
  { request }: RequestNextCommand,
  code: string,
  message: string,
): AnswerBody {
  const { id } = work.nodeOf(run, task);
  sendNextAnswer(work, connected, task, id, { request, result: null, error: { code, message }, trace: {} });
  work.recordMetric("next_refused_total", { code });
  return applied;
}

function acceptNextRequest(work: UnitOfWork, report: RequestNextCommand, found: CurrentAttempt): AnswerBody {
  const { run, task } = found;
  const node = work.nodeOf(run, task);
  const refuseWith = (code: string, message: string) => refuseNext(work, found, report, code, message);
  if (node.host === null || node.chainIndex === null) return refuseWith("next_no_chain", `node "${node.label}" is no middleware`);
  const progress = new RunProgress(work, run);
  const chain = findChain(progress, task);
  if (chain.host.chain[node.chainIndex] !== node.ordinal)
    return refuseWith("next_invalid_chain", `node "${node.label}" is not at place ${node.chainIndex} of its chain`);
  if (isInsideEndedHost(progress, taskPathOf(task)))
    return refuseWith("next_cancelled", `what surrounds task ${task.id} is being ended`);
  const host = work.task(taskIdAt(run.id, nodePath(chain.scope, chain.host.ordinal)));
  if (host?.phase !== "hosting")
    return refuseWith("next_target_not_ready", `host "${chain.host.label}" is ${host?.phase ?? "not there"}`);
  if (openCalls(task).length >= openCallsMax)
    return refuseWith("next_unavailable", `task ${task.id} has ${openCallsMax} calls open already; wait for one of them`);
  const target: PlanNode | undefined = chain.plan.nodes[chain.host.chain[node.chainIndex + 1] ?? chain.host.ordinal];
  if (target === undefined) return refuseWith("next_invalid_chain", `the chain of "${chain.host.label}" has no target`);
  if ((readTaskState(host).called?.[target.ordinal] ?? 0) >= callsMax)
    return refuseWith("next_unavailable", `"${target.label}" was called ${callsMax} times already`);
  if ((readTaskState(host).inCall ?? 0) >= inCallMax)
    return refuseWith("next_unavailable", `the chain of "${chain.host.label}" has ${inCallMax} calls open; wait for one of them`);
  const isHost = target.ordinal === chain.host.ordinal;
  const base = isHost ? (host.params ?? "{}") : nodeParams(progress, chain.scope, target);
  const params = callParams(base, task.params, report);
  if (params === null)
    return refuseWith("next_unavailable", `the payload for "${target.label}" is larger or deeper than a node may get`);
  createCall(progress, report, found, { chain, host, node, target, params });
  return applied;
}

interface RequestedCall {
  readonly chain: ChainPosition;
  readonly host: HostingTask;
  /** The calling middleware, and the node it calls. */
  readonly node: PlanNode;
  readonly target: PlanNode;
  readonly params: string;
}

function createCall(
  progress: RunProgress,
  report: RequestNextCommand,
  { run, task, connected }: CurrentAttempt,
  requested: RequestedCall,
): void {
  const { work } = progress;
  const { chain, host, node, target, params } = requested;
  const { called } = readTaskState(host);
  const number = (called?.[target.ordinal] ?? 0) + 1;
  const inCall = (readTaskState(host).inCall ?? 0) + 1;
  work.put(withTaskState(host, { called: { ...called, [target.ordinal]: number }, inCall }));
  const path = callPath(nodePath(chain.scope, target.ordinal), number);
  const id = taskIdAt(run.id, path);
  const due = report.timeoutMs === null ? null : work.now + report.timeoutMs;
  const { request } = report;
  const asked: MiddlewareCall = { request, boot: connected.boot, fence: task.fence, target: id, askedAt: work.now, due };
  work.put(withCalls(work, node, task, [...(readTaskState(task).calls ?? []), asked]));
  setAttemptWaiting(work, task, true);
  work.recordRunFact(run, "next.asked", { task: task.id, request, target: id });
  const caller = { task: task.id, fence: task.fence, request };
  const heldKeys = keysHeldByCallers(run, requested);
  startCall(progress, { path, node: target, params, state: { caller }, heldKeys });
  runFollowUps(progress);
}

/** Keys that the callers up the chain hold: what they call runs under them. */
function keysHeldByCallers(run: RunRow, { chain, node }: RequestedCall): Set<string> {
  const above = chain.host.chain.slice(0, (node.chainIndex ?? 0) + 1).map((ordinal) => chain.plan.nodes[ordinal]);
  return new Set(above.flatMap((one) => (one === undefined ? [] : (concurrencyKeyOf(run, one) ?? []))));
}
