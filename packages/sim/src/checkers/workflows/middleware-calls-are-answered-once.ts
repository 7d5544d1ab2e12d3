// I44: each `next` call of a middleware runs once and is answered once. Only the holder of the middleware's attempt may call; the call goes to the next
// in the chain and calls are numbered in order; each request is answered once in the log, and on the wire once for each time it was sent;
// a node that was never called is skipped, and a host ends as its outermost middleware does.

import { Checker } from "../../checking/checker.ts";
import { endStatusOf, hasEndedWell, type ProjectedRun } from "../../checking/log-projection.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import type { ObservedFrame } from "../../checking/observed-frame.ts";
import { nodeOfTask, nodesOfScope, parseTaskId, type RequestedNode, taskIdOf } from "../../checking/requested-runs.ts";
import { getOrCreate } from "../../kernel/get-or-create.ts";

class NextRequestTraffic {
  /** Numbers under which the request arrived and its answers left, by session. */
  readonly asked = new Map<string, Set<number>>();
  readonly answered = new Map<string, Set<number>>();
  result: string | null = null;
}

export class MiddlewareCallsAreAnsweredOnce extends Checker {
  /** Sessions that went on over another socket. */
  readonly #resumed = new Set<string>();
  /** Requests without an answer in the log: `<caller>#<fence> <request>` to what was called. */
  readonly #open = new Map<string, { readonly caller: string; readonly target: string }>();
  readonly #asked = new Set<string>();
  /** How often a node was called, by its task. */
  readonly #calls = new Map<string, number>();
  /** By boot and request. */
  readonly #nextRequests = new Map<string, NextRequestTraffic>();

  override onDeliveredToScheduler({ type, boot, sessionKey, seq, payload }: ObservedFrame): void {
    if (type !== "biz.exec.next.request" || seq === null) return;
    const { asked } = this.#trafficOf(`${boot} ${String(payload["requestId"])}`);
    getOrCreate(asked, sessionKey, () => new Set<number>()).add(seq);
  }

  override onSentToWorker(frame: ObservedFrame): void {
    const { type, payload } = frame;
    if (type === "control.session.accept" && payload["resumed"] === true) this.#resumed.add(String(payload["session_id"]));
    if (type === "biz.exec.next.response" && frame.seq !== null) this.#checkAnswer(frame, frame.seq);
  }

  #trafficOf(name: string): NextRequestTraffic {
    return getOrCreate(this.#nextRequests, name, () => new NextRequestTraffic());
  }

  override onFact(fact: ObservedFact): void {
    const { type } = fact;
    const run = fact.run === null ? undefined : this.projection.runs.get(fact.run);
    if (run === undefined) return;
    if (type === "next.asked") return this.#checkAsked(run, fact);
    if (type === "next.answered") return this.#checkAnswered(run, fact);
    const { task } = fact.data;
    if (typeof task !== "string") return;
    const node = nodeOfTask(run.requested, task);
    const { call, iteration: frame } = parseTaskId(task);
    if (type === "task.granted") this.#checkNoOpenRequests(task, fact);
    if (endStatusOf(type) !== null && node !== null && node.chain.length > 0 && call === null && frame === null)
      this.#checkHost(run, node, task, fact);
  }

  override onTurn(_tenant: string, facts: readonly ObservedFact[]): void {
    for (const fact of facts) {
      const run = fact.run === null ? undefined : this.projection.runs.get(fact.run);
      if (run !== undefined && /^run\.(succeeded|failed|cancelled)$/.test(fact.type))
        // A caller that was cancelled with its run gets a cancel instead of an answer.
        for (const task of run.tasks.values()) if (task.endStatus !== "cancelled") this.#checkNoOpenRequests(task.id, fact);
    }
  }

