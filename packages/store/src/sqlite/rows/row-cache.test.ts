import { describe, expect, it } from "vitest";
import { runRow, taskRow } from "../../contract/fixtures/sample-rows.ts";
import { RowCache } from "./row-cache.ts";

describe("row cache", () => {
  it("[S38] the row cache holds no more rows than its limit, and keeps those that are used", () => {
    const cache = new RowCache(100);
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
    const cache = new RowCache(20);
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
});
