import type { Worker, WorkerDiagnostics } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import type { Client } from "../api/api-client.ts";
import { Terminal } from "../output/terminal.ts";
import {
  diagnoseWorker,
  drainWorker,
  findWorker,
  kickWorker,
  listWorkers,
  showWorker,
  undrainWorker,
} from "./worker-commands.ts";
import { describeWorkerState, renderWorker } from "./worker-view.ts";

const worker = (id: string, instanceId: string, more: Partial<Worker> = {}): Worker => ({
  id,
  instanceId,
  lastHeartbeatAt: "2026-01-01T00:00:00Z",
  queues: [],
  ...more,
});
const workers = [worker("berlin", "aaa-1"), worker("berlin-2", "bbb-2"), worker("tokyo", "abc-3")];

it("[L7] a worker is found by its name or instance id, or by the beginning of either if it is unique", () => {
  expect(findWorker("berlin", workers).instanceId).toBe("aaa-1");
  expect(findWorker("bbb", workers).id).toBe("berlin-2");
  expect(findWorker("to", workers).id).toBe("tokyo");
  expect(() => findWorker("berl", workers)).toThrow(/matches 2 workers.*aaa-1, bbb-2\./);
  expect(() => findWorker("paris", workers)).toThrow(/No worker "paris" found/);
});

it("[L7] a name shared by several workers means the connected one, and is refused if several are connected", () => {
  const there = worker("oslo", "o-1", { connected: true });
  const gone = worker("oslo", "o-2", { connected: false, status: "lost" });

  expect(findWorker("oslo", [gone, there]).instanceId).toBe("o-1");
  expect(findWorker("o-2", [gone, there]).instanceId).toBe("o-2");
  expect(() => findWorker("oslo", [gone, there, { ...there, instanceId: "o-3" }])).toThrow(/matches 2 workers.*o-1, o-3/);
  expect(() => findWorker("o", [there, worker("oldenburg", "x")])).toThrow(/matches 2 workers/);
});

it.each<[string, Partial<Worker>]>([
  ["online", { connected: true }],
  ["online", { connected: true, liveness: "fresh", draining: false, saturated: false, heartbeat: { healthy: true } }],
  ["away", {}],
  ["lost", { connected: false, status: "lost", draining: true }],
  ["draining", { connected: true, draining: true }],
  ["draining", { connected: true, draining: true, drainedBy: ["operator"] }],
  ["strained", { connected: true, draining: true, drainedBy: ["strain"] }],
  [
    "degraded,unhealthy,draining,strained,saturated",
    {
      connected: true,
      liveness: "degraded",
      heartbeat: { healthy: false },
      draining: true,
      drainedBy: ["operator", "strain"],
      saturated: true,
    },
  ],
])("[L7] a worker's state is %s for %j", (state, more) => {
  expect(describeWorkerState(worker("w", "i", more))).toBe(state);
});

const diagnostics: WorkerDiagnostics = {
  worker: worker("tokyo\u001b[2J", "abc-3", { connected: true, strain: "memory", draining: true, drainedBy: ["strain"] }),
  session: { phase: "online", dialect: "v2", epoch: 7, replica: "sched-1", joinedAt: "2026-01-01T00:00:00Z" },
  liveness: { level: "warn", silentMs: 12_000, heartbeatMs: 10_000 },
  attempts: [{ taskId: "r1.0", runId: "r1", nodeType: "demo.noop", fence: 3, attempt: 2, pendingAck: true }],
  hasMoreAttempts: true,
  handlers: [{ package: "demo", version: "1.0.0", runtime: "node", nodeType: "demo.noop", capabilities: ["gpu", "demo.noop"] }],
  resources: { memPct: 93 },
  outbox: 3,
  asOf: 1,
};

