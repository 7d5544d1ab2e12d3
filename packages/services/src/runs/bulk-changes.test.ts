// Who takes over a change of many runs whose scheduler is gone: seen through the documents alone.
import type { PageQuery, RunRow, StoreReader } from "@astraflow/engine";
import { type BulkRequest, fault } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { roundLimits } from "../documents/tenant-rounds.ts";
import { NeedsOwnThread } from "../environment/in-place-limits.ts";
import type { Caller } from "../identity/identity.ts";
import { createFakeDocumentStore } from "../testing/fake-document-store.ts";
import { createFakeEnvironment } from "../testing/fake-environment.ts";
import { runRow } from "../testing/sample-rows.ts";
import { type ApplyBulkChange, BulkChanges, bulkLimits } from "./bulk-changes.ts";
import { moveLargeRuns } from "./bulk-runs.ts";

const initialBody = {
  request: { action: "cancel", filter: { runIds: [] } },
  identity: { tenant: "t1", user: "ada" },
  requestId: "r",
};
const counts = { cursor: null, matched: 0, changed: 0, unchanged: 0, refused: 0, refusals: [] };
/** Whoever wrote this has a clock that is a day ahead. */
const written = { createdAt: 1_760_086_400_000, updatedAt: 1_760_086_400_000 };

interface FixtureOptions {
  readonly runs?: readonly RunRow[];
  readonly applyChange?: ApplyBulkChange;
}

function openFixture(tenants: readonly string[] = ["t1"], options: FixtureOptions = {}) {
  const { runs = [], applyChange = () => Promise.resolve({ isChanged: true }) } = options;
  const kept = createFakeDocumentStore({ rows: { runs } });
  const environment = createFakeEnvironment();
  const page = async (query: PageQuery) => {
    if (query.page !== "tenants") return await kept.reader.page(query);
    const { after = "", limit } = query;
    const left = tenants.filter((name) => name > after);
    return { items: left.slice(0, limit), next: left.length > limit ? left[limit - 1] : null };
  };
  const reader = { ...kept.reader, page } as StoreReader;
  const bulk = new BulkChanges({
    engineClient: kept.engineClient,
    reader,
    environment,
    applyChange,
    needsChange: () => true,
    digest: (text) => text,
  });
  const put = (name: string, status: "running" | "done", tenant = "t1") => {
    const body = JSON.stringify({ ...initialBody, ...counts, ...written, status });
    kept.write({ tenant, puts: [{ collection: "bulk", name, body, sort: name, terms: status }] });
  };
  /** Time passes, and what is found is worked off; the timers' own looks are not waited for, ours is. */
  const pass = async (ms: number) => {
    environment.advance(ms);
    await bulk.resumeStalled();
    await new Promise((resolve) => setImmediate(resolve));
  };
  const statusOf = (name: string, tenant = "t1") => kept.body(tenant, "bulk", name)?.["status"];
  return { kept, bulk, put, pass, statusOf };
}

