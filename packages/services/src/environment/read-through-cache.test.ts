import { describe, expect, it } from "vitest";
import { createSemaphore } from "./concurrency.ts";
import { ReadThroughCache } from "./read-through-cache.ts";

const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

describe("a cache that reads through", () => {
  it("[A83] a value that was changed while it was read is not kept: the next caller reads it again", async () => {
    const reads: ((value: string) => void)[] = [];
    const read = () => new Promise<string>((resolve) => reads.push(resolve));
    const cache = new ReadThroughCache<string>(read, { now: () => 0, monotonic: () => 0 });
    const refreshed = cache.refresh("u");
    await settle();

    cache.invalidate("u");
    reads[0]?.("before the change");
    await settle();
    expect(cache.get("u")).toBeUndefined();
    reads[1]?.("after it");
    await refreshed;

    expect(cache.get("u")?.value).toBe("after it");
  });
});

describe("a semaphore", () => {
  it("[A352] a semaphore runs so many at a time, hands a freed place to whoever waits longest, and refuses more than may wait", async () => {
    const runLimited = createSemaphore(2, { queuedMax: 2, overloadFault: () => new Error("full") });
    const running = new Map<string, () => void>();
    let most = 0;
    const run = (name: string) =>
      runLimited(async () => {
        await new Promise<void>((resolve) => running.set(name, resolve));
        running.delete(name);
      });
    const end = async (name: string) => {
      running.get(name)?.();
      // Whoever comes at this very moment must not get in before those who wait.
      const late = run(`late after ${name}`).catch((problem: Error) => problem.message);
      await settle();
      most = Math.max(most, running.size);
      return Promise.race([late, settle().then(() => "waits")]);
    };
    const calls = ["a", "b", "c", "d"].map(run);
    await settle();
    expect([...running.keys()]).toEqual(["a", "b"]);
    await expect(run("e")).rejects.toThrow("full");

    expect(await end("a")).toBe("full");
    expect([...running.keys()]).toEqual(["b", "c"]);
    expect(await end("b")).toBe("waits");
    expect([...running.keys()]).toEqual(["c", "d"]);
    await end("c");
    while (running.size > 0) {
      for (const resolve of [...running.values()]) resolve();
      await settle();
      most = Math.max(most, running.size);
    }
    await Promise.all(calls);

    expect(most).toBe(2);
  });
});
