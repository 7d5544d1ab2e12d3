import type { RunRow } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { ManualClock } from "../contract/fixtures/memory-and-sqlite-fixtures.ts";
import { changeSet, logEntry, runRow } from "../contract/fixtures/sample-rows.ts";
import { StoreClient } from "../contract/fixtures/store-client.ts";
import { MemoryCluster, type StorePausePoint } from "./cluster.ts";

function createRandom(seed: number) {
  let state = seed;
  return {
    random() {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return state / 2 ** 32;
    },
  };
}

describe("the memory store with faults", () => {
  it("[S52] the memory store loses no increment and doubles none, with three schedulers, busy roots, failures and lost answers", async () => {
    for (let seed = 1; seed <= 10; seed++) {
      const random = createRandom(seed);
      const waiting: (() => void)[] = [];
      const gate = (_at: StorePausePoint) =>
        random.random() < 0.5 ? undefined : new Promise<void>((resolve) => void waiting.push(resolve));
      const rates = { busy: 0.1, fail: 0.1, unknown: 0.2 };
      const cluster = new MemoryCluster({ mode: "weak", random, clock: new ManualClock(), rates, pauseAt: gate });
      const fixture = { createHandle: () => cluster.createHandle() };
      const counts = { failed: 0, unknown: 0, busy: 0 };
      let added = 0;

      /** One scheduler adds one to each of two runs, again and again, as a driver would: never trusting an answer it did not get. */
      const work = async (replica: string) => {
        const client = await StoreClient.open(fixture, replica);
        for (let done = 0; done < 20; ) {
          const runs = [`r${Math.floor(random.random() * 4)}`, `r${4 + Math.floor(random.random() * 4)}`];
          const tx = await client.begin({ rows: runs.map((run) => `run/${run}` as const) });
          const rows = runs.map((run) => tx.row("run", run));
          if (rows.includes("busy")) {
            counts.busy++;
            await tx.abort();
            continue;
          }
          const number = client.nextTurn;
          const puts = runs.map((run, at) => runRow(run, { open: ((rows[at] as RunRow | null)?.open ?? 0) + 1 }));
          const answer = await client.commit(tx, [
            changeSet({ puts, logEntries: [logEntry("acme", `run/${runs[0]}`, ["one"])] }),
          ]);
          if (answer.outcome !== "committed") counts[answer.outcome]++;
          if (answer.outcome === "failed") continue;
          if (answer.outcome === "unknown" && (await client.store.settle(number)) === "absent") continue;
          added++;
          done++;
        }
      };
      const workers = ["a", "b", "c"].map(work);
      const all = Promise.all(workers);
      let isDone = false;
      void all.then(() => {
        isDone = true;
      });
      // Lets one waiter go at a time, in an order the dice choose, until nobody waits any more.
      while (!isDone) {
        await new Promise<void>((resolve) => setImmediate(resolve));
        const next = waiting.splice(Math.floor(random.random() * waiting.length), 1)[0];
        next?.();
      }
      await all;

      const reader = await StoreClient.open(fixture, "reader");
      const { items } = await reader.store.page({ page: "runs", tenant: "acme", limit: 99 });
      expect(items.reduce((sum, run) => sum + run.open, 0)).toBe(2 * added);
      expect((await reader.store.events({ tenant: "acme", after: 0, limit: 999 })).items.map((entry) => entry.position)).toEqual(
        Array.from({ length: added }, (_, at) => at + 1),
      );
      expect(Math.min(counts.failed, counts.unknown, counts.busy)).toBeGreaterThan(0);
    }
  });

  it("[S52] the memory store holds the roots of a commit whose answer was lost until the commit is over, and settles it only then", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const cluster = new MemoryCluster({
      mode: "weak",
      random: createRandom(1),
      clock: new ManualClock(),
      scriptedOutcome: ({ turn }) => (turn === 1 ? "unknown-committed" : undefined),
      pauseAt: ({ step }) => (step === "late" ? promise : undefined),
    });
    const fixture = { createHandle: () => cluster.createHandle() };
    const [a, b] = [await StoreClient.open(fixture, "a"), await StoreClient.open(fixture, "b")];
    const tx = await a.begin({ rows: ["run/r1"] });
    expect(await a.commit(tx, [changeSet({ puts: [runRow("r1")] })])).toEqual({ outcome: "unknown" });
    const settling = a.store.settle(1);

    expect(await b.read("run/r1")).toEqual(["busy"]);
    resolve();
    expect(await settling).toBe("committed");
    expect(await b.read("run/r1")).toMatchObject([{ id: "r1" }]);
  });

  it("[S52] the memory store releases everything a handle held when the handle is closed, as when its process dies", async () => {
    const cluster = new MemoryCluster({ mode: "weak", random: createRandom(1), clock: new ManualClock() });
    const fixture = { createHandle: () => cluster.createHandle() };
    const [a, b] = [await StoreClient.open(fixture, "a"), await StoreClient.open(fixture, "b")];
    await a.begin({ rows: ["run/r1"] });
    expect(await b.read("run/r1")).toEqual(["busy"]);

    await a.store.close();

    expect(await b.read("run/r1")).toEqual([null]);
  });

  it("[S52] the memory store sends hints of mail and facts to other handles, and of facts only to the writer", async () => {
    const cluster = new MemoryCluster({ mode: "weak", random: createRandom(1), clock: new ManualClock() });
    const fixture = { createHandle: () => cluster.createHandle() };
    const [a, b] = [await StoreClient.open(fixture, "a"), await StoreClient.open(fixture, "b")];
    const received: Record<string, string[]> = { a: [], b: [] };
    a.store.onHint((hint) => received.a?.push(hint.type));
    b.store.onHint((hint) => received.b?.push(hint.type));

    await a.write(
      changeSet({
        puts: [runRow("r1")],
        logEntries: [logEntry("acme", "run/r1", ["made"])],
        mail: [{ replica: "b", epoch: 1, id: "m", body: "" }],
      }),
    );

    expect(received).toEqual({ a: ["log"], b: ["log", "mail"] });
  });
});
