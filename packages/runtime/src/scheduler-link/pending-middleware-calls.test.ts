// Calls of a middleware into its chain, seen from the wire: asked, answered, asked again, taken back, and the slot they leave free.
import { describe, expect, it } from "vitest";
import { type DispatchPart, type LinkHarness, readyLinkHarness, succeededOutcome } from "../../test/link-harness.ts";
import type { MiddlewareCallAnswer } from "../handlers/middleware-call.ts";

const middleware: DispatchPart = { node_id: "m", host_node_id: "h", middleware_chain: ["m"], chain_index: 0 };

function ask(harness: LinkHarness, task: string, words: object = {}) {
  const answers: MiddlewareCallAnswer[] = [];
  const forget = harness.link.nextCalled(harness.attempt(task), { argumentsJson: JSON.stringify(words) }, (answer) =>
    answers.push(answer),
  );
  harness.flush();
  return { answers, forget };
}

let seq = 100;
const respond = (harness: LinkHarness, requestId: string, outcome: object, at = seq++) =>
  harness.sendToLink(
    "biz.exec.next.response",
    { requestId, runId: "r", nodeId: "m", middlewareId: "m", ...outcome },
    { seq: at },
  );
const requests = (harness: LinkHarness) => harness.frames("biz.exec.next.request");
const idOf = (harness: LinkHarness) => String(requests(harness).at(-1)?.payload["requestId"]);

