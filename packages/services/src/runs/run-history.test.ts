// Moments of a run with more tasks and facts than a page, and what they cost.
import type { EventQuery, LoggedFact, PageQuery, StoreReader } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { runRow, sampleChain, taskRow } from "../testing/sample-rows.ts";
import { historyLimits, RunHistory } from "./run-history.ts";

/** A run of so many tasks, each ready, granted and ended one after the other; counts what is read. */
function largeRun(tasks: number) {
  const log: LoggedFact[] = [];
  const addFact = (type: string, data: object = {}) =>
    log.push({ position: log.length + 1, at: log.length + 1, subject: "run/r1", type, data: { ...data } });
  addFact("run.created");
  for (let n = 0; n < tasks; n++) addFact("task.ready", { task: `r1.${n}` });
  addFact("run.started");
  for (let n = 0; n < tasks; n++) {
    addFact("task.granted", { task: `r1.${n}`, fence: n + 1, attempt: 1, worker: "default/w" });
    addFact("task.succeeded", { task: `r1.${n}`, fence: n + 1, worker: "default/w" });
  }
  addFact("run.succeeded");
  const read = { pages: 0, rows: 0, most: 0 };
  const floor = { at: 0 };
  const reader = {
    async events({ after, limit }: EventQuery) {
      read.pages++;
      const items = log.slice(after, after + limit);
      read.most = Math.max(read.most, items.length);
      if (after < floor.at) return { items: [], next: after, head: log.length, floor: floor.at };
      return { items, next: items.at(-1)?.position ?? after, head: log.length, floor: floor.at };
    },
    async page(query: PageQuery) {
      if (query.page === "run")
        return { detail: { run: runRow("r1"), tasks: [], workflow: JSON.stringify(sampleChain) }, head: log.length };
      if (query.page !== "task") throw new Error(`page ${query.page} is not part of this scene`);
      read.rows++;
      return { task: taskRow(query.task, { phase: "succeeded", result: "{}", endedAt: 1 }), head: log.length };
    },
  };
  return { reader: reader as unknown as StoreReader, read, floor, head: log.length };
}

/** A run of two tasks, with the facts that the test adds. */
function spokenRun() {
  const log: LoggedFact[] = [];
  const addFact = (type: string, data: object = {}) =>
    log.push({ position: log.length + 1, at: log.length + 1, subject: "run/r1", type, data: { ...data } });
  addFact("run.created");
  addFact("task.ready", { task: "r1.0" });
  const reader = {
    events: async ({ after, limit }: EventQuery) => ({
      items: log.slice(after, after + limit),
      next: Math.min(after + limit, log.length),
      head: log.length,
      floor: 0,
    }),
    page: async () => ({ detail: { run: runRow("r1"), tasks: [], workflow: JSON.stringify(sampleChain) }, head: log.length }),
  };
  return { reader: reader as unknown as StoreReader, addFact };
}

