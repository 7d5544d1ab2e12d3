// I44: what a middleware asks for is run once and answered once. Only who holds its attempt asks; a call is the next of its chain, numbered as
// asked; each request is answered once in the log, and on the wire once for each time it was asked; what was never called is skipped, and a
// host ends as its outermost does.

import type { Checker, CheckerContext } from "../../checking/checker.ts";
import { endStatusOf, type ProjectedRun } from "../../checking/log-projection.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import type { ObservedFrame } from "../../checking/observed-frame.ts";
import { nodeOfTask, nodesOfScope, parseTaskId, type RequestedNode, taskIdOf } from "../../checking/requested-runs.ts";

interface NextRequestTraffic {
  /** Numbers under which the request arrived and its answers left, by session. */
  readonly asked: Map<string, Set<string>>;
  readonly answered: Map<string, Set<string>>;
  result: string | null;
}

export function checkMiddlewareCallsAreAnsweredOnce({ reportViolation, projection, world }: CheckerContext): Checker {
  /** Sessions that went on over another socket. */
  const resumed = new Set<string>();
  /** Requests without an answer in the log: `<caller>#<fence> <request>` to what was called. */
  const open = new Map<string, { readonly caller: string; readonly target: string }>();
  const asked = new Set<string>();
  /** How often a node was called, by its task. */
  const calls = new Map<string, number>();
  /** By boot and request. */
  const nextRequests = new Map<string, NextRequestTraffic>();
  let checkedCount = 0;

  const checkAsked = (run: ProjectedRun, { data, position }: ObservedFact): void => {
    const [caller, request, target] = [String(data["task"]), String(data["request"]), String(data["target"])];
    const projected = run.tasks.get(caller);
    const where = `next.asked at position ${position}: ${caller} asks for ${target}`;
    const about = [caller, target];
    checkedCount++;
    if (projected === undefined || projected.worker === null || projected.endStatus !== null)
      return reportViolation(`${where}, and nobody holds it`, about);
    const name = `${caller}#${projected.fence} ${request}`;
    if (asked.has(name)) return reportViolation(`${where} twice by request ${request}`, about);
    asked.add(name);
    open.set(name, { caller, target });
    const logical = target.slice(0, target.lastIndexOf("~"));
    const number = (calls.get(logical) ?? 0) + 1;
    calls.set(logical, number);
    if (target !== `${logical}~${number}`) return reportViolation(`${where} as call ${number} of it`, about);
    const [node, next] = [nodeOfTask(run.requested, caller), nodeOfTask(run.requested, target)];
    if (node === null || next === null || run.requested === null) return;
    const host = nodesOfScope(run.requested, parseTaskId(caller).scope)?.[node.host ?? -1];
    const wanted = host?.chain[(node.chainIndex ?? 0) + 1] ?? host?.ordinal;
    if (node.host === null || wanted !== next.ordinal) reportViolation(`${where}, which is not the next of its chain`, about);
  };

  const checkAnswered = (run: ProjectedRun, { data, position }: ObservedFact): void => {
    const [caller, request, target] = [String(data["task"]), String(data["request"]), String(data["target"])];
    const where = `next.answered at position ${position}: ${caller} is answered for ${target}`;
    const name = [...open.keys()].find((one) => one.startsWith(`${caller}#`) && one.endsWith(` ${request}`));
    checkedCount++;
    if (name === undefined || open.get(name)?.target !== target)
      return reportViolation(`${where}, and no such request ${request} was open`, [caller, target]);
    open.delete(name);
    const end = run.tasks.get(target)?.endStatus ?? null;
    if ((data["code"] === null) !== (end === "succeeded"))
      return reportViolation(`${where} with ${String(data["code"])}, and it is ${end ?? "open"}`, [caller, target]);
    if (data["code"] !== "next_timeout" && data["code"] !== "next_cancelled" && end === null)
      reportViolation(`${where} before it has ended`, [caller, target]);
  };

  /** The attempt of a caller is over, or its task: nothing it asked for is open any more. */
  const checkNoOpenRequests = (task: string, { type, position }: ObservedFact): void => {
    for (const [name, { caller, target }] of open)
      if (caller === task)
        return reportViolation(
          `${type} at position ${position}: ${task} goes on while its request ${name} for ${target} is open`,
          [task],
        );
  };

  const checkHost = (run: ProjectedRun, host: RequestedNode, task: string, { type, position, data }: ObservedFact): void => {
    const { scope } = parseTaskId(task);
    const endIn = (ordinal: number): string | null => run.tasks.get(taskIdOf(run.id, scope, ordinal))?.endStatus ?? null;
    const end = endStatusOf(type);
    const where = `${type} at position ${position}: ${task}`;
    checkedCount++;
    // Given from the start, or left out before it was reached: its chain never came to be.
    if (data["why"] !== undefined || run.tasks.get(task) === undefined) return;
    const outermost = endIn(host.chain[0] ?? -1);
    if (end === "succeeded" || end === "skipped" || end === "failed") {
      if (outermost === null) return reportViolation(`${where} ends before its outermost middleware`, [task]);
      const isFitting = end === "failed" ? outermost === "failed" : endedWell(outermost);
      if (!isFitting) return reportViolation(`${where} ends, and its outermost middleware is ${outermost}`, [task]);
      for (const ordinal of host.chain.slice(1)) {
        const inner = endIn(ordinal);
        const called = calls.get(taskIdOf(run.id, scope, ordinal)) ?? 0;
        if (inner === null) return reportViolation(`${where} ends, and its middleware ${ordinal} is nothing`, [task]);
        if (called === 0 && inner !== "skipped")
          return reportViolation(`${where}: middleware ${ordinal} was never called and is ${inner}`, [task]);
      }
    }
    if (end === "succeeded" && (calls.get(task) ?? 0) === 0) reportViolation(`${where} ends well and was never called`, [task]);
  };

  const handleNextFrame = (frame: ObservedFrame): void => {
    const { seen: observation, sessionKey, seq, payload } = frame;
    const isAccept = frame.type === "control.session.accept" && payload["resumed"] === true;
    if (isAccept && observation.event === "sent") resumed.add(String(payload["session_id"]));
    const isAsking = frame.type === "biz.exec.next.request";
    if (seq === null || (!isAsking && frame.type !== "biz.exec.next.response")) return;
    if (observation.event !== (isAsking ? "delivered" : "sent")) return;
    const name = `${observation.boot} ${String(payload["requestId"])}`;
    const nextRequest = nextRequests.get(name) ?? {
      asked: new Map<string, Set<string>>(),
      answered: new Map<string, Set<string>>(),
      result: null,
    };
    nextRequests.set(name, nextRequest);
    const list = isAsking ? nextRequest.asked : nextRequest.answered;
    list.set(sessionKey, (list.get(sessionKey) ?? new Set<string>()).add(String(seq)));
    if (!isAsking) checkAnswer(frame, nextRequest, name);
  };

  const checkAnswer = (
    { seen: observation, sessionKey, payload }: ObservedFrame,
    nextRequest: NextRequestTraffic,
    name: string,
  ): void => {
    const times = nextRequest.answered.get(sessionKey)?.size ?? 0;
    const asks = nextRequest.asked.get(sessionKey)?.size ?? 0;
    // What was asked in an earlier session may be answered in this one unasked, once.
    const isOlder = [...nextRequest.asked.keys()].some((one) => one !== sessionKey);
    // What went through another scheduler to the one that holds the socket is owed until the worker is back: it may be said once more then.
    const isRetold = resumed.has(sessionKey) && (world.setup?.schedulers.length ?? 0) > 1;
    checkedCount++;
    if (times > asks + (isOlder ? 1 : 0) + (isRetold ? 1 : 0))
      return reportViolation(`request ${name} was asked ${asks} times in ${sessionKey} and answered ${times} times`, [
        observation.worker,
        observation.connection,
      ]);
    const { result, runId } = payload;
    if (result === undefined) return;
    const text = JSON.stringify(result);
    nextRequest.result ??= text;
    if (nextRequest.result !== text)
      reportViolation(`request ${name} was answered ${nextRequest.result} and then ${text}`, [observation.worker, String(runId)]);
  };

  return {
    get checkedCount() {
      return checkedCount;
    },
    onFrame: handleNextFrame,
    onFact(fact) {
      const { type } = fact;
      const run = fact.run === null ? undefined : projection.run(fact.run);
      if (run === undefined) return;
      if (type === "next.asked") return checkAsked(run, fact);
      if (type === "next.answered") return checkAnswered(run, fact);
      const { task } = fact.data;
      if (typeof task !== "string") return;
      const node = nodeOfTask(run.requested, task);
      const { call, iteration: frame } = parseTaskId(task);
      if (type === "task.granted") checkNoOpenRequests(task, fact);
      if (endStatusOf(type) !== null && node !== null && node.chain.length > 0 && call === null && frame === null)
        checkHost(run, node, task, fact);
    },
    onTurn(_tenant, facts) {
      for (const fact of facts) {
        const run = fact.run === null ? undefined : projection.run(fact.run);
        if (run !== undefined && /^run\.(succeeded|failed|cancelled)$/.test(fact.type))
          // Whoever was cancelled with its run is told to stop, which is answer enough.
          for (const task of run.tasks.values()) if (task.endStatus !== "cancelled") checkNoOpenRequests(task.id, fact);
      }
    },
  };
}

const endedWell = (end: string | null): boolean => end === "succeeded" || end === "skipped";
