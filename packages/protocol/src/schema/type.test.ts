import TypeBox from "typebox";
import { describe, expect, it } from "vitest";
import { Type } from "./type.ts";

describe("schema builders", () => {
  it("[C30] the schema builders produce the same JSON Schema as those of typebox, whose types they have", () => {
    const build = (T: typeof Type) =>
      T.Object(
        {
          name: T.String({ minLength: 1 }),
          size: T.Optional(T.Union([T.Integer({ minimum: 0 }), T.Null()])),
          parts: T.Array(T.Object({ on: T.Optional(T.Boolean()) }), { maxItems: 3 }),
          kind: T.Literal("a"),
          ratio: T.Number(),
          both: T.Intersect([T.Object({ a: T.String() }), T.Object({ b: T.Number() })]),
          any: T.Unsafe<string>({ type: "string", enum: ["x"] }),
          tree: T.Cyclic({ Tree: T.Object({ left: T.Optional(T.Ref("Tree")) }) }, "Tree", { description: "a tree" }),
        },
        { additionalProperties: false },
      );

    expect(JSON.stringify(build(Type))).toBe(JSON.stringify(build(TypeBox)));
  });
});
