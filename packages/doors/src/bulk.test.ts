// Who takes over a change of many runs whose scheduler is gone: seen through the documents alone.
import type { PageQuery, Reader } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { bulkLimits, createBulk } from "./bulk.ts";
import { createFakeDocs } from "./testing/docs.ts";
import { createFakeOutside } from "./testing/fake-outside.ts";

const blank = { request: { action: "cancel", filter: { runIds: [] } }, identity: { tenant: "t1", user: "ada" }, requestId: "r" };
const counts = { cursor: null, matched: 0, changed: 0, unchanged: 0, refused: 0, refusals: [] };
/** Whoever wrote this has a clock that is a day ahead. */
const written = { createdAt: 1_760_086_400_000, updatedAt: 1_760_086_400_000 };

function scene() {
  const kept = createFakeDocs();
  const outside = createFakeOutside();
  const page = async (query: PageQuery) => {
    if (query.page === "crew") return { items: [{ tenant: "t1", phase: "online", draining: false, workers: 1 }] };
    return query.page === "depth" ? { items: [] } : await kept.reader.page(query);
  };
  const reader = { ...kept.reader, page } as Reader;
  const bulk = createBulk({ link: kept.link, reader, outside, act: () => Promise.resolve(true), digest: (text) => text });
  const put = (name: string, status: "running" | "done") => {
    const body = JSON.stringify({ ...blank, ...counts, ...written, status });
    kept.write({ tenant: "t1", puts: [{ collection: "bulk", name, body, sort: name, terms: status }] });
  };
  /** Time passes, and what is found is worked off; the timers' own looks are not waited for, ours is. */
  const pass = async (ms: number) => {
    outside.advance(ms);
    await bulk.look();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { kept, bulk, put, pass, statusOf: (name: string) => kept.body("t1", "bulk", name)?.["status"] };
}

describe("a change of many runs whose scheduler is gone", () => {
  it("[O92] is taken over when its document has not changed for long by the clock here, whatever the other's clock said", async () => {
    const { bulk, put, pass, statusOf } = scene();
    put("b1", "running");
    await bulk.look();

    await pass(bulkLimits.idleMs - 1);
    expect(statusOf("b1")).toBe("running");
    await pass(1);

    expect(statusOf("b1")).toBe("done");
  });

  it("[O92] is left alone while somebody goes on with it", async () => {
    const { bulk, put, pass, statusOf } = scene();
    put("b1", "running");
    await bulk.look();

    for (let page = 0; page < 5; page++) {
      await pass(bulkLimits.idleMs - 1);
      put("b1", "running");
      await bulk.look();
    }

    expect(statusOf("b1")).toBe("running");
  });

  it("[O92] is found behind any number of later ones", async () => {
    const { bulk, put, pass, statusOf } = scene();
    put("a-first", "running");
    for (let at = 0; at < 150; at++) put(`b-${at}`, "done");
    await bulk.look();

    await pass(bulkLimits.idleMs);

    expect(statusOf("a-first")).toBe("done");
  });
});
