import type { LoggedFact, RunDetail, StoreReader } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { createFakeEnvironment } from "../testing/fake-environment.ts";
import { runRow } from "../testing/sample-rows.ts";
import { EventLookup } from "./event-lookup.ts";
import { LogTail } from "./log-tail.ts";

const definition = JSON.stringify({
  id: "00000000-0000-4000-8000-000000000001",
  schemaVersion: "2025-10",
  metadata: { name: "Sample" },
  nodes: [
    {
      id: "00000000-0000-4000-8000-000000000002",
      type: "text",
      label: "only",
      package: { name: "demo", version: "1.0.0" },
      position: { x: 0, y: 0 },
    },
  ],
  edges: [],
});

/** A log with one entry for each of some runs of one definition, in a store that takes 4 ms for a page and answers at once. */
function openTail(runs: number) {
  const environment = createFakeEnvironment();
  let pauses = 0;
  const pages: { readonly page: string; readonly withoutInputs?: boolean }[] = [];
  const items = Array.from(
    { length: runs },
    (_, at): LoggedFact => ({ position: at + 1, at: 1_000, subject: `run/r${at}`, type: "run.created", data: {} }),
  );
  const reader = {
    events: async ({ after, limit }: { after: number; limit: number }) => {
      const found = items.filter(({ position }) => position > after).slice(0, limit);
      return { items: found, next: found.at(-1)?.position ?? after, head: runs, floor: 0 };
    },
    page: async (query: { page: string; run: string; withoutInputs?: boolean }) => {
      pages.push(query);
      if (query.page === "workers") return { items: [] };
      environment.jumpClock(4);
      const detail: RunDetail = { run: runRow(query.run), tasks: [], workflow: query.withoutInputs === true ? "" : definition };
      return { detail, head: runs };
    },
  } as unknown as StoreReader;
  const options = { reader, tenant: "acme", ackDeadlineMs: 1_000, heartbeatMsOf: () => 10_000, now: () => 0 };
  const withPauses = { ...environment, yieldLoop: async () => void (pauses += 1) };
  const tail = new LogTail({ tenant: "acme", reader, lookup: new EventLookup(options), environment: withPauses }, runs);
  return { tail, pages, countPauses: () => pauses };
}

describe("reading the log for those who come back", () => {
  it("[A890] the thread goes on with what else waits while a page of the log is read, and after each page", async () => {
    const { tail, countPauses } = openTail(50);

    const facts = await tail.readAfter(0);

    // Two reads of 4 ms for each run, and a pause when 10 ms are over.
    expect(facts).toHaveLength(50);
    expect(facts[7]?.events.map(({ type }) => type)).toEqual(["run.status", "run.snapshot"]);
    expect(countPauses()).toBeGreaterThanOrEqual(25);
  });

  it("[A891] the definition of many runs is read once for their events, and their parameters never", async () => {
    const { tail, pages } = openTail(50);

    await tail.readAfter(0);
    await tail.readAfter(0);

    const ofRuns = pages.filter(({ page }) => page === "run");
    expect(ofRuns.length).toBeGreaterThan(100);
    expect(ofRuns.filter(({ withoutInputs }) => withoutInputs !== true)).toHaveLength(1);
  });
});