describe("moments of a large run", () => {
  it("[A292] the run history folds past states of a run page by page, 20,000 tasks too, and later reads start where the last one ended", async () => {
    const tasks = 20_000;
    const { reader, read, head } = largeRun(tasks);
    const moments = new RunHistory(reader);
    const half = tasks + 2 + tasks;

    const middle = await moments.readRunAt("default", "r1", half);
    const cost = read.pages;
    await moments.readRunAt("default", "r1", half);
    const end = await moments.readRunAt("default", "r1", head);

    expect(middle).toMatchObject({ at: half, run: { phase: "running", open: tasks / 2 } });
    expect(middle.ids).toHaveLength(tasks);
    expect(end).toMatchObject({ run: { phase: "succeeded", open: 0 } });
    expect(read.most).toBe(historyLimits.factsPage);
    expect(cost).toBe(Math.ceil((half + 1) / historyLimits.factsPage));
    expect(read.pages - cost).toBeLessThanOrEqual(Math.ceil((head - half) / historyLimits.factsPage) + 1);
    const page = middle.ids.slice(0, 200);
    expect(await moments.readTaskRows(middle, page)).toHaveLength(200);
    expect(read.rows).toBeLessThanOrEqual(200);
  });

  it("[A292] the run history refuses a past state that takes more facts than one answer may read", async () => {
    const { reader, head } = largeRun(2_000);
    const moments = new RunHistory(reader, { ...historyLimits, factsMax: 5_000 });

    await expect(moments.readRunAt("default", "r1", head)).rejects.toMatchObject({ code: "E.REQUEST.TOO_LARGE" });
    expect(await moments.readRunAt("default", "r1", 4_900)).toMatchObject({ at: 4_900 });
  });

  it("[A352] the run history refuses a past state whose tasks reported more than one answer may hold; newer feedback replaces the old", async () => {
    const { reader, addFact } = spokenRun();
    const moments = new RunHistory(reader, { ...historyLimits, charsMax: 100 });
    for (let n = 0; n < 50; n++) addFact("task.feedback", { task: "r1.0", message: `${n}`.padEnd(90, ".") });
    expect(await moments.readRunAt("default", "r1", 52)).toMatchObject({ at: 52 });

    addFact("task.feedback", { task: "r1.1", message: "x".repeat(50) });
    const refusal = { code: "E.REQUEST.TOO_LARGE", details: { charsMax: 100 } };
    await expect(moments.readRunAt("default", "r1", 53)).rejects.toMatchObject(refusal);
    await expect(
      new RunHistory(reader, { ...historyLimits, charsMax: 100 }).readRunAt("default", "r1", 53),
    ).rejects.toMatchObject(refusal);
    addFact("task.failed", { task: "r1.0", error: { code: "E.X", message: "y".repeat(500) } });
    await expect(
      new RunHistory(reader, { ...historyLimits, charsMax: 500 }).readRunAt("default", "r1", 54),
    ).rejects.toMatchObject({
      code: "E.REQUEST.TOO_LARGE",
    });
  });

  it("[A352] the run history reads a past state that many request at once only a few times, and never more than a few at a time", async () => {
    const { reader, read } = largeRun(2_000);
    const slow = { at: 0, most: 0 };
    const watched = {
      ...reader,
      events: async (query: EventQuery) => {
        slow.most = Math.max(slow.most, ++slow.at);
        const page = await reader.events(query);
        slow.at--;
        return page;
      },
    };
    const moments = new RunHistory(watched);

    const all = await Promise.all(Array.from({ length: 40 }, () => moments.readRunAt("default", "r1", 6_000)));

    expect(all.every(({ run }) => run.open === all[0]?.run.open)).toBe(true);
    expect(slow.most).toBeLessThanOrEqual(historyLimits.concurrentMax);
    expect(read.pages).toBeLessThanOrEqual(7 * historyLimits.concurrentMax);
  });

  it("[A281] the run history continues from a cached past state only while no fact in between was removed", async () => {
    const { reader, floor, head } = largeRun(10);
    const moments = new RunHistory(reader);
    await moments.readRunAt("default", "r1", 15);

    floor.at = 15;
    await expect(moments.readRunAt("default", "r1", head)).resolves.toMatchObject({ run: { phase: "succeeded", open: 0 } });
    floor.at = head;
    await expect(new RunHistory(reader).readRunAt("default", "r1", head)).rejects.toMatchObject({ code: "E.CURSOR.EXPIRED" });
    floor.at = 15;
    const early = new RunHistory(reader);
    await expect(early.readRunAt("default", "r1", 14)).rejects.toMatchObject({ code: "E.CURSOR.EXPIRED" });
    floor.at = 0;
    await early.readRunAt("default", "r1", 14);
    floor.at = 16;
    await expect(early.readRunAt("default", "r1", head)).rejects.toMatchObject({ code: "E.CURSOR.EXPIRED" });
  });
});
