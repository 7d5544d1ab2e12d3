// Saved views on the real engine: what is promised holds however many ask at once.

import { createMemoryFixture, createSqliteFixture } from "@astraflow/store/testing";
import { afterEach, describe, expect, it } from "vitest";
import { openRestFixture, type RestFixture } from "./rest-fixture.ts";

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of cleanups.splice(0)) await end();
});

const storeFixtures = [
  ["memory", () => createMemoryFixture("strong")],
  ["sqlite", () => createSqliteFixture()],
] as const;
const viewRequest = (name: string) => ({ body: { name, page: "runs", query: { status: "failed" } } });

describe.each(storeFixtures)("saved views on %s", (_store, stageOf) => {
  async function open(): Promise<RestFixture> {
    const cluster = await openRestFixture(await stageOf());
    cleanups.push(cluster.close);
    return cluster;
  }
  const countIn = async ({ harness }: RestFixture): Promise<unknown> => {
    const { items } = await harness.store.page({ page: "doc", tenant: "t1", collection: "viewcount", names: ["all"] });
    return JSON.parse(items[0]?.body ?? "null");
  };

  it("[A325] saved views are counted correctly under concurrent saves and removals", async () => {
    const cluster = await open();

    const made = await Promise.all(["a", "b", "c", "d", "e"].map((name) => cluster.send("createView", viewRequest(name))));
    expect(made.map(({ status }) => status)).toEqual([201, 201, 201, 201, 201]);
    const removed = made.slice(0, 2).map(({ body }) => cluster.send("deleteView", { url: `/api/v1/views/${body.viewId}` }));
    expect((await Promise.all(removed)).map(({ status }) => status)).toEqual([204, 204]);

    // One was there before.
    expect(await countIn(cluster)).toEqual({ views: 4 });
    const { body } = await cluster.send("listViews", { url: "/api/v1/views?limit=200" });
    expect(body.items.map(({ name }: { name: string }) => name)).toEqual(["c", "d", "e", "view-t1"]);
  });

  it("[A355] concurrent saves and removals of views all succeed, and the audit contains no refusal that no caller received", async () => {
    const cluster = await open();
    const many = Array.from({ length: 40 }, (_, n) => `n${n}`);

    const made = await Promise.all(many.map((name) => cluster.send("createView", viewRequest(name))));
    const removed = await Promise.all(
      made.map(({ body }) => cluster.send("deleteView", { url: `/api/v1/views/${body.viewId}` })),
    );

    expect([...made, ...removed].filter(({ status }) => status >= 300)).toEqual([]);
    const { body } = await cluster.send("listAudit", { url: "/api/v1/audit?action=view.delete&limit=200" });
    expect(body.items.map(({ metadata }: { metadata: { outcome: string } }) => metadata.outcome)).toEqual(many.map(() => "ok"));
  });

  it("[A322] concurrent creation of a view of one name makes one view; the others are refused", async () => {
    const cluster = await open();

    const responses = await Promise.all([1, 2, 3].map(() => cluster.send("createView", viewRequest("late"))));

    expect(responses.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([201, 409, 409]);
    const [refusal] = responses.filter(({ status }) => status === 409);
    expect(refusal?.body.message).toBe('there is a view "late" of runs already; choose another name or change that one');
  });

  it("[A327] changes of saved views are in the audit with actor, action and view", async () => {
    const cluster = await open();
    const { body } = await cluster.send("createView", viewRequest("late"));
    const url = `/api/v1/views/${body.viewId}`;
    await cluster.send("replaceView", { url, ...viewRequest("early") });
    await cluster.send("deleteView", { url });

    const audit = await cluster.send("listAudit", { url: `/api/v1/audit?targetId=${body.viewId}` });

    expect(audit.body.items).toMatchObject([
      { action: "view.delete", targetType: "view", actorId: "t1-boss", metadata: { outcome: "ok" } },
      { action: "view.update", metadata: { name: "early", page: "runs", shared: false } },
      { action: "view.create", targetId: body.viewId },
    ]);
  });
});
