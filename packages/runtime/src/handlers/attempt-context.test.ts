import type { JsonObject } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import type { LocalAttempt } from "../attempts/attempt.ts";
import { AttemptContext, type AttemptContextPorts, type AttemptContextSettings } from "./attempt-context.ts";

const contextOf = (parameters: JsonObject): AttemptContext => {
  const attempt = { dispatch: { parameters } } as LocalAttempt;
  return new AttemptContext(attempt, { config: {}, leased: [] }, {} as AttemptContextSettings, {} as AttemptContextPorts);
};

describe("what a handler is given of granted resources", () => {
  it("[D136] a handler's context has the granted resources of the dispatch by key, and the list of the missing ones", () => {
    const smtp = { resourceId: "r1", type: "file", filename: "a", mimeType: null, sizeBytes: 1, metadata: null, value: "x" };
    const errors = [{ key: "logo", error: "missing_grant" }];

    const context = contextOf({ to: "ann", __resourceBindings: { smtp }, __resourceBindingErrors: errors });

    expect(context.resourceBindings["smtp"]?.value).toBe("x");
    expect(context.resourceBindingErrors).toEqual(errors);
  });

  it("[D136] a handler's context has no granted resources where the dispatch contains none, or something malformed", () => {
    for (const parameters of [{}, { __resourceBindings: null, __resourceBindingErrors: {} }, { __resourceBindings: [1] }]) {
      const context = contextOf(parameters);

      expect([context.resourceBindings, context.resourceBindingErrors]).toEqual([{}, []]);
    }
  });
});