/** A scheduler that serves `workers` two a page and keeps what it was asked to do. */
function createContext(json = false) {
  const done: unknown[] = [];
  let out = "";
  const accepted = { commandId: "c", workerName: "tokyo", acceptedAt: "2026-01-01T00:00:00Z" };
  const client = {
    listWorkers: async ({ cursor }: { cursor?: string }) =>
      cursor === undefined ? { items: workers.slice(0, 2), nextCursor: "bbb-2" } : { items: workers.slice(2), nextCursor: null },
    getWorker: async ({ workerId }: { workerId: string }) => ({
      ...worker("tokyo", workerId, { hostname: "box", connected: true }),
      asOf: 1,
    }),
    getWorkerDiagnostics: async () => diagnostics,
    drainWorker: async (words: unknown) => (done.push(["drain", words]), accepted),
    undrainWorker: async (words: unknown) => (done.push(["undrain", words]), accepted),
    kickWorker: async (words: unknown) => (done.push(["kick", words]), accepted),
  } as unknown as Client;
  const stdout = { write: (text: string) => (out += text) };
  const terminal = new Terminal({ stdout, stderr: { write: () => undefined }, env: {}, isQuiet: false, wantsColor: false });
  const { signal } = new AbortController();
  return { place: { client, terminal, json, confirm: async () => undefined, signal, now: () => 0 }, done, out: () => out };
}

describe("astra workers", () => {
  it("[L7] workers list shows the workers of every page", async () => {
    const { place: context, out } = createContext();

    expect(await listWorkers(context, {})).toBe(0);

    expect(
      out()
        .split("\n")
        .slice(1, 4)
        .map((line) => line.split(" ")[0]),
    ).toEqual(["berlin", "berlin-2", "tokyo"]);
  });

  it("[L7] workers show and diagnose print one worker's details without control characters", async () => {
    const shown = createContext();
    await showWorker(shown.place, { worker: "tok" });
    expect(shown.out()).toMatch(/^worker +tokyo\ninstance +abc-3\nstate +online\n/);

    const diagnosed = createContext();
    await diagnoseWorker(diagnosed.place, { worker: "tok" });
    for (const words of [
      /state +strained \(too little memory\)/,
      /heard +warn: 12000 ms ago/,
      /outbox +3/,
      /r1\.0 +demo\.noop +2 +3 +sent/,
      /and more/,
      /demo\.noop +demo@1\.0\.0 +node +gpu$/m,
    ])
      expect(diagnosed.out()).toMatch(words);
    expect(diagnosed.out()).not.toContain("\u001b");
  });

  it("[L7] workers drain, undrain and kick send the instance id of the worker", async () => {
    const { place: context, done, out } = createContext();

    await drainWorker(context, { worker: "tokyo" });
    await undrainWorker(context, { worker: "tokyo" });
    await kickWorker(context, { worker: "tokyo", reason: "its key leaked" });

    expect(done).toEqual([
      ["drain", { workerId: "abc-3" }],
      ["undrain", { workerId: "abc-3" }],
      ["kick", { workerId: "abc-3", body: { reason: "its key leaked" } }],
    ]);
    expect(out()).toMatch(/tokyo is draining.*\ntokyo gets new tasks again\nThe session of tokyo ends/);
  });

  it("[L7] workers list, show, diagnose and kick print JSON with --json", async () => {
    for (const act of [listWorkers, showWorker, diagnoseWorker, kickWorker]) {
      const { place: context, out } = createContext(true);
      await act(context, { worker: "tok" });
      expect(JSON.parse(out())).toBeTypeOf("object");
    }
  });
});

it("[L81] workers show names the workers that announced another manifest of the same package version", () => {
  const otherManifests = [{ manifest: "m2", workers: ["tokyo"], workerCount: 3 }];
  const packages = [
    { name: "demo", version: "1.0.0", status: "installed" as const, manifest: "m1", otherManifests },
    { name: "mail", version: "1.0.0", status: "installed" as const },
  ];

  const lines = renderWorker(worker("berlin", "aaa-1", { packages }));

  expect(lines.filter((line) => line.startsWith("conflict"))).toEqual([
    expect.stringMatching(/^conflict +demo@1\.0\.0: its manifest is m1, that of tokyo and 2 more is m2$/),
  ]);
});
