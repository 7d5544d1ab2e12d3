import type { JsonObject } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { createAttempt, type LocalAttempt } from "../attempts/attempt.ts";
import { AttemptContext, type AttemptContextPorts, type AttemptContextSettings } from "./attempt-context.ts";

const names = { run_id: "r", task_id: "t", node_id: "n", node_type: "x", package_name: "p", package_version: "1.0.0" };

const contextOf = (parameters: JsonObject): AttemptContext => {
  const attempt = { dispatch: { parameters, constraints: {} } } as LocalAttempt;
  return new AttemptContext(attempt, { config: {}, leased: [] }, {} as AttemptContextSettings, {} as AttemptContextPorts);
};

it("[W720] next and spawn of a handler's context work when the handler has taken the context apart", async () => {
  const attempt = createAttempt({ ...names, parameters: {}, constraints: {}, chain_index: 0 } as LocalAttempt["dispatch"], 1, 0);
  const groups = { started: () => undefined, ended: () => undefined };
  const ports = {
    after: () => () => undefined,
    callNext: (_: unknown, __: unknown, onAnswer: (answer: object) => void) => (
      onAnswer({ result: { echo: "hi" } }), () => undefined
    ),
    processGroups: groups,
  } as unknown as AttemptContextPorts;
  const { next, spawn } = new AttemptContext(attempt, { config: {}, leased: [] }, {} as AttemptContextSettings, ports);

  expect(await next()).toEqual({ echo: "hi" });
  expect(() => spawn("")).toThrow(/argument 'file' cannot be empty/);
});

describe("what a handler is given of granted resources", () => {
  it("[D136] a handler's context has the granted resources of the dispatch by key, and the list of the missing ones", () => {
    const smtp = { resourceId: "r1", type: "file", filename: "a", mimeType: null, sizeBytes: 1, metadata: null, value: "x" };
    const errors = [{ key: "logo", error: "missing_grant" }];

    const context = contextOf({ to: "ann", __resourceBindings: { smtp }, __resourceBindingErrors: errors });

    expect(context.resourceBindings["smtp"]?.value).toBe("x");
    expect(context.secrets).toEqual({ smtp: "x" });
    expect(context.resourceBindingErrors).toEqual(errors);
  });

  it("[D136] a handler's context has no granted resources where the dispatch contains none, or something malformed", () => {
    for (const parameters of [{}, { __resourceBindings: null, __resourceBindingErrors: {} }, { __resourceBindings: [1] }]) {
      const context = contextOf(parameters);

      expect([context.resourceBindings, context.secrets, context.resourceBindingErrors]).toEqual([{}, {}, []]);
    }
  });
});
