import { describe, expect, it } from "vitest";
import { runRow, taskRow } from "../../contract/fixtures/sample-rows.ts";
import { RowCache } from "./row-cache.ts";

describe("row cache", () => {
  it("[S38] the row cache holds no more rows than its limit, and keeps those that are used", () => {
    const cache = new RowCache({ cacheRows: 100, cacheChars: 1_000_000 });
    cache.set(runRow("used"));
    for (let at = 0; at < 1_000; at++) {
      cache.set(taskRow(`r.${at}`));
      cache.get("run", "used");
      expect(cache.size).toBeLessThanOrEqual(100);
    }

    expect(cache.get("run", "used")).toBeDefined();
    expect(cache.get("task", "r.999")).toBeDefined();
    expect(cache.get("task", "r.0")).toBeUndefined();
  });

  it("[S38] the row cache never returns a version of a row that was replaced, whether the row was updated, evicted or deleted", () => {
    const cache = new RowCache({ cacheRows: 20, cacheChars: 1_000_000 });
    cache.set(runRow("r1", { phase: "failed" }));
    cache.set(runRow("r1", { phase: "running" }));
    for (let at = 0; at < 50; at++) cache.set(taskRow(`r.${at}`));
    expect(cache.get("run", "r1")).toBeUndefined();

    cache.set(runRow("r2", { phase: "running" }));
    cache.set(runRow("r2", { phase: "failed" }));
    expect(cache.get("run", "r2")).toMatchObject({ phase: "failed" });
    cache.delete("run", "r2");
    expect(cache.get("run", "r2")).toBeUndefined();
  });

  it("[S38] the row cache returns no older version of a row whose newest version was deleted", () => {
    const cache = new RowCache({ cacheRows: 20, cacheChars: 1_000_000 });
    cache.set(runRow("r1", { phase: "queued" }));
    // The tenth row makes room: what was cached so far is dropped unless it is used again.
    for (let at = 0; at < 9; at++) cache.set(taskRow(`r.${at}`));
    cache.set(runRow("r1", { phase: "running" }));
    expect(cache.size).toBe(11);

    cache.delete("run", "r1");

    expect(cache.get("run", "r1")).toBeUndefined();
    expect(cache.size).toBe(9);
  });

  it("[S522] the row cache holds no more text than its limit however few the rows are, and counts a replaced row once", () => {
    const cache = new RowCache({ cacheRows: 1_000, cacheChars: 100_000 });
    const text = "x".repeat(1_000);
    for (let at = 0; at < 500; at++) {
      cache.set(taskRow("r.used", { params: text, fence: at }));
      cache.set(taskRow(`r.${at}`, { params: text, state: text }));
      expect(cache.chars).toBeLessThanOrEqual(100_000);
    }
    expect(cache.get("task", "r.used")).toMatchObject({ fence: 499 });
    expect(cache.get("task", "r.0")).toBeUndefined();

    const small = new RowCache({ cacheRows: 1_000, cacheChars: 100_000 });
    for (let at = 0; at < 500; at++) small.set(taskRow("r.0", { params: text }));
    expect(small.chars).toBe(1_000);
    small.delete("task", "r.0");
    expect(small.chars).toBe(0);
  });
});
