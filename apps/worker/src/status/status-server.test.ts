import type { LinkInventory } from "@astraflow/runtime";
import { afterEach, describe, expect, it } from "vitest";
import { WorkerMetrics } from "./metrics.ts";
import { openStatusServer, type StatusSources } from "./status-server.ts";

const endings: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0)) await end();
});

const node = { type: "tiny.a", status: "published", category: "Tests", label: "a", adapter: "main", handler: "a", schema: {} };
const written = {
  schemaVersion: "1.0.0",
  name: "tiny",
  version: "1.0.0",
  description: "",
  adapters: [{ name: "main", entrypoint: "main.mjs", capabilities: ["tiny.fast"] }],
  node: { requires: ">=22" },
  nodes: [node, { ...node, type: "tiny.b", handler: "b" }],
};
const attempt = { run: "r", task: "r.1", node: "n", fence: 4, phase: "running", ageMs: 12 } as const;
const link: LinkInventory = {
  phase: "READY",
  session: "s-1",
  leaseLeftMs: 20_000,
  attempts: [attempt],
  counts: { held: 1, occupied: 1, unacked: 2, outbox: 1 },
  stream: null,
};

const sampleWorker: StatusSources["worker"] = {
  runner: {
    loadedPackages: {
      packages: [{ name: "tiny", version: "1.0.0", dir: "/p", manifestJson: written, nodeTypes: ["tiny.a"] }],
      problems: [{ dir: "/p", code: "E.PKG.INVALID", message: "broken" }],
    },
  },
  inventory: () => link,
  isOutboxWritable: true,
};

async function listen(worker: Partial<StatusSources["worker"]> = {}, more: Partial<StatusSources> = {}) {
  const meter = new WorkerMetrics();
  const listener = await openStatusServer(
    { host: "127.0.0.1", port: 0 },
    {
      identity: { worker: "w-1", name: "box", tenant: "acme", version: "0.1.0", boot: "b" },
      metrics: meter,
      worker: { ...sampleWorker, ...worker },
      readHealth: () => ({ metrics: { mem_pct: 12.5 }, problems: ["memory is full"] }),
      ...more,
    },
  );
  endings.push(() => listener.close());
  return { meter, get: (path: string, init?: RequestInit) => fetch(listener.url + path, init) };
}

describe("the worker's own listener", () => {
  it("[W136] the worker's status server serves metrics of session, machine and process", async () => {
    const { meter, get } = await listen();
    meter.increment("heartbeat_sent_total");
    meter.observeDuration("tiny.a", 3);

    const answer = await get("/metrics");
    const text = await answer.text();

    expect(answer.headers.get("content-type")).toContain("text/plain; version=0.0.4");
    for (const line of [
      "inflight_tasks 1",
      "outbox_length 1",
      "session_ready 1",
      "heartbeat_sent_total 1",
      "worker_mem_pct 12.5",
    ])
      expect(text.split("\n")).toContain(line);
    expect(text).toMatch(/^process_resident_memory_bytes \d+$/m);
    expect(text).toContain('task_duration_ms_bucket{node_type="tiny.a",le="5"} 1');
  });

  it("[W136] the worker's /healthz is ok while the link is open and the outbox is writable, whatever the scheduler does", async () => {
    const well = await (await listen()).get("/healthz");
    const away = await (await listen({ inventory: () => ({ ...link, phase: "BACKOFF" }) })).get("/healthz");
    const full = await (await listen({ isOutboxWritable: false })).get("/healthz");
    const closed = await (await listen({ inventory: () => ({ ...link, phase: "CLOSED" }) })).get("/healthz");

    expect([well.status, away.status, full.status, closed.status]).toEqual([200, 200, 503, 503]);
    expect(await well.json()).toMatchObject({ ok: true, problems: [] });
    expect(await full.json()).toMatchObject({ ok: false, problems: ["the outbox cannot be written"] });
    expect(await closed.json()).toMatchObject({ ok: false, problems: ["the link is closed"] });
  });

  it("[W136] the worker's /healthz lists a passed threshold and an unreachable scheduler as warnings only", async () => {
    const strained = await (await listen()).get("/healthz");
    const vitals = () => ({ metrics: {}, problems: [] });
    const away = await (await listen({ inventory: () => ({ ...link, phase: "BACKOFF" }) }, { readHealth: vitals })).get(
      "/healthz",
    );

    expect(await strained.json()).toEqual({ ok: true, problems: [], warnings: ["memory is full"] });
    expect(await away.json()).toMatchObject({ ok: true, warnings: ["there is no session with the scheduler (BACKOFF)"] });
  });

  it("[W136] the worker's /inventory shows what it can run, what it runs, its resources, its outbox and its session", async () => {
    const answer = await (await (await listen()).get("/inventory?x=1")).json();

    expect(answer).toMatchObject({
      worker: "w-1",
      tenant: "acme",
      session: { phase: "READY", id: "s-1", leaseLeftMs: 20_000 },
      handlers: [{ package: "tiny", version: "1.0.0", runtime: "node", nodeType: "tiny.a", capabilities: ["tiny.fast"] }],
      packageProblems: [{ message: "broken" }],
      running: [attempt],
      resources: { mem_pct: 12.5 },
      problems: ["memory is full"],
      outbox: { length: 1, isWritable: true },
    });
  });

  it("[W136] the worker's status server answers 404 for other paths and 405 for methods that do not read", async () => {
    const { get } = await listen();

    expect((await get("/")).status).toBe(404);
    expect((await get("/metrics", { method: "POST" })).status).toBe(405);
    const head = await get("/healthz", { method: "HEAD" });
    expect([head.status, await head.text()]).toEqual([200, ""]);
  });
});
