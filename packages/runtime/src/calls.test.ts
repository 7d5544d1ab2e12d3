// Calls of a middleware into its chain, seen from the wire: asked, answered, asked again, taken back, and the slot they leave free.
import { describe, expect, it } from "vitest";
import { type DispatchPart, type Rig, readyRig, succeeded } from "../test/link-rig.ts";
import type { NextAnswer } from "./next.ts";

const middleware: DispatchPart = { node_id: "m", host_node_id: "h", middleware_chain: ["m"], chain_index: 0 };

function ask(rig: Rig, task: string, words: object = {}) {
  const answers: NextAnswer[] = [];
  const forget = rig.link.next(rig.attempt(task), { words: JSON.stringify(words) }, (answer) => answers.push(answer));
  rig.flush();
  return { answers, forget };
}

let seq = 100;
const respond = (rig: Rig, requestId: string, outcome: object, at = seq++) =>
  rig.say("biz.exec.next.response", { requestId, runId: "r", nodeId: "m", middlewareId: "m", ...outcome }, { seq: at });
const requests = (rig: Rig) => rig.frames("biz.exec.next.request");
const idOf = (rig: Rig) => String(requests(rig).at(-1)?.payload["requestId"]);

describe("a call of the next in a chain", () => {
  it("[W151] names its attempt, carries what was said, and gives the answer once", () => {
    const rig = readyRig();
    rig.dispatch("a", { ...middleware, fence: 3 });

    const { answers } = ask(rig, "a", { payload: { text: "x" }, timeoutMs: 500 });
    expect(requests(rig)).toMatchObject([{ corr: "a", ack: { request: true } }]);
    const names = { requestId: idOf(rig), runId: "r", nodeId: "m", middlewareId: "m", chainIndex: 0, task_id: "a", fence: 3 };
    expect(requests(rig)[0]?.payload).toEqual({ ...names, payload: { text: "x" }, timeoutMs: 500 });
    respond(rig, idOf(rig), { result: { echo: "hi" } }, 1);
    respond(rig, idOf(rig), { result: { echo: "again" } }, 2);
    rig.flush();

    expect(answers).toEqual([{ result: { echo: "hi" } }]);
    expect(rig.payload("control.ack")).toMatchObject({ ack_seq: 2 });
  });

  it("[W151] hands an error on with its code and trace", () => {
    const rig = readyRig();
    rig.dispatch("a", middleware);
    const { answers } = ask(rig, "a");

    respond(rig, idOf(rig), { error: { code: "next_failed", message: "it threw" }, trace: { target: "h" } }, 1);

    expect(answers).toEqual([{ error: { code: "next_failed", message: "it threw" }, trace: { target: "h" } }]);
  });

  it("[W152] leaves its slot to the very call it waits for, so one slot is enough for a chain", () => {
    const rig = readyRig({ maxParallel: 1 });
    rig.dispatch("outer", middleware);
    rig.dispatch("other");
    expect(rig.started.map(({ task }) => task)).toEqual(["outer"]);

    const { answers } = ask(rig, "outer");
    expect(rig.started.map(({ task }) => task)).toEqual(["outer", "other"]);
    rig.dispatch("inner", { node_id: "h" });
    expect(rig.started).toHaveLength(2);
    rig.finish("other");
    expect(rig.started.map(({ task }) => task)).toEqual(["outer", "other", "inner"]);
    rig.finish("inner", succeeded());
    respond(rig, idOf(rig), { result: {} }, 3);
    expect(answers).toHaveLength(1);
    // It runs again and takes its slot: nothing else starts beside it.
    rig.dispatch("late", { seq: 4 });
    expect(rig.started.map(({ task }) => task)).not.toContain("late");
    rig.finish("outer");

    expect(rig.started.at(-1)?.task).toBe("late");
    expect(rig.link.view).toMatchObject({ occupied: 1 });
  });

  it("[W153] is asked again in a new session under the same id, whether or not the last one had acked it, and not in the same", () => {
    const rig = readyRig();
    rig.dispatch("a", middleware);
    rig.dispatch("b", middleware);
    ask(rig, "a");
    const [first] = requests(rig);
    rig.ackWords(0);
    ask(rig, "b");
    rig.link.lost("gone");
    rig.advance(0);
    rig.resume(0);
    expect(requests(rig).map(({ corr }) => corr)).toEqual(["a", "b", "b"]);
    rig.link.lost("gone");
    rig.advance(1_000);

    rig.connect();

    const again = requests(rig).slice(3);
    expect(new Set(again.map(({ corr }) => corr))).toEqual(new Set(["a", "b"]));
    expect(again.find(({ corr }) => corr === "a")?.payload).toEqual(first?.payload);
  });

  it("[W154] ends with its attempt: nothing is asked again for one that was cancelled, and a late answer reaches nobody", () => {
    const rig = readyRig({ maxParallel: 1 });
    rig.dispatch("a", { ...middleware, fence: 3 });
    const { answers } = ask(rig, "a");
    const id = idOf(rig);
    rig.ackWords(0);

    rig.cancel("a", 3);
    respond(rig, id, { result: {} }, 2);
    rig.dispatch("b", { seq: 3 });
    expect(answers).toEqual([]);
    expect(rig.started.map(({ task }) => task)).toEqual(["a"]);
    rig.link.settled(rig.attempt("a"));
    expect(rig.started.map(({ task }) => task)).toEqual(["a", "b"]);
    rig.link.lost("gone");
    rig.advance(1_000);
    rig.connect();

    expect(requests(rig)).toHaveLength(1);
  });

  it("[W154] that its handler took back is not asked again, and takes the slot back", () => {
    const rig = readyRig({ maxParallel: 1 });
    rig.dispatch("a", middleware);
    const { answers, forget } = ask(rig, "a");
    rig.ackWords(0);

    forget();
    rig.dispatch("b");
    respond(rig, idOf(rig), { result: {} }, 2);
    rig.link.lost("gone");
    rig.advance(1_000);
    rig.connect();

    expect(answers).toEqual([]);
    expect(rig.started.map(({ task }) => task)).toEqual(["a"]);
    expect(requests(rig)).toHaveLength(1);
  });

  it("[W155] of an attempt that is over is refused at once; one that the scheduler does not take fails", () => {
    const rig = readyRig();
    rig.dispatch("a", { ...middleware, fence: 3 });
    rig.dispatch("b", middleware);
    const { answers } = ask(rig, "b");
    const { id } = rig.last("biz.exec.next.request");
    rig.cancel("a", 3);

    const late = ask(rig, "a");
    rig.say("control.ack", { ok: false, for: id, info: "E.CMD.UNKNOWN: no", ack_seq: 0, ack_bitmap: 0 }, { ack: { for: id } });

    expect(late.answers).toMatchObject([{ error: { code: "next_cancelled" } }]);
    expect(answers).toMatchObject([{ error: { code: "next_unavailable", message: "E.CMD.UNKNOWN: no" } }]);
    expect(requests(rig)).toHaveLength(1);
  });

  it("[W155] that the scheduler cannot read fails alone", () => {
    const rig = readyRig();
    rig.dispatch("a", middleware);
    const { answers } = ask(rig, "a");

    for (let n = 0; n < 2; n++) {
      rig.say("control.reset", { code: "E.FRAME.INVALID", reason: "payload.timeoutMs" });
      rig.advance(2_000);
      rig.connect();
    }

    expect(answers).toMatchObject([{ error: { code: "next_unavailable" } }]);
    expect(rig.attempt("a").stop.isStopped).toBe(false);
  });
});
