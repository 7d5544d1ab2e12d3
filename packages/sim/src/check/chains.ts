// I44: what a middleware asks for is run once and answered once. Only who holds its attempt asks; a call is the next of its chain, numbered as
// asked; each request is answered once in the log, and on the wire once for each time it was asked; what was never called is skipped, and a
// host ends as its outermost does.

import type { Bench, Checker } from "./checker.ts";
import { endOf, type RunLife } from "./lives.ts";
import type { Fact } from "./log-book.ts";
import { type NodePlan, nodeOfTask, nodesIn, placeOf, taskIn } from "./plans.ts";
import type { WireFrame } from "./wire.ts";

interface Talk {
  /** Numbers under which the request arrived and its answers left, by session. */
  readonly asked: Map<string, Set<string>>;
  readonly answered: Map<string, Set<string>>;
  result: string | null;
}

export function chains({ fail, lives, scene }: Bench): Checker {
  /** Sessions that went on over another socket. */
  const resumed = new Set<string>();
  /** Requests without an answer in the log: `<caller>#<fence> <request>` to what was called. */
  const open = new Map<string, { readonly caller: string; readonly target: string }>();
  const asked = new Set<string>();
  /** How often a node was called, by its task. */
  const calls = new Map<string, number>();
  /** By boot and request. */
  const talks = new Map<string, Talk>();
  let saw = 0;

  const judgeAsked = (run: RunLife, { data, position }: Fact): void => {
    const [caller, request, target] = [String(data["task"]), String(data["request"]), String(data["target"])];
    const life = run.tasks.get(caller);
    const where = `next.asked at position ${position}: ${caller} asks for ${target}`;
    const about = [caller, target];
    saw++;
    if (life === undefined || life.worker === null || life.end !== null) return fail(`${where}, and nobody holds it`, about);
    const name = `${caller}#${life.fence} ${request}`;
    if (asked.has(name)) return fail(`${where} twice by request ${request}`, about);
    asked.add(name);
    open.set(name, { caller, target });
    const logical = target.slice(0, target.lastIndexOf("~"));
    const number = (calls.get(logical) ?? 0) + 1;
    calls.set(logical, number);
    if (target !== `${logical}~${number}`) return fail(`${where} as call ${number} of it`, about);
    const [node, next] = [nodeOfTask(run.plan, caller), nodeOfTask(run.plan, target)];
    if (node === null || next === null || run.plan === null) return;
    const host = nodesIn(run.plan, placeOf(caller).scope)?.[node.host ?? -1];
    const wanted = host?.chain[(node.chainIndex ?? 0) + 1] ?? host?.ordinal;
    if (node.host === null || wanted !== next.ordinal) fail(`${where}, which is not the next of its chain`, about);
  };

  const judgeAnswered = (run: RunLife, { data, position }: Fact): void => {
    const [caller, request, target] = [String(data["task"]), String(data["request"]), String(data["target"])];
    const where = `next.answered at position ${position}: ${caller} is answered for ${target}`;
    const name = [...open.keys()].find((one) => one.startsWith(`${caller}#`) && one.endsWith(` ${request}`));
    saw++;
    if (name === undefined || open.get(name)?.target !== target)
      return fail(`${where}, and no such request ${request} was open`, [caller, target]);
    open.delete(name);
    const end = run.tasks.get(target)?.end ?? null;
    if ((data["code"] === null) !== (end === "succeeded"))
      return fail(`${where} with ${String(data["code"])}, and it is ${end ?? "open"}`, [caller, target]);
    if (data["code"] !== "next_timeout" && data["code"] !== "next_cancelled" && end === null)
      fail(`${where} before it has ended`, [caller, target]);
  };

  /** The attempt of a caller is over, or its task: nothing it asked for is open any more. */
  const judgeOver = (task: string, { type, position }: Fact): void => {
    for (const [name, { caller, target }] of open)
      if (caller === task)
        return fail(`${type} at position ${position}: ${task} goes on while its request ${name} for ${target} is open`, [task]);
  };

  const judgeHost = (run: RunLife, host: NodePlan, task: string, { type, position, data }: Fact): void => {
    const { scope } = placeOf(task);
    const endIn = (ordinal: number): string | null => run.tasks.get(taskIn(run.id, scope, ordinal))?.end ?? null;
    const end = endOf(type);
    const where = `${type} at position ${position}: ${task}`;
    saw++;
    // Given from the start, or left out before it was reached: its chain never came to be.
    if (data["why"] !== undefined || run.tasks.get(task) === undefined) return;
    const outermost = endIn(host.chain[0] ?? -1);
    if (end === "succeeded" || end === "skipped" || end === "failed") {
      if (outermost === null) return fail(`${where} ends before its outermost middleware`, [task]);
      const isFitting = end === "failed" ? outermost === "failed" : isGood(outermost);
      if (!isFitting) return fail(`${where} ends, and its outermost middleware is ${outermost}`, [task]);
      for (const ordinal of host.chain.slice(1)) {
        const inner = endIn(ordinal);
        const called = calls.get(taskIn(run.id, scope, ordinal)) ?? 0;
        if (inner === null) return fail(`${where} ends, and its middleware ${ordinal} is nothing`, [task]);
        if (called === 0 && inner !== "skipped")
          return fail(`${where}: middleware ${ordinal} was never called and is ${inner}`, [task]);
      }
    }
    if (end === "succeeded" && (calls.get(task) ?? 0) === 0) fail(`${where} ends well and was never called`, [task]);
  };

  const hearWire = (frame: WireFrame): void => {
    const { seen, stream, seq, payload } = frame;
    const isAccept = frame.type === "control.session.accept" && payload["resumed"] === true;
    if (isAccept && seen.event === "sent") resumed.add(String(payload["session_id"]));
    const isAsking = frame.type === "biz.exec.next.request";
    if (seq === null || (!isAsking && frame.type !== "biz.exec.next.response")) return;
    if (seen.event !== (isAsking ? "delivered" : "sent")) return;
    const name = `${seen.boot} ${String(payload["requestId"])}`;
    const talk = talks.get(name) ?? {
      asked: new Map<string, Set<string>>(),
      answered: new Map<string, Set<string>>(),
      result: null,
    };
    talks.set(name, talk);
    const list = isAsking ? talk.asked : talk.answered;
    list.set(stream, (list.get(stream) ?? new Set<string>()).add(String(seq)));
    if (!isAsking) judgeAnswer(frame, talk, name);
  };

  const judgeAnswer = ({ seen, stream, payload }: WireFrame, talk: Talk, name: string): void => {
    const times = talk.answered.get(stream)?.size ?? 0;
    const asks = talk.asked.get(stream)?.size ?? 0;
    // What was asked in an earlier session may be answered in this one unasked, once.
    const isOlder = [...talk.asked.keys()].some((one) => one !== stream);
    // What went through another scheduler to the one that holds the socket is owed until the worker is back: it may be said once more then.
    const isRetold = resumed.has(stream) && (scene.setUp?.schedulers.length ?? 0) > 1;
    saw++;
    if (times > asks + (isOlder ? 1 : 0) + (isRetold ? 1 : 0))
      return fail(`request ${name} was asked ${asks} times in ${stream} and answered ${times} times`, [
        seen.worker,
        seen.connection,
      ]);
    const { result, runId } = payload;
    if (result === undefined) return;
    const text = JSON.stringify(result);
    talk.result ??= text;
    if (talk.result !== text) fail(`request ${name} was answered ${talk.result} and then ${text}`, [seen.worker, String(runId)]);
  };

  return {
    get saw() {
      return saw;
    },
    frame: hearWire,
    fact(fact) {
      const { type } = fact;
      const run = fact.run === null ? undefined : lives.run(fact.run);
      if (run === undefined) return;
      if (type === "next.asked") return judgeAsked(run, fact);
      if (type === "next.answered") return judgeAnswered(run, fact);
      const { task } = fact.data;
      if (typeof task !== "string") return;
      const node = nodeOfTask(run.plan, task);
      const { call, frame } = placeOf(task);
      if (type === "task.granted") judgeOver(task, fact);
      if (endOf(type) !== null && node !== null && node.chain.length > 0 && call === null && frame === null)
        judgeHost(run, node, task, fact);
    },
    turn(_tenant, facts) {
      for (const fact of facts) {
        const run = fact.run === null ? undefined : lives.run(fact.run);
        if (run !== undefined && /^run\.(succeeded|failed|cancelled)$/.test(fact.type))
          // Whoever was cancelled with its run is told to stop, which is answer enough.
          for (const task of run.tasks.values()) if (task.end !== "cancelled") judgeOver(task.id, fact);
      }
    },
  };
}

const isGood = (end: string | null): boolean => end === "succeeded" || end === "skipped";
