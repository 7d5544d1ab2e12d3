import { Fault, fault, limits, readPayload } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import {
  type AttemptOutcome,
  encodeOutcome,
  errorOutcome,
  readReturnedOutcome,
  readThrownOutcome,
  summarizeOutcome,
} from "./outcome.ts";

const about = { run: "r", task: "t", fence: 3, dispatch: { node_id: "n" } };

const statusOf = (status: unknown) => {
  const outcome = readReturnedOutcome({ status }, 1);
  return outcome.type === "result" ? outcome.status : outcome.code;
};

describe("what a handler returns", () => {
  it("[W910] status and code of an outcome are the same whether it is still a value or was written as text", () => {
    const outcomes: [AttemptOutcome, string, string][] = [
      [readReturnedOutcome({ outputs: { status: "no", code: "E.NO", error: { code: "E.NO" } } }, 1), "succeeded", "OK"],
      [readReturnedOutcome({ status: "skipped" }, 1), "skipped", "OK"],
      [readReturnedOutcome({ status: "failed", error: { code: "E.MINE", message: "m" } }, 1), "failed", "E.MINE"],
      [errorOutcome('"code":"E.NO"', "worker.runner", "E.TIMEOUT"), "failed", "E.TIMEOUT"],
    ];

    for (const [outcome, status, code] of outcomes) {
      expect(summarizeOutcome(outcome)).toEqual({ status, code });
      const strange = { ...about, task: '"status":"FAILED","code":"E.NO"' };
      expect(summarizeOutcome({ type: "written", ...encodeOutcome(strange, outcome) })).toEqual({ status, code });
    }
  });

  it("[W30] the statuses that handlers in the field return are read case-insensitively, and any other status counts as a failure", () => {
    expect([undefined, "success", "Succeed", "SUCCEEDED", "allowed", "blocked", "ok", "done"].map(statusOf)).toEqual(
      Array(8).fill("SUCCEEDED"),
    );
    expect(["error", "FAIL", "failed", "", "whatever", 7, "constructor"].map(statusOf)).toEqual(Array(7).fill("FAILED"));
    expect(["cancel", "Cancelled"].map(statusOf)).toEqual(["CANCELLED", "CANCELLED"]);
    expect(["skip", "SKIPPED"].map(statusOf)).toEqual(["SKIPPED", "SKIPPED"]);
  });

  it("[W30] a handler's result is its outputs if it returns any, else all keys it returned that are not reserved", () => {
    const artifact = { resource_id: "x", worker_name: "w", type: "file" };

    expect(
      readReturnedOutcome(
        { status: "ok", outputs: { a: 1 }, b: 2, metadata: { m: 1 }, artifacts: [artifact, { type: "file" }, "x"] },
        5,
      ),
    ).toEqual({
      type: "result",
      status: "SUCCEEDED",
      result: { a: 1 },
      durationMs: 5,
      metadata: { m: 1 },
      artifacts: [artifact],
    });
    expect(readReturnedOutcome({ status: "ok", b: 2, c: null, metadata: "no", artifacts: [] }, 5)).toEqual({
      type: "result",
      status: "SUCCEEDED",
      result: { b: 2, c: null },
      durationMs: 5,
    });
  });

  it("[W30] a failed result contains the reason, taken from the error that the handler returned if there is one", () => {
    const errors = [
      { status: "failed", error: "no disk" },
      { status: "failed", error: { code: "X.Y", message: "m" } },
      { status: "odd" },
    ]
      .map((returned) => readReturnedOutcome(returned, 1))
      .map((outcome) => (outcome.type === "result" ? outcome.error : undefined));

    expect(errors).toEqual([
      { code: "E.RUNNER.FAILURE", message: "no disk" },
      { code: "X.Y", message: "m" },
      { code: "E.RUNNER.FAILURE", message: 'the handler returned status "odd"' },
    ]);
  });

  it("[W30] a handler's return value that is not an object is refused", () => {
    for (const returned of [undefined, null, "text", 7, ["a"], true]) {
      expect(readReturnedOutcome(returned, 1)).toMatchObject({ type: "error", code: "E.RUNNER.FAILURE", where: "worker.runner" });
    }
  });

  it("[W31] whatever a handler throws becomes an error with a message that is never empty", () => {
    const thrown = [
      new Error("boom"),
      new Error(""),
      "text",
      undefined,
      null,
      { odd: 1 },
      Object.assign(new Error("x"), { message: 7 }),
    ];

    const messages = thrown.map((one) => readThrownOutcome(one).message);

    expect(messages.slice(0, 3)).toEqual(["boom", "Error", 'the handler threw "text"']);
    for (const message of messages) expect(message.length).toBeGreaterThan(0);
    expect(readThrownOutcome(fault("E.RESOURCE.MISSING", "gone")).code).toBe("E.RESOURCE.MISSING");
  });
});

