import { describe, expect, it } from "vitest";
import { readPackageStack } from "./error-stack.ts";

/** An error with this stack below its message. */
function errorAt(frames: readonly string[], cause?: unknown): Error {
  const error = new Error("no", { cause });
  error.stack = ["Error: no", ...frames.map((frame) => `    at ${frame}`)].join("\n");
  return error;
}

describe("the stack of what a handler threw", () => {
  it("[W202] a stack keeps the frames of the package alone, by their paths inside it, also those of its causes", () => {
    const inner = errorAt(["deep (/opt/my packages/p/lib/deep.cjs:1:2)", "node:internal/x:1:1"]);
    const outer = errorAt(
      ["run (file:///opt/my%20packages/p/main.mjs:3:4)", "HandlerExecutor.start (file:///opt/astra/executor.ts:9:9)"],
      inner,
    );

    expect(readPackageStack(outer, "/opt/my packages/p")).toBe(
      "Error: no\n    at run (main.mjs:3:4)\ncaused by Error: no\n    at deep (lib/deep.cjs:1:2)",
    );
  });

  it("[W202] a stack is bounded, also where errors are causes of each other, and absent where nothing of it is the package's", () => {
    const long = errorAt(Array.from({ length: 500 }, (_, index) => `f${index} (/p/${"x".repeat(300)}.mjs:1:1)`));
    long.cause = long;

    expect(readPackageStack(long, "/p")?.length).toBeLessThanOrEqual(4_096);
    expect(readPackageStack(errorAt(["f (/q/main.mjs:1:1)"]), "/p")).toBeUndefined();
    expect(readPackageStack("text", "/p")).toBeUndefined();
    expect(readPackageStack(long, undefined)).toBeUndefined();
  });
});
