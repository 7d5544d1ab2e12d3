import type { StoreReader, WorkerRow } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { createFakeEnvironment } from "../testing/fake-environment.ts";
import { workerRow } from "../testing/sample-rows.ts";
import { HeartbeatWatch } from "./heartbeat-watch.ts";
import { VolatileEvents, type VolatileListener } from "./volatile-events.ts";

const rowWithHeartbeat = (id: string, at: number, more: Partial<WorkerRow> = {}): WorkerRow =>
  workerRow(id, { seenAt: at, condition: JSON.stringify({ beatAt: at, vitals: { metrics: { cpu_pct: 7 } } }), ...more });

/** Rows that another scheduler writes, and one listener. */
function openFixture(options: { isAlone?: boolean } = {}) {
  const environment = createFakeEnvironment();
  const volatile = new VolatileEvents();
  const rows = new Map<string, WorkerRow>();
  const reads: string[] = [];
  let problem: Error | null = null;
  const reader = {
    page: async (query: { page: string; worker?: string }) => {
      reads.push(query.page);
      if (problem !== null) throw problem;
      if (query.page === "worker") return { worker: rows.get(query.worker ?? "") ?? null, held: [], head: 0 };
      return { items: [...rows.values()], head: 0 };
    },
  } as unknown as StoreReader;
  const watch = new HeartbeatWatch({ reader, environment, volatile, heartbeatMsOf: () => 10_000, ...options });
  const received: { workerName: string; text: string }[] = [];
  const listener: VolatileListener = { heartbeat: { wants: () => true, receive: (beat) => received.push(beat) }, frame: null };
  const names = () => received.splice(0).map(({ workerName }) => workerName);
  const put = (...some: WorkerRow[]) => some.forEach((row) => rows.set(row.id, row));
  const look = async (): Promise<void> => {
    environment.advance(10_000);
    await settle();
  };
  const fail = (why: Error | null) => {
    problem = why;
  };
  return { outside: environment, volatile, watch, listener, received, names, put, look, reads, fail };
}

const settle = async (): Promise<void> => {
  for (let turn = 0; turn < 50; turn++) await Promise.resolve();
};

describe("heartbeats that other schedulers have taken", () => {
  it("[A302] heartbeats received by other schedulers are read from the workers' rows once per interval: only those that moved since", async () => {
    const scene = openFixture();
    scene.put(rowWithHeartbeat("w-1", 1_000), rowWithHeartbeat("w-2", 1_000), workerRow("w-3"));
    scene.volatile.subscribe("default", scene.listener);
    const leave = scene.watch.watchTenant("default");
    await settle();
    expect(scene.names()).toEqual([]);

    scene.put(rowWithHeartbeat("w-1", 11_000), rowWithHeartbeat("w-4", 11_500));
    await scene.look();
    expect(scene.received.map(({ text }) => JSON.parse(text))).toMatchObject([
      {
        version: "v1",
        type: "worker.heartbeat",
        occurredAt: new Date(11_000).toISOString(),
        scope: { tenant: "default", workerName: "name of w-1" },
        meta: { volatile: true },
        data: {
          kind: "worker.heartbeat",
          workerName: "name of w-1",
          instanceId: "w-1",
          connected: true,
          heartbeat: { healthy: true, metrics: { cpuPct: 7 } },
        },
      },
      { data: { instanceId: "w-4" } },
    ]);
    expect(JSON.parse(scene.received[0]?.text ?? "")).not.toHaveProperty("id");
    scene.names();
    await scene.look();
    expect(scene.names()).toEqual([]);
    leave();
  });

  it("[A302] a heartbeat is not published again where its worker is connected here, nor because something else changed its row", async () => {
    const scene = openFixture();
    scene.put(rowWithHeartbeat("w-1", 1_000));
    scene.volatile.subscribe("default", scene.listener);
    scene.watch.watchTenant("default");
    await settle();
    const here = { tenant: "default", worker: "default/w-1", workerName: "name of w-1", at: 11_000 };
    scene.volatile.publishHeartbeat(here, () => {
      throw new Error("nobody reads its text");
    });
    expect(scene.names()).toEqual(["name of w-1"]);

    scene.put(rowWithHeartbeat("w-1", 11_000));
    await scene.look();
    scene.put({ ...rowWithHeartbeat("w-1", 11_000), seenAt: 12_000 });
    await scene.look();

    expect(scene.names()).toEqual([]);
  });

  it("[A302] the heartbeat watch reads nothing while nobody listens, and never where all workers are connected to this scheduler", async () => {
    const scene = openFixture();
    await scene.look();
    expect(scene.reads).toEqual([]);
    const leaves = [scene.watch.watchTenant("default"), scene.watch.watchTenant("default")];
    await settle();
    await scene.look();
    expect(scene.reads).toHaveLength(2);
    for (const leave of leaves) leave();
    await scene.look();
    expect(scene.reads).toHaveLength(2);

    const alone = openFixture({ isAlone: true });
    alone.watch.watchTenant("default");
    await alone.look();
    expect(alone.reads).toEqual([]);
  });

  it("[A302] the heartbeat watch logs a read that failed, and reads again at the next interval", async () => {
    const scene = openFixture();
    scene.put(rowWithHeartbeat("w-1", 1_000));
    scene.volatile.subscribe("default", scene.listener);
    scene.watch.watchTenant("default");
    await settle();
    scene.put(rowWithHeartbeat("w-1", 2_000));
    scene.fail(new Error("away"));
    await scene.look();
    expect(scene.outside.logRecords).toMatchObject([{ level: "warn", event: "events.beats", problem: "Error: away" }]);

    scene.fail(null);
    await scene.look();

    expect(scene.names()).toEqual(["name of w-1"]);
  });

  it("[A302] a heartbeat over REST of a worker without a socket is published once, and its row is read only if somebody listens", async () => {
    const scene = openFixture({ isAlone: true });
    scene.put(rowWithHeartbeat("w-1", 5_000, { phase: "enrolled" }));
    scene.watch.reportSignOfLife("default", "default/w-1");
    await settle();
    expect(scene.reads).toEqual([]);

    const end = scene.volatile.subscribe("default", scene.listener);
    scene.watch.reportSignOfLife("default", "default/w-1");
    scene.watch.reportSignOfLife("default", "default/w-1");
    await settle();

    expect(scene.received.map(({ text }) => JSON.parse(text))).toMatchObject([{ data: { connected: false, registered: true } }]);
    end();
  });
});
