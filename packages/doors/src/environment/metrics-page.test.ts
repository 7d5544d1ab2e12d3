import { readFileSync } from "node:fs";
import { sampleGauge } from "@astraflow/engine/testing";
import { type Route, type RouteName, routes } from "@astraflow/protocol";
import {
  createFakeEngine,
  createFakeEnvironment,
  createFakeReader,
  runRow,
  taskRow,
  workerRow,
} from "@astraflow/services/testing";
import { describe, expect, it } from "vitest";
import { RestApi } from "../rest/rest-api.ts";
import { createSessionMetrics } from "../session/connection/session-metrics.ts";
import { openDoorsFixture, sampleTokens } from "../testing/doors-fixture.ts";
import { sampleDispatch } from "../testing/sample-dispatch.ts";
import { createMetricsRegistry } from "./metrics-registry.ts";

interface Row {
  readonly name: string;
  readonly kind: string;
  readonly labels: readonly string[];
}

/** The rows of the page's table about the scheduler. */
function rowsOfPage(): Row[] {
  const page = readFileSync(new URL("../../../../docs/metrics.md", import.meta.url), "utf8");
  const part = page.slice(page.indexOf("\n## Scheduler"), page.indexOf("\n## Worker"));
  return [...part.matchAll(/^\| `([a-z_]+)` \| (\w+) \| ([a-z_, ]*)\|/gm)].map(([, name = "", kind = "", labels = ""]) => ({
    name,
    kind,
    labels: labels
      .split(",")
      .map((label) => label.trim())
      .filter((label) => label !== ""),
  }));
}

function openScrape() {
  const engine = createFakeEngine();
  const metrics = createMetricsRegistry();
  const environment = createFakeEnvironment();
  const reader = createFakeReader({
    runs: [runRow("r1"), runRow("x1", { tenant: "other" })],
    tasks: [taskRow("r1.0"), taskRow("r1.1"), taskRow("r1.2", { phase: "leased" }), taskRow("x1.0", { phase: "waiting" })],
    workers: [
      workerRow("w-1", { draining: true }),
      workerRow("w-2"),
      workerRow("w-3", { phase: "away", draining: true }),
      workerRow("w-9", { tenant: "third", phase: "lost" }),
    ],
    log: [],
  });
  let isAway = false;
  const guarded = {
    ...reader,
    page: (async (query) => {
      if (isAway) throw new Error("the store is away");
      return reader.page(query);
    }) as typeof reader.page,
  };
  const meters = createSessionMetrics(metrics, engine.client);
  const calls = new RestApi({
    engineClient: engine.client,
    authenticate: (token, worker) => {
      const grants = ({ "scrape-token": ["metrics"], "admin-token": ["view", "admin"] } as const)[token as "scrape-token"];
      return grants === undefined ? sampleTokens(token, worker) : { tenant: "third", user: "x", grants };
    },
    environment,
    metrics,
    reader: guarded,
    digest: (text) => text,
    ackDeadlineMs: 5_000,
    unready: () => null,
    gauge: () => sampleGauge({ saturated: { default: 1 } }),
  });
  const call = (name: RouteName, token: string) => calls.handle(name, { token, params: {}, query: {}, headers: {}, body: null });
  const scrape = async (token = "secret-a") => {
    const { status, body } = await call("getMetrics", token);
    expect(status).toBe(200);
    return body;
  };
  return { engine, meters, environment, reader, call, scrape, setAway: (to: boolean) => (isAway = to) };
}

