import type { QueueList, Scaling, Worker } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { CliFailure, exitCodes } from "../output/cli-failure.ts";
import { Terminal } from "../output/terminal.ts";
import { createCommandFixture, sampleRun as run } from "../testing/command-fixture.ts";
import { type FleetSnapshot, formatTopRows, renderTop, showTop } from "./top-command.ts";

const worker = (id: string, more: Partial<Worker> = {}): Worker => ({
  id,
  lastHeartbeatAt: "2026-01-31T11:59:58Z",
  queues: [],
  ...more,
});
const moment: FleetSnapshot = {
  url: "http://s",
  at: Date.parse("2026-01-31T12:00:00Z"),
  scaling: {
    queued: 4,
    running: 2,
    isPartial: true,
    slots: 8,
    free: 6,
    workers: { online: 1, away: 0, lost: 1, saturated: 0, draining: 1 },
    wantedSlots: 6,
    asOf: 5,
  } as Scaling,
  workers: [
    worker("w-1", { connected: true, heartbeat: { healthy: true, metrics: { inflight: 2, cpuPct: 12.4 } } }),
    worker("w-2", { status: "lost" }),
  ],
  runs: Array.from({ length: 30 }, (_, at) =>
    run(`01a1dfbd-5bc1-7000-bf5a-0000000000${String(at).padStart(2, "0")}`, {
      name: "Welcome\u001b[2J",
      startedAt: "2026-01-31T11:59:00Z",
      openTasks: 3,
    }),
  ),
  queues: [
    {
      queue: "q",
      waiting: 4,
      isPartial: false,
      needs: { package: "p", version: "1", nodeType: "demo.text" },
      workers: { fitting: 0, blocked: {} },
    },
  ] as QueueList["items"],
};
const plain = { paint: new Proxy({}, { get: () => (text: string) => text }) as never };

describe("top", () => {
  it("[L33] top fits fleet, runs and queues on the screen and counts what it leaves out", () => {
    for (const [columns, rows] of [
      [80, 24],
      [160, 50],
      [60, 12],
    ] as const) {
      const lines = renderTop(moment, { ...plain, columns, rows });

      expect(lines.length).toBeLessThan(rows);
      expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(columns);
    }
    const text = renderTop(moment, { ...plain, columns: 100, rows: 24 }).join("\n");
    expect(text).toContain("2+ running, 4+ queued · 8 slots, 6 free · workers: 1 online (1 draining), 0 away, 1 lost");
    expect(text).toMatch(/w-1 +online +2\/- +12 %/);
    expect(text).toMatch(/and \d+ more open runs/);
    expect(text).not.toContain("\u001b");
  });

  it("[L33] [L50] top prints rows in a pipe and one document per poll with --json, and waits only for a scheduler it has reached before", async () => {
    expect(formatTopRows(moment)[0]).toMatch(/^2026-01-31T12:00:00\.000Z\tfleet\t/);
    expect(formatTopRows(moment)).toHaveLength(1 + 2 + 30 + 1);
    const stopping = new AbortController();
    let looks = 0;
    const fixture = createCommandFixture(
      {
        getScaling: () => {
          looks += 1;
          if (looks === 2 || looks === 4)
            throw new CliFailure(exitCodes.unreachable, { error: "E.UNREACHABLE", message: "away" });
          if (looks === 3) stopping.abort();
          return moment.scaling;
        },
        listWorkers: { items: moment.workers, nextCursor: null },
        listRuns: { items: moment.runs, nextCursor: null },
        listQueues: { items: moment.queues, asOf: 5 },
      },
      { json: true },
    );

    expect(await showTop({ ...fixture.context, signal: stopping.signal }, { once: false, every: 1 })).toBe(130);

    expect(fixture.stderr()).toMatch(/does not answer; reconnecting.*\nReconnected\.\n$/);
    const lines = fixture.stdout().trim().split("\n");
    expect(lines).toHaveLength(2);
    expect(JSON.parse(lines[0] ?? "")).toMatchObject({ cursor: "5", scaling: { slots: 8 }, runs: { length: 30 } });
    await expect(showTop(fixture.context, { once: false, every: 1 })).rejects.toMatchObject({ exitCode: 5 });
  });

  it("[L61] top ends with exit code 0 on the key q in a live view, and reads no keys otherwise", async () => {
    const answers = {
      getScaling: moment.scaling,
      listWorkers: { items: moment.workers, nextCursor: null },
      listRuns: { items: [], nextCursor: null },
      listQueues: { items: [], asOf: 5 },
    };
    let ends = 0;
    let drawn = "";
    const listenKeys = (onKey: (key: string) => void) => {
      queueMicrotask(() => [..."xq"].forEach(onKey));
      return () => void (ends += 1);
    };
    const stderr = { isTTY: true, write: (text: string) => (drawn += text) };
    const live = new Terminal({ stdout: stderr, stderr, env: {}, isQuiet: false, wantsColor: false });
    const { context } = createCommandFixture(answers);
    const never = { ...context, listenKeys: () => expect.unreachable() };

    expect(await showTop({ ...context, terminal: live, listenKeys }, { once: false, every: 60_000 })).toBe(0);
    expect(await showTop({ ...never, terminal: live }, { once: true, every: 1 })).toBe(0);
    expect(await showTop(never, { once: true, every: 1 })).toBe(0);

    expect(ends).toBe(1);
    expect(drawn).not.toContain("undefined");
    expect(renderTop(moment, { ...plain, columns: 100, rows: 24, isWatched: true })[0]).toMatch(/ · q: quit$/);
  });
});