describe("a call of the next in a chain", () => {
  it("[W151] a middleware's call of next names its attempt, carries the handler's arguments, and delivers the answer once", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a", { ...middleware, fence: 3 });

    const { answers } = ask(harness, "a", { payload: { text: "x" }, timeoutMs: 500 });
    expect(requests(harness)).toMatchObject([{ corr: "a", ack: { request: true } }]);
    const names = { requestId: idOf(harness), runId: "r", nodeId: "m", middlewareId: "m", chainIndex: 0, task_id: "a", fence: 3 };
    expect(requests(harness)[0]?.payload).toEqual({ ...names, payload: { text: "x" }, timeoutMs: 500 });
    respond(harness, idOf(harness), { result: { echo: "hi" } }, 1);
    respond(harness, idOf(harness), { result: { echo: "again" } }, 2);
    harness.flush();

    expect(answers).toEqual([{ result: { echo: "hi" } }]);
    expect(harness.payload("control.ack")).toMatchObject({ ack_seq: 2 });
  });

  it("[W151] a middleware's call of next passes an error on with its code and trace", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a", middleware);
    const { answers } = ask(harness, "a");

    respond(harness, idOf(harness), { error: { code: "next_failed", message: "it threw" }, trace: { target: "h" } }, 1);

    expect(answers).toEqual([{ error: { code: "next_failed", message: "it threw" }, trace: { target: "h" } }]);
  });

  it("[W152] a middleware that waits for its call of next frees its slot, so one slot is enough for a chain", () => {
    const harness = readyLinkHarness({ maxParallel: 1 });
    harness.dispatch("outer", middleware);
    harness.dispatch("other");
    expect(harness.started.map(({ task }) => task)).toEqual(["outer"]);

    const { answers } = ask(harness, "outer");
    expect(harness.started.map(({ task }) => task)).toEqual(["outer", "other"]);
    harness.dispatch("inner", { node_id: "h" });
    expect(harness.started).toHaveLength(2);
    harness.finish("other");
    expect(harness.started.map(({ task }) => task)).toEqual(["outer", "other", "inner"]);
    harness.finish("inner", succeededOutcome());
    respond(harness, idOf(harness), { result: {} }, 3);
    expect(answers).toHaveLength(1);
    // It runs again and takes its slot: nothing else starts beside it.
    harness.dispatch("late", { seq: 4 });
    expect(harness.started.map(({ task }) => task)).not.toContain("late");
    harness.finish("outer");

    expect(harness.started.at(-1)?.task).toBe("late");
    expect(harness.link.status).toMatchObject({ occupied: 1 });
  });

  it("[W153] an open call of next is sent again under the same id in a new session, acked or not; a resumed session repeats no acked one", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a", middleware);
    harness.dispatch("b", middleware);
    ask(harness, "a");
    const [first] = requests(harness);
    harness.ackUpTo(0);
    ask(harness, "b");
    harness.link.connectionLost("gone");
    harness.advance(0);
    harness.resumeSession(0);
    expect(requests(harness).map(({ corr }) => corr)).toEqual(["a", "b", "b"]);
    harness.link.connectionLost("gone");
    harness.advance(1_000);

    harness.openSession();

    const again = requests(harness).slice(3);
    expect(new Set(again.map(({ corr }) => corr))).toEqual(new Set(["a", "b"]));
    expect(again.find(({ corr }) => corr === "a")?.payload).toEqual(first?.payload);
  });

  it("[W154] a call of next ends with its attempt: after a cancel it is not sent again, and a late answer is dropped", () => {
    const harness = readyLinkHarness({ maxParallel: 1 });
    harness.dispatch("a", { ...middleware, fence: 3 });
    const { answers } = ask(harness, "a");
    const id = idOf(harness);
    harness.ackUpTo(0);

    harness.cancel("a", 3);
    respond(harness, id, { result: {} }, 2);
    harness.dispatch("b", { seq: 3 });
    expect(answers).toEqual([]);
    expect(harness.started.map(({ task }) => task)).toEqual(["a"]);
    harness.link.handlerReturned(harness.attempt("a"));
    expect(harness.started.map(({ task }) => task)).toEqual(["a", "b"]);
    harness.link.connectionLost("gone");
    harness.advance(1_000);
    harness.openSession();

    expect(requests(harness)).toHaveLength(1);
  });

  it("[W154] a call of next that its handler took back is not sent again, and its attempt occupies its slot again", () => {
    const harness = readyLinkHarness({ maxParallel: 1 });
    harness.dispatch("a", middleware);
    const { answers, forget } = ask(harness, "a");
    harness.ackUpTo(0);

    forget();
    harness.dispatch("b");
    respond(harness, idOf(harness), { result: {} }, 2);
    harness.link.connectionLost("gone");
    harness.advance(1_000);
    harness.openSession();

    expect(answers).toEqual([]);
    expect(harness.started.map(({ task }) => task)).toEqual(["a"]);
    expect(requests(harness)).toHaveLength(1);
  });

  it("[W155] a call of next from an ended attempt is refused at once; one that the scheduler rejects fails", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a", { ...middleware, fence: 3 });
    harness.dispatch("b", middleware);
    const { answers } = ask(harness, "b");
    const { id } = harness.lastFrame("biz.exec.next.request");
    harness.cancel("a", 3);

    const late = ask(harness, "a");
    harness.sendToLink(
      "control.ack",
      { ok: false, for: id, info: "E.CMD.UNKNOWN: no", ack_seq: 0, ack_bitmap: 0 },
      { ack: { for: id } },
    );

    expect(late.answers).toMatchObject([{ error: { code: "next_cancelled" } }]);
    expect(answers).toMatchObject([{ error: { code: "next_unavailable", message: "E.CMD.UNKNOWN: no" } }]);
    expect(requests(harness)).toHaveLength(1);
  });

  it("[W155] a call of next that the scheduler cannot read fails without stopping its attempt", () => {
    const harness = readyLinkHarness();
    harness.dispatch("a", middleware);
    const { answers } = ask(harness, "a");

    for (let n = 0; n < 2; n++) {
      harness.sendToLink("control.reset", { code: "E.FRAME.INVALID", reason: "payload.timeoutMs" });
      harness.advance(2_000);
      harness.openSession();
    }

    expect(answers).toMatchObject([{ error: { code: "next_unavailable" } }]);
    expect(harness.attempt("a").stopSignal.isStopped).toBe(false);
  });
});