describe("a change of many runs whose scheduler is gone", () => {
  it("[O92] an abandoned bulk change is taken over when its document has not changed for long by the local clock, whatever its writer's clock", async () => {
    const { bulk, put, pass, statusOf } = openFixture();
    put("b1", "running");
    await bulk.resumeStalled();

    await pass(bulkLimits.takeoverAfterMs - 1);
    expect(statusOf("b1")).toBe("running");
    await pass(1);

    expect(statusOf("b1")).toBe("done");
  });

  it("[O92] a bulk change is not taken over while another scheduler continues it", async () => {
    const { bulk, put, pass, statusOf } = openFixture();
    put("b1", "running");
    await bulk.resumeStalled();

    for (let page = 0; page < 5; page++) {
      await pass(bulkLimits.takeoverAfterMs - 1);
      put("b1", "running");
      await bulk.resumeStalled();
    }

    expect(statusOf("b1")).toBe("running");
  });

  it("[A266] abandoned bulk changes are found for every tenant that has a log, however many there are, some at each poll", async () => {
    const tenants = Array.from({ length: 3 * roundLimits.tenantsPerRoundMax }, (_, n) => `t${String(n).padStart(4, "0")}`);
    const [last = ""] = tenants.slice(-1);
    const { bulk, put, pass, statusOf } = openFixture(tenants);
    put("b1", "running", last);
    for (let looks = 0; looks < 3; looks++) await bulk.resumeStalled();

    await pass(bulkLimits.takeoverAfterMs);
    for (let looks = 0; looks < 3; looks++) await pass(0);

    expect(statusOf("b1", last)).toBe("done");
  });

  it("[A354] an abandoned bulk change is taken over though another tenant's cannot be", async () => {
    const { kept, bulk, put, pass, statusOf } = openFixture(["a", "b"]);
    kept.write({ tenant: "a", puts: [{ collection: "bulk", name: "b0", body: "{", sort: "b0", terms: "running" }] });
    put("b1", "running", "b");
    await bulk.resumeStalled();

    await pass(bulkLimits.takeoverAfterMs);

    expect(statusOf("b1", "b")).toBe("done");
  });

  it("[A354] abandoned bulk changes are searched for by one poll at a time, however long it takes", async () => {
    let looks = 0;
    const environment = createFakeEnvironment();
    const { engineClient, reader: docs } = createFakeDocumentStore();
    const never = () => new Promise<never>(() => void looks++);
    const reader = { ...docs, page: never } as unknown as StoreReader;
    const bulk = new BulkChanges({
      engineClient,
      reader,
      environment,
      applyChange: () => Promise.resolve({ isChanged: true }),
      needsChange: () => true,
      digest: (text) => text,
    });

    for (let at = 0; at < 10; at++) environment.advance(bulkLimits.pollMs);

    expect(looks).toBe(1);
    bulk.close();
  });

  it("[A267] a bulk change is kept for seven days after its end, and has no expiry before", async () => {
    const { kept, bulk, pass } = openFixture();
    const asker = { identity: { tenant: "t1", user: "ada", grants: [] }, requestId: "r" };
    const { bulkId } = await bulk.start(asker, { action: "cancel", filter: { runIds: ["none"] } }, "k1");
    const doc = () => kept.docs.get(`t1/bulk/${bulkId}`);
    expect(doc()?.due).toBeNull();

    await pass(0);

    expect(doc()?.due).toBe((doc()?.at ?? 0) + bulkLimits.retentionMs);
    kept.docs.delete(`t1/bulk/${bulkId}`);
    await expect(bulk.start(asker, { action: "cancel", filter: { runIds: ["none"] } }, "k1")).rejects.toMatchObject({
      code: "E.NOT_FOUND",
    });
  });

  it("[O92] an abandoned bulk change is found behind any number of later ones", async () => {
    const { bulk, put, pass, statusOf } = openFixture();
    put("a-first", "running");
    for (let at = 0; at < 150; at++) put(`b-${at}`, "done");
    await bulk.resumeStalled();

    await pass(bulkLimits.takeoverAfterMs);

    expect(statusOf("a-first")).toBe("done");
  });
});

it("[A870] a bulk change counts each run once: as changed, as unchanged where there was nothing to do, or as refused with its reason", async () => {
  const outcomes: Readonly<Record<string, () => ReturnType<ApplyBulkChange>>> = {
    changed: async () => ({ isChanged: true, newRun: "again" }),
    unchanged: async () => ({ isChanged: false }),
    refused: () => Promise.reject(fault("E.RUN.ACTIVE", "it runs")),
  };
  const runIds = ["changed-1", "refused-1", "refused-2", "unchanged-1", "unchanged-2", "unchanged-3"];
  const { bulk, pass } = openFixture(["t1"], {
    runs: runIds.map((id) => runRow(id, { tenant: "t1" })),
    applyChange: async (_caller, _request, { id }) =>
      outcomes[id.slice(0, -2)]?.() ?? Promise.reject(new Error(`run ${id} has no outcome here`)),
  });
  const asker = { identity: { tenant: "t1", user: "ada", grants: [] }, requestId: "r" };

  const { bulkId } = await bulk.start(asker, { action: "retry", filter: { runIds } }, null);
  await pass(0);

  expect(await bulk.find("t1", bulkId)).toMatchObject({
    status: "done",
    matched: 6,
    changed: 1,
    unchanged: 3,
    refused: 2,
    started: [{ runId: "changed-1", newRun: "again" }],
    refusals: [
      { runId: "refused-2", code: "E.RUN.ACTIVE" },
      { runId: "refused-1", code: "E.RUN.ACTIVE" },
    ],
  });
});

it("[A612] a step of a bulk change that meets a large run is carried out elsewhere, and any other failure stays where it was", async () => {
  const elsewhere: string[] = [];
  const failures: Readonly<Record<string, Error>> = { large: new NeedsOwnThread("7 MB"), gone: fault("E.NOT_FOUND", "gone") };
  const change = moveLargeRuns(
    async (_caller, _request, { id }) => {
      if (failures[id] !== undefined) throw failures[id];
      return { isChanged: true };
    },
    async (_caller, _request, { id }) => {
      elsewhere.push(id);
      return { isChanged: true, newRun: "new" };
    },
  );
  const changeRun = (id: string) => change({} as Caller, { action: "retry" } as BulkRequest, { id } as RunRow, "b1");

  expect(await changeRun("small")).toEqual({ isChanged: true });
  expect(await changeRun("large")).toEqual({ isChanged: true, newRun: "new" });
  await expect(changeRun("gone")).rejects.toMatchObject({ code: "E.NOT_FOUND" });
  expect(elsewhere).toEqual(["large"]);
});