describe("the word about an outcome", () => {
  const read = (outcome: AttemptOutcome) => {
    const { frameType: type, payload } = encodeOutcome(about, outcome);
    const value = readPayload("v2", type, JSON.parse(payload));
    if (value instanceof Fault) throw value;
    return { type, value };
  };

  it("[W31] an error frame names run, task, fence and node, also where older readers look for them", () => {
    expect(read(errorOutcome("no", "worker.runner"))).toEqual({
      type: "biz.exec.error",
      value: {
        run_id: "r",
        task_id: "t",
        fence: 3,
        code: "E.RUNNER.FAILURE",
        message: "no",
        context: { where: "worker.runner", details: { run_id: "r", task_id: "t", node_id: "n" } },
      },
    });
  });

  it("[W31] a result that cannot be written as JSON is sent as an error", () => {
    const circle: Record<string, unknown> = {};
    circle["self"] = circle;
    const throwing = {
      toJSON() {
        throw new Error("no way");
      },
    };
    for (const result of [circle, { big: 1n }, { throwing }]) {
      expect(read({ type: "result", status: "SUCCEEDED", result: result as never, durationMs: 1 })).toMatchObject({
        type: "biz.exec.error",
        value: { code: "E.RUNNER.FAILURE" },
      });
    }
  });

  it("[W31] a result larger than a frame is sent as an error, so that it does not cost the session", () => {
    const result = { text: "x".repeat(limits.frameBytesMax) };

    expect(read({ type: "result", status: "SUCCEEDED", result, durationMs: 1 })).toMatchObject({
      type: "biz.exec.error",
      value: { code: "E.FRAME.TOO_LARGE" },
    });
  });

  it("[W166] a result above the inline limit leaves its largest values at the worker, and contains references to them", () => {
    const kept: [string, number, string][] = [];
    const spill = {
      inlineBytesMax: 20_000,
      keep(id: string, text: string, scope: string) {
        kept.push([id, text.length, scope]);
        return { resource_id: id, worker_name: "box", type: "json" };
      },
    };
    const about = { run: "r", task: "r.4*2/7", fence: 3, dispatch: { node_id: "n" } };
    const result = { image: "x".repeat(30_000), table: "y".repeat(15_000), "odd key": "z".repeat(40_000), width: 3 };

    const small = encodeOutcome(about, readReturnedOutcome({ width: 3 }, 1), spill);
    const large = encodeOutcome(
      about,
      readReturnedOutcome({ outputs: result, artifacts: [{ resource_id: "a", type: "t" }] }, 1, {
        workerName: "box",
        isKeptResource: () => true,
      }),
      spill,
    );

    expect(JSON.parse(small.payload)).toMatchObject({ result: { width: 3 } });
    expect(JSON.parse(small.payload)).not.toHaveProperty("artifacts");
    const odd = expect.stringMatching(/^[0-9a-f]{32}#3$/);
    expect(kept).toEqual([
      [odd, 40_002, "r"],
      ["r.4*2/7#3/results.image", 30_002, "r"],
    ]);
    const sent = JSON.parse(large.payload) as { result: Record<string, unknown>; artifacts: object[] };
    expect(sent.result).toEqual({
      image: { resourceRef: { resourceId: "r.4*2/7#3/results.image", workerName: "box", type: "json" } },
      "odd key": { resourceRef: { resourceId: odd, workerName: "box", type: "json" } },
      table: result.table,
      width: 3,
    });
    expect(sent.artifacts).toMatchObject([{ resource_id: "a", worker_name: "box" }, {}, {}]);
  });

  it("[W166] a result that is too large to send and cannot be stored fails with the reason", () => {
    const spill = {
      inlineBytesMax: 100,
      keep: () => {
        throw fault("E.RESOURCE.FULL", "no room");
      },
    };
    const about = { run: "r", task: "t", fence: 3, dispatch: { node_id: "n" } };

    const { frameType: type, payload } = encodeOutcome(about, readReturnedOutcome({ text: "x".repeat(200) }, 1), spill);

    expect(type).toBe("biz.exec.error");
    expect(JSON.parse(payload)).toMatchObject({ code: "E.RESOURCE.FULL", context: { where: "worker.resources" } });
  });

  it("[W201] many small values of a large result stay in it: references to them would be larger", () => {
    const keep = (id: string) => ({ resource_id: id, worker_name: "box", type: "json" });
    const result = Object.fromEntries(Array.from({ length: 3_000 }, (_, index) => [`key${index}`, index]));

    const { payload } = encodeOutcome(about, readReturnedOutcome(result, 1), { inlineBytesMax: 20_000, keep });

    expect(JSON.parse(payload)).toMatchObject({ status: "SUCCEEDED", result });
  });

  it("[W200] a failure reason or a thrown fault with a code that is no name is sent under the general code", () => {
    const returned = readReturnedOutcome({ status: "error", error: { code: "a\nb", message: "m" } }, 1);
    const thrown = readThrownOutcome(fault("a\u0000" as never, "m"));

    expect(returned).toMatchObject({ error: { code: "E.RUNNER.FAILURE", message: "m" } });
    expect(thrown).toMatchObject({ code: "E.RUNNER.FAILURE", message: "m" });
  });
});