  #checkAsked(run: ProjectedRun, { data, position }: ObservedFact): void {
    const [caller, request, target] = [String(data["task"]), String(data["request"]), String(data["target"])];
    const projected = run.tasks.get(caller);
    const where = `next.asked at position ${position}: ${caller} asks for ${target}`;
    const about = [caller, target];
    this.checkedCount++;
    if (projected === undefined || projected.worker === null || projected.endStatus !== null)
      return this.fail(`${where}, and no worker holds it`, ...about);
    const name = `${caller}#${projected.fence} ${request}`;
    if (this.#asked.has(name)) return this.fail(`${where} twice by request ${request}`, ...about);
    this.#asked.add(name);
    this.#open.set(name, { caller, target });
    const logical = target.slice(0, target.lastIndexOf("~"));
    const number = (this.#calls.get(logical) ?? 0) + 1;
    this.#calls.set(logical, number);
    if (target !== `${logical}~${number}`) return this.fail(`${where} as call ${number} of it`, ...about);
    const [node, next] = [nodeOfTask(run.requested, caller), nodeOfTask(run.requested, target)];
    if (node === null || next === null || run.requested === null) return;
    const host = nodesOfScope(run.requested, parseTaskId(caller).scope)?.[node.host ?? -1];
    const wanted = host?.chain[(node.chainIndex ?? 0) + 1] ?? host?.ordinal;
    if (node.host === null || wanted !== next.ordinal) this.fail(`${where}, which is not the next of its chain`, ...about);
  }

  #checkAnswered(run: ProjectedRun, { data, position }: ObservedFact): void {
    const [caller, request, target] = [String(data["task"]), String(data["request"]), String(data["target"])];
    const where = `next.answered at position ${position}: ${caller} is answered for ${target}`;
    const name = [...this.#open.keys()].find((one) => one.startsWith(`${caller}#`) && one.endsWith(` ${request}`));
    this.checkedCount++;
    if (name === undefined || this.#open.get(name)?.target !== target)
      return this.fail(`${where}, and no such request ${request} was open`, caller, target);
    this.#open.delete(name);
    const end = run.tasks.get(target)?.endStatus ?? null;
    if ((data["code"] === null) !== (end === "succeeded"))
      return this.fail(`${where} with ${String(data["code"])}, and it is ${end ?? "open"}`, caller, target);
    if (data["code"] !== "next_timeout" && data["code"] !== "next_cancelled" && end === null)
      this.fail(`${where} before it has ended`, caller, target);
  }

  /** The attempt or task of a caller has ended: none of its requests is open any more. */
  #checkNoOpenRequests(task: string, { type, position }: ObservedFact): void {
    for (const [name, { caller, target }] of this.#open)
      if (caller === task)
        return this.fail(
          `${type} at position ${position}: ${task} goes on while its request ${name} for ${target} is open`,
          task,
        );
  }

  #checkHost(run: ProjectedRun, host: RequestedNode, task: string, { type, position, data }: ObservedFact): void {
    const { scope } = parseTaskId(task);
    const endIn = (ordinal: number): string | null => run.tasks.get(taskIdOf(run.id, scope, ordinal))?.endStatus ?? null;
    const end = endStatusOf(type);
    const where = `${type} at position ${position}: ${task}`;
    this.checkedCount++;
    // Pinned, or skipped before it was reached: its chain never started.
    if (data["why"] !== undefined || run.tasks.get(task) === undefined) return;
    const outermost = endIn(host.chain[0] ?? -1);
    if (end === "succeeded" || end === "skipped" || end === "failed") {
      if (outermost === null) return this.fail(`${where} ends before its outermost middleware`, task);
      const isFitting = end === "failed" ? outermost === "failed" : hasEndedWell(outermost);
      if (!isFitting) return this.fail(`${where} ends, and its outermost middleware is ${outermost}`, task);
      for (const ordinal of host.chain.slice(1)) {
        const inner = endIn(ordinal);
        const called = this.#calls.get(taskIdOf(run.id, scope, ordinal)) ?? 0;
        if (inner === null) return this.fail(`${where} ends, and its middleware ${ordinal} has not ended`, task);
        if (called === 0 && inner !== "skipped")
          return this.fail(`${where}: middleware ${ordinal} was never called and is ${inner}`, task);
      }
    }
    if (end === "succeeded" && (this.#calls.get(task) ?? 0) === 0) this.fail(`${where} succeeded and was never called`, task);
  }

  #checkAnswer({ boot, worker, connection, sessionKey, payload }: ObservedFrame, seq: number): void {
    const name = `${boot} ${String(payload["requestId"])}`;
    const traffic = this.#trafficOf(name);
    const times = getOrCreate(traffic.answered, sessionKey, () => new Set<number>()).add(seq).size;
    const asks = traffic.asked.get(sessionKey)?.size ?? 0;
    // A request of an earlier session may be answered once in this one.
    const isOlder = [...traffic.asked.keys()].some((one) => one !== sessionKey);
    // An answer that came through another scheduler is kept until the worker is back: it may be sent once more then.
    const isRetold = this.#resumed.has(sessionKey) && (this.world.setup?.schedulers.length ?? 0) > 1;
    this.checkedCount++;
    if (times > asks + (isOlder ? 1 : 0) + (isRetold ? 1 : 0))
      return this.fail(
        `request ${name} was asked ${asks} times in ${sessionKey} and answered ${times} times`,
        worker,
        connection,
      );
    const { result, runId } = payload;
    if (result === undefined) return;
    const text = JSON.stringify(result);
    traffic.result ??= text;
    if (traffic.result !== text)
      this.fail(`request ${name} was answered ${traffic.result} and then ${text}`, worker, String(runId));
  }
}
