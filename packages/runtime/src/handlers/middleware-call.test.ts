// What a middleware's handler sees of its call: the promise, its error, its end with the task and with its time.
import type { DispatchPayload, JsonObject } from "@astraflow/protocol";
import { NextError } from "@astraflow/sdk";
import { describe, expect, it } from "vitest";
import { createAttempt, type LocalAttempt } from "../attempts/attempt.ts";
import { callNext, type MiddlewareCallAnswer } from "./middleware-call.ts";

function play(part: Partial<DispatchPayload> = { chain_index: 0 }) {
  const names = { run_id: "r", task_id: "t", node_id: "n", node_type: "x", package_name: "p", package_version: "1.0.0" };
  const attempt = createAttempt({ ...names, parameters: {}, constraints: {}, ...part }, 1, 0);
  const asked: string[] = [];
  const timers: { ms: number; call: () => void; isCancelled: boolean }[] = [];
  let answer: (answer: MiddlewareCallAnswer) => void = () => {};
  let forgotten = 0;
  const ports = {
    after(ms: number, call: () => void) {
      const timer = { ms, call, isCancelled: false };
      timers.push(timer);
      return () => {
        timer.isCancelled = true;
      };
    },
    callNext(_: LocalAttempt, draft: { argumentsJson: string }, onAnswer: typeof answer) {
      asked.push(draft.argumentsJson);
      answer = onAnswer;
      return () => {
        forgotten++;
      };
    },
  };
  return { attempt, ports, asked, timers, answer: (one: MiddlewareCallAnswer) => answer(one), forgotten: () => forgotten };
}

describe("next", () => {
  it("[W156] a middleware's call of next returns the result and cancels its own time limit", async () => {
    const p = play();
    const result = callNext(p.attempt, p.ports, { payload: { a: 1 }, timeoutMs: 100 });

    p.answer({ result: { echo: "hi" } });

    expect(await result).toEqual({ echo: "hi" });
    expect(p.asked).toEqual(['{"payload":{"a":1},"timeoutMs":100}']);
    expect(p.timers).toMatchObject([{ ms: 5_100, isCancelled: true }]);
    p.attempt.stopSignal.stop(new Error("late"));
    expect(p.forgotten()).toBe(0);
  });

  it("[W156] a middleware's call of next throws an error with the code and trace of the failed call", async () => {
    const p = play();
    const result = callNext(p.attempt, p.ports, {});

    p.answer({ error: { code: "next_failed", message: "it threw" }, trace: { target: "h" } });

    await expect(result).rejects.toMatchObject({ name: "NextError", code: "next_failed", trace: { target: "h" } });
    await expect(result).rejects.toBeInstanceOf(NextError);
  });

  it("[W156] next can be called by middlewares only, with an object and a whole number of milliseconds", async () => {
    const environment = play({});
    await expect(callNext(environment.attempt, environment.ports, {})).rejects.toMatchObject({ code: "next_no_chain" });
    const p = play();
    await expect(callNext(p.attempt, p.ports, { payload: [] as never })).rejects.toMatchObject({ code: "E.FRAME.INVALID" });
    await expect(callNext(p.attempt, p.ports, { timeoutMs: 0.5 })).rejects.toMatchObject({ code: "E.FRAME.INVALID" });

    expect([...environment.asked, ...p.asked]).toEqual([]);
  });

  it("[W200] a middleware's call of next that the scheduler could not read is refused to its handler, and nothing is sent", async () => {
    const p = play();
    let deep: JsonObject = {};
    for (let level = 0; level < 100; level++) deep = { deep };

    for (const args of [{ payload: deep }, { hostCtx: { constructor: {} } }, { middlewareCtx: { "a\u0000": 1 } }])
      await expect(callNext(p.attempt, p.ports, args as never)).rejects.toMatchObject({
        code: expect.stringMatching(/^E\.FRAME\./),
        message: expect.stringContaining("the call of next cannot be sent"),
      });

    expect(p.asked).toEqual([]);
  });

  it("[W154] a middleware's call of next ends when the task is stopped, and none is made afterwards", async () => {
    const p = play();
    const result = callNext(p.attempt, p.ports, { timeoutMs: 100 });

    p.attempt.stopSignal.stop(new Error("cancelled by the scheduler"));
    p.answer({ result: {} });

    await expect(result).rejects.toThrow("cancelled by the scheduler");
    expect(p.forgotten()).toBe(1);
    expect(p.timers[0]?.isCancelled).toBe(true);
    await expect(callNext(p.attempt, p.ports, {})).rejects.toThrow("cancelled by the scheduler");
    expect(p.asked).toHaveLength(1);
  });

  it("[W156] a middleware's call of next times out by itself when the scheduler cannot be reached", async () => {
    const p = play();
    const result = callNext(p.attempt, p.ports, { timeoutMs: 100 });

    p.timers[0]?.call();

    await expect(result).rejects.toMatchObject({ code: "next_timeout" });
    expect(p.forgotten()).toBe(1);
  });
});
