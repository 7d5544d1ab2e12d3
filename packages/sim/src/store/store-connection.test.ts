import type { Store, TurnTransaction } from "@astraflow/engine";
import { MemoryCluster } from "@astraflow/store";
import { describe, expect, it } from "vitest";
import { MachineClock } from "../kernel/machine-clock.ts";
import { ProcessEventLoop } from "../kernel/process-event-loop.ts";
import { SeededRandom } from "../kernel/seeded-random.ts";
import { drainMicrotasks, Timeline } from "../kernel/timeline.ts";
import { idleTransactionMs, StoreConnection } from "./store-connection.ts";

const want = { rows: ["run/r1"], claims: [], lists: [], due: 0, mail: 0, skip: [] } as const;

async function connectStore(lostShare = 0) {
  const timeline = new Timeline();
  const clock = new MachineClock(timeline, { monoStart: 0, wallOffset: 0, driftPpm: 0 });
  const random = new SeededRandom("access");
  const cluster = new MemoryCluster({ mode: "weak", random, clock: { mono: () => clock.mono(), wall: () => clock.wall() } });
  const eventLoop = new ProcessEventLoop("s1", timeline, clock, () => undefined);
  const storeConnection = new StoreConnection(cluster.createHandle(), eventLoop, timeline, { dice: random, lostShare });
  const other = cluster.createHandle();
  await storeConnection.store.open({ replica: "s1", cluster: "c" });
  await other.open({ replica: "s2", cluster: "c" });
  /** Whether the root can be had by somebody else at this moment. */
  const isFree = async (): Promise<boolean> => {
    const tx = await other.begin(want);
    const row = tx.row("run", "r1");
    await tx.abort();
    return row !== "busy";
  };
  const pass = async (ms: number): Promise<void> => {
    let isOver = false;
    timeline.after(ms, () => {
      isOver = true;
    });
    while (!isOver) {
      timeline.runNextEvent();
      await drainMicrotasks();
    }
  };
  return { timeline, life: eventLoop, access: storeConnection, other, isFree, pass };
}

/** "pending" until it settles. */
function watchPromise<T>(asked: Promise<T>): { fate: T | string } {
  const seen: { fate: T | string } = { fate: "pending" };
  asked.then(
    (value) => {
      seen.fate = value;
    },
    (problem: unknown) => {
      seen.fate = String(problem);
    },
  );
  return seen;
}

const begin = (store: Store): Promise<TurnTransaction> => store.begin(want);

describe("a scheduler's way to the store", () => {
  it("[X8] the simulated store connection rolls back the open transaction of a dead process and never answers that process", async () => {
    const { access: storeConnection, life: eventLoop, isFree, pass } = await connectStore();
    const tx = await begin(storeConnection.store);
    expect(await isFree()).toBe(false);

    eventLoop.end();
    storeConnection.closeAfterProcessEnd();
    const more = watchPromise(tx.loadMore(["run/r2"], []));
    const again = watchPromise(begin(storeConnection.store));
    await pass(10);

    expect([more.fate, again.fate]).toEqual(["pending", "pending"]);
    expect(await isFree()).toBe(true);
  });

  it("[X8] the simulated store connection answers a paused process when it resumes", async () => {
    const { access: storeConnection, life: eventLoop, pass } = await connectStore();
    eventLoop.pause();
    const asked = watchPromise(begin(storeConnection.store));
    await pass(10);
    expect(asked.fate).toBe("pending");

    eventLoop.resume(true);
    await pass(1);

    expect(asked.fate).not.toBe("pending");
  });

  it("[X8] the simulated store connection ends a transaction left open during an outage: its roots are released and its commit fails", async () => {
    const { access: storeConnection, timeline, isFree, pass } = await connectStore();
    const tx = await begin(storeConnection.store);

    const mend = storeConnection.beginOutage(timeline);
    const commit = watchPromise(tx.commit(1, []));
    await pass(idleTransactionMs - 1);
    expect([commit.fate, await isFree()]).toEqual(["pending", false]);
    await pass(2);
    expect(await isFree()).toBe(true);
    mend();
    await pass(1);

    expect(commit.fate).toMatchObject({ outcome: "failed" });
  });

  it("[X8] a transaction whose simulated store connection is lost fails its requests, and the next transaction works", async () => {
    const { access: storeConnection } = await connectStore();
    storeConnection.loseNextTransaction();
    const broken = await begin(storeConnection.store);
    const next = await begin(storeConnection.store);

    expect(broken.row("run", "r1")).toBe(undefined);
    await expect(broken.loadMore(["run/r1"], [])).rejects.toMatchObject({ code: "E.STORE.BUSY" });
    expect(next.row("run", "r1")).toBe(null);
  });

  it("[X8] the simulated store connection delivers hints, and none where all are to be lost", async () => {
    const happening = { tenant: "t", subject: "worker/t/w", facts: [{ type: "x", data: {} }] } as const;
    const received: string[] = [];
    for (const lostShare of [0, 1]) {
      const { access: storeConnection, other, pass } = await connectStore(lostShare);
      storeConnection.store.onHint((hint) => void received.push(`${lostShare} ${hint.type}`));
      const tx = await other.begin({ ...want, rows: ["worker/t/w"] });
      await tx.commit(1, [{ roots: ["worker/t/w"], puts: [], deletes: [], enqueued: [], logEntries: [happening], mail: [] }]);
      expect(received).not.toContain("1 log");
      await pass(100);
    }

    expect(received).toEqual(["0 log"]);
  });
});