describe("what /metrics shows", () => {
  it("[A1216] the rules for Prometheus in docs/alerts.yml name metrics, labels and values of labels as docs/metrics.md lists them, each with what to do", () => {
    const rules = readFileSync(new URL("../../../../docs/alerts.yml", import.meta.url), "utf8");
    const expressions = [...rules.matchAll(/^ +expr: (.+)$/gm)].map(([, text = ""]) => text);
    const rows = new Map(rowsOfPage().map((row) => [row.name, row]));

    const named = expressions.flatMap((text) =>
      [...text.matchAll(/\(([a-z_]+)(?:\{([^}]*)\})?/g)].map(([, name = "", labels = ""]) => ({ name, labels })),
    );
    const wrong = named
      .filter(({ name }) => name !== "increase" && name !== "tenant")
      .flatMap(({ name, labels }) => {
        const unknown = [...labels.matchAll(/(\w+)=/g)].filter(
          ([, label = ""]) => rows.get(name)?.labels.includes(label) !== true,
        );
        return rows.has(name) && unknown.length === 0 ? [] : [`${name}{${labels}}`];
      });

    expect(wrong).toEqual([]);
    expect(expressions.length).toBeGreaterThan(3);
    expect([...rules.matchAll(/^ +remedy: /gm)]).toHaveLength(expressions.length);
  });

  it("[A26] GET /metrics shows exactly the families, kinds and labels that docs/metrics.md lists", async () => {
    const fixture = await openDoorsFixture();
    const byName = (a: Row, b: Row) => (a.name < b.name ? -1 : 1);
    // A worker connects, has a frame refused and works, so that the families that are made on first use are shown too.
    const worker = await fixture.openSession();
    worker.sendWorkFrame("biz.unknown", {});
    fixture.engine.emitEffects(sampleDispatch((await fixture.engine.nextCommand("worker.join")).session, "r1.0", 1));
    await worker.nextFrame("biz.exec.dispatch");
    await worker.untilProcessed();

    const headers = { authorization: "Bearer secret-a" };
    const text = await (await fetch(`${fixture.http}/metrics`, { headers })).text();
    await fixture.stop();

    const listed = rowsOfPage();
    expect(fixture.metrics.families().toSorted(byName)).toEqual(listed.toSorted(byName));
    expect(text).toContain('cmd_dispatch_total{tenant="default",node_type="demo.noop"} 1');
    const shown = [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name, kind]) => `${name} ${kind}`);
    expect(shown.toSorted()).toEqual(listed.map(({ name, kind }) => `${name} ${kind}`).toSorted());
    for (const [, name = "", labels = ""] of text.matchAll(/^(\w+)\{([^}]*)\} /gm)) {
      const row = listed.find((one) => one.name === name.replace(/_(bucket|sum|count)$/, "") || one.name === name);
      const names = [...labels.matchAll(/(\w+)="/g)].map(([, label]) => label).filter((label) => label !== "le");
      expect([name, names]).toEqual([name, row?.labels]);
    }
  });

  it("[A26] GET /metrics shows the promised metric names with the promised labels", async () => {
    const { engine, meters, scrape } = openScrape();
    meters.connections("t").set(1);
    meters.bytes("t", "in").add(5);
    meters.packageOp("t", "install", "failed");
    const counted: [string, Record<string, string>, number][] = [
      ["ws_heartbeat_miss_total", { tenant: "t", worker: "w" }, 1],
      ["cmd_retry_total", { reason: "E.WORKER.LOST" }, 1],
      ["result_latency_ms", { tenant: "t", node_type: "demo.noop" }, 7],
      ["heartbeat_latency_ms", { tenant: "t" }, 7],
    ];
    engine.emitEffects(...counted.map(([name, labels, value]) => ({ type: "count", name, labels, values: [value] }) as const));

    const text = await scrape();

    for (const line of [
      'ws_conn_active{tenant="t"} 1',
      'ws_frame_bytes_total{tenant="t",dir="in"} 5',
      'ws_heartbeat_miss_total{tenant="t",worker="w"} 1',
      'cmd_retry_total{reason="E.WORKER.LOST"} 1',
      'result_latency_ms_bucket{tenant="t",node_type="demo.noop",le="10"} 1',
      'heartbeat_latency_ms_bucket{tenant="t",le="10"} 1',
      'pkg_ops_total{tenant="t",op="install",status="failed"} 1',
    ])
      expect(text.split("\n")).toContain(line);
  });

  it("[O36] a token with the grant metrics alone sees the metrics of every tenant and is refused everything else", async () => {
    const { call, scrape } = openScrape();

    const text = await scrape("scrape-token");

    expect(text).toContain('workers{tenant="default"');
    expect(text).toContain("engine_turns");
    const others = (Object.keys(routes) as RouteName[]).filter((name) => {
      const { isOpen }: Route = routes[name];
      return isOpen !== true && name !== "getMetrics";
    });
    for (const name of others) expect([name, (await call(name, "scrape-token")).status]).toEqual([name, 403]);
  });

  it("[O36] an admin sees the series of the own tenant in GET /metrics and nothing about the others or the process", async () => {
    const lines = (await openScrape().scrape("admin-token")).split("\n").filter((line) => line !== "" && !line.startsWith("#"));

    expect(lines).toContain('workers{tenant="third",state="lost"} 1');
    expect(lines.filter((line) => !line.includes('tenant="third"'))).toEqual([]);
  });

  it("[A27] GET /metrics counts the workers of each state and the queue depth for every tenant, including zeros", async () => {
    const lines = (await openScrape().scrape()).split("\n");

    expect(lines.filter((line) => line.startsWith("workers{"))).toEqual([
      'workers{tenant="default",state="online"} 2',
      'workers{tenant="default",state="away"} 1',
      'workers{tenant="default",state="lost"} 0',
      'workers{tenant="default",state="left"} 0',
      'workers{tenant="default",state="draining"} 1',
      'workers{tenant="default",state="saturated"} 1',
      'workers{tenant="third",state="online"} 0',
      'workers{tenant="third",state="away"} 0',
      'workers{tenant="third",state="lost"} 1',
      'workers{tenant="third",state="left"} 0',
      'workers{tenant="third",state="draining"} 0',
      'workers{tenant="third",state="saturated"} 0',
    ]);
    expect(lines.filter((line) => line.startsWith("queue_depth{"))).toEqual([
      'queue_depth{tenant="default"} 2',
      'queue_depth{tenant="third"} 0',
      'queue_depth{tenant="other"} 0',
    ]);
  });

  it("[A27] GET /metrics queries the store at most every 2 s, and leaves its numbers out while it does not answer", async () => {
    const { environment, reader, scrape, setAway } = openScrape();
    await Promise.all([scrape(), scrape()]);
    await scrape();
    expect(reader.queries).toHaveLength(2);

    setAway(true);
    environment.advance(2_000);
    const text = await scrape();

    expect(text).not.toMatch(/^(workers|queue_depth)\{/m);
    expect(text).toMatch(/^process_resident_memory_bytes \d+$/m);
    expect(environment.logRecords).toContainEqual(expect.objectContaining({ event: "metrics.unread" }));
    setAway(false);
    environment.advance(2_000);
    expect(await scrape()).toMatch(/^queue_depth\{/m);
  });

  it("[A27] GET /metrics does not wait longer than 2 s for a store that hangs", async () => {
    const { environment, reader, scrape } = openScrape();
    const { promise: never } = Promise.withResolvers<never>();
    Object.assign(reader, { page: () => never });
    const waiting = scrape();
    await new Promise(setImmediate);

    environment.advance(2_000);

    expect(await waiting).toMatch(/^engine_turns 0$/m);
  });
});
