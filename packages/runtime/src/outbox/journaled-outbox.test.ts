import { describe, expect, it } from "vitest";
import { InMemoryOutboxDisk } from "../../test/in-memory-outbox-disk.ts";
import { JournaledOutbox, type JournaledOutboxSettings, type OutboxLogEvent } from "./journaled-outbox.ts";
import { encodeRecord, type JournaledOutcome, readJournal } from "./outbox-journal.ts";

const word = (task: string, text = "x"): Omit<JournaledOutcome, "key"> => ({
  type: "biz.exec.result",
  id: `b1-${task}`,
  run: "r",
  task,
  node: "n",
  fence: 7,
  payload: JSON.stringify({ task_id: task, result: { text } }),
});

/** A journaled outbox whose timers fire only when the test fires them. */
function bench(disk = new InMemoryOutboxDisk(), settings: Partial<JournaledOutboxSettings> = {}) {
  const notes: OutboxLogEvent[] = [];
  const stored: string[] = [];
  const health: boolean[] = [];
  const timers = new Map<number, { ms: number; call: () => void }>();
  let count = 0;
  const keeper: JournaledOutbox = new JournaledOutbox(
    {
      disk,
      environment: {
        wallClock: () => 1_700_000_000_000,
        defer: (call) => queueMicrotask(call),
        after(ms, call) {
          const id = count++;
          timers.set(id, { ms, call });
          return () => timers.delete(id);
        },
      },
      log: (event) => notes.push(event),
      healthChanged: () => health.push(keeper.isHealthy),
    },
    settings,
  );
  /** Fires the only timer there is, and returns its delay. */
  const ring = async (): Promise<number> => {
    expect(timers.size).toBe(1);
    const [id, timer] = [...timers][0] as [number, { ms: number; call: () => void }];
    timers.delete(id);
    timer.call();
    await idle();
    return timer.ms;
  };
  const keep = (task: string, text?: string): number => keeper.persist(word(task, text), () => stored.push(task));
  return { disk, keeper, notes, stored, health, timers, ring, keep };
}

/** Everything that a memory disk can do by now is done: it only takes microtasks. */
const idle = () => new Promise<void>((resolve) => setImmediate(resolve));
const tasksIn = (file: Buffer | null): string[] => {
  const reading = readJournal(file ?? Buffer.alloc(0));
  return reading.outcome === "damaged" ? ["damaged"] : reading.outcomes.map(({ task }) => task);
};

describe("keeping the outbox on disk", () => {
  it("[W73] the journaled outbox writes the outcomes of one tick with one append and one sync, and only then reports each as stored, in order", async () => {
    const { disk, stored, keep } = bench();
    const release = disk.blockCalls("sync");

    for (const task of ["a", "b", "c"]) keep(task);
    await idle();
    expect([disk.finishedCalls, stored, tasksIn(disk.file)]).toEqual([["append"], [], ["a", "b", "c"]]);
    release();
    await idle();

    expect(disk.finishedCalls).toEqual(["append", "sync"]);
    expect(stored).toEqual(["a", "b", "c"]);
  });

  it("[W73] the journaled outbox has one sync in flight; outcomes added meanwhile share the next one", async () => {
    const { disk, stored, keep } = bench();
    const release = disk.blockCalls("sync");
    keep("a");
    await idle();

    for (const task of ["b", "c"]) keep(task);
    await idle();
    expect([disk.finishedCalls, stored]).toEqual([["append"], []]);
    release();
    await idle();

    expect(disk.finishedCalls).toEqual(["append", "sync", "append", "sync"]);
    expect(stored).toEqual(["a", "b", "c"]);
    expect(tasksIn(disk.durable)).toEqual(["a", "b", "c"]);
  });

  it("[W74] the journaled outbox writes acks with the next outcomes, or alone after a second, and gives no acked outcome to a later process", async () => {
    const { disk, keeper, keep, ring } = bench();
    const [a, b] = [keep("a"), keep("b")];
    keep("c");
    await idle();

    keeper.remove(a);
    await idle();
    expect(disk.finishedCalls).toHaveLength(2);
    keep("d");
    await idle();
    expect([disk.finishedCalls.length, tasksIn(disk.durable)]).toEqual([4, ["b", "c", "d"]]);
    keeper.remove(b);
    expect(await ring()).toBe(1_000);

    expect(tasksIn(disk.durable)).toEqual(["c", "d"]);
    expect((await bench(disk).keeper.load())?.map(({ task }) => task)).toEqual(["c", "d"]);
  });

  it("[W74] the journaled outbox loses no ack that arrives while a record is written", async () => {
    const { disk, keeper, keep, ring } = bench();
    const [a, b] = [keep("a"), keep("b")];
    await idle();
    const release = disk.blockCalls("sync");
    keeper.remove(a);
    keep("c");
    await idle();

    keeper.remove(b);
    release();
    await idle();
    await ring();

    expect(tasksIn(disk.durable)).toEqual(["c"]);
  });

  it("[W75] the journaled outbox rewrites its file once it is large and mostly acked, and then appends to the new file", async () => {
    const { disk, keeper, keep } = bench(new InMemoryOutboxDisk(), { compactBytesMin: 4_096 });
    const keys = Array.from({ length: 20 }, (_, index) => keep(`t${index}`, "x".repeat(300)));
    await idle();
    const before = disk.file?.length ?? 0;

    for (const key of keys.slice(0, 19)) keeper.remove(key);
    keep("next");
    await idle();

    expect(disk.finishedCalls).toEqual(["append", "sync", "replace", "append", "sync"]);
    expect(disk.file?.length).toBeLessThan(before / 4);
    expect(tasksIn(disk.durable)).toEqual(["t19", "next"]);
  });

  it("[W75] the journaled outbox loses no ack that arrives while its file is rewritten", async () => {
    const { disk, keeper, keep } = bench(new InMemoryOutboxDisk(), { compactBytesMin: 1_024 });
    const keys = Array.from({ length: 20 }, (_, index) => keep(`t${index}`, "x".repeat(300)));
    await idle();
    for (const key of keys.slice(0, 18)) keeper.remove(key);
    const release = disk.blockCalls("replace");
    keep("next");
    await idle();

    keeper.remove(keys[18] as number);
    release();
    await idle();

    expect(tasksIn(disk.durable)).toEqual(["t19", "next"]);
  });

  it.each(["ENOSPC", "EIO"])(
    "[W76] the journaled outbox reports nothing as stored while appends fail with %s, and continues by itself when they succeed",
    async (code) => {
      const { disk, keeper, notes, stored, health, keep, ring } = bench();
      keep("a");
      await idle();
      disk.failNextCalls("append", code, 3);

      keep("b");
      await idle();
      expect([keeper.isHealthy, health, stored]).toEqual([false, [false], ["a"]]);
      expect([await ring(), await ring(), await ring()]).toEqual([100, 200, 400]);

      expect([stored, health, keeper.isHealthy]).toEqual([["a", "b"], [false, true], true]);
      expect(tasksIn(disk.durable)).toEqual(["a", "b"]);
      expect(notes.map(({ event }) => event)).toEqual(["outbox-failed", "outbox-failed", "outbox-failed", "outbox-mended"]);
      expect(notes[0]?.message).toContain(code);
    },
  );

  it("[W77] after a failed sync the journaled outbox reads its file again, truncates it to what is durable, and writes the rest again", async () => {
    const { disk, stored, keep, ring } = bench();
    keep("a");
    await idle();
    disk.failNextCalls("sync", "EIO");
    keep("b");
    await idle();
    expect(stored).toEqual(["a"]);
    disk.finishedCalls.length = 0;

    await ring();

    expect(disk.finishedCalls).toEqual(["read", "truncate", "sync", "append", "sync"]);
    expect(stored).toEqual(["a", "b"]);
    expect(tasksIn(disk.durable)).toEqual(["a", "b"]);
  });

  it("[W77] the journaled outbox rewrites its file from memory where a failed sync has destroyed what was durable", async () => {
    const { disk, stored, keep, ring } = bench();
    keep("a");
    await idle();
    disk.failNextCalls("sync", "EIO");
    keep("b");
    await idle();

    disk.file = Buffer.alloc(disk.file?.length ?? 0);
    await ring();

    expect(stored).toEqual(["a", "b"]);
    expect(tasksIn(disk.durable)).toEqual(["a", "b"]);
  });

  it("[W77] the journaled outbox never reports an outcome as stored that a power cut at that moment would lose", async () => {
    for (const [call, isDone] of [
      ["append", false],
      ["append", true],
      ["sync", false],
      ["sync", true],
      ["truncate", false],
      ["replace", true],
    ] as const) {
      for (let left = 1; left <= 4; left++) {
        const { disk, keeper, stored, timers, ring } = bench(new InMemoryOutboxDisk(), { compactBytesMin: 1_000 });
        disk.failNextCalls(call, "EIO", left, isDone);
        if (call === "truncate") disk.failNextCalls("append", "EIO");
        const check = (task: string) => () => stored.push(tasksIn(disk.durable).includes(task) ? task : `${task} is not on disk`);

        const keys = ["a", "b", "c", "d"].map((task) => keeper.persist(word(task, "x".repeat(500)), check(task)));
        await idle();
        while (!keeper.isHealthy) await ring();
        for (const key of keys.slice(0, 3)) keeper.remove(key);
        keeper.persist(word("e", "x".repeat(500)), check("e"));
        await idle();
        while (timers.size > 0) await ring();

        expect([call, stored]).toEqual([call, ["a", "b", "c", "d", "e"]]);
        expect(tasksIn(disk.durable)).toEqual(["d", "e"]);
      }
    }
  });

  it("[W78] the journaled outbox cuts off a torn end when it is loaded, logs it, and returns the outcomes before it", async () => {
    const first = bench();
    first.keep("a");
    await idle();
    const { disk } = first;
    const torn = encodeRecord(1, { outcomes: [{ ...word("b"), key: 1 }], ackedKeys: [] });
    disk.file = Buffer.concat([disk.file as Buffer, torn.subarray(0, torn.length - 3)]);

    const { keeper, keep, notes } = bench(disk);
    const left = await keeper.load();
    keep("c");
    await idle();

    expect(left?.map(({ task }) => task)).toEqual(["a"]);
    expect(notes.map(({ event }) => event)).toEqual(["outbox-cut", "outbox-found"]);
    expect(tasksIn(disk.durable)).toEqual(["a", "c"]);
  });

  it("[W78] the journaled outbox moves a damaged file aside, logs where and what that means, and returns nothing from it", async () => {
    const first = bench();
    first.keep("a");
    await idle();
    first.keep("b");
    await idle();
    const { disk } = first;
    (disk.file as Buffer)[20] = 0;

    const { keeper, notes } = bench(disk);

    expect(await keeper.load()).toBe(null);
    expect(notes).toMatchObject([{ level: "error", event: "outbox-damaged" }]);
    expect(notes[0]?.message).toMatch(/damaged at byte 0: .*damaged-1700000000000/);
    expect([...disk.movedAside.keys()]).toEqual(["damaged-1700000000000"]);
    expect(await bench(disk).keeper.load()).toEqual([]);
  });

  it("[W78] the journaled outbox waits for a disk that cannot be read, and syncs what it read before it returns it", async () => {
    const first = bench();
    first.keep("a");
    await idle();
    const { disk } = first;
    disk.durable = null;
    disk.failNextCalls("read", "EIO", 2);

    const { keeper, ring, health } = bench(disk);
    const opening = keeper.load();
    await idle();
    expect([await ring(), await ring()]).toEqual([100, 200]);

    expect((await opening)?.map(({ task }) => task)).toEqual(["a"]);
    expect(health).toEqual([false, true]);
    expect(tasksIn(disk.durable)).toEqual(["a"]);
  });

  it("[W78] the journaled outbox writes what is pending when it is closed, and logs what was lost to a failing disk", async () => {
    const { disk, keeper, keep } = bench();
    keep("a");
    await keeper.close();
    expect(tasksIn(disk.durable)).toEqual(["a"]);

    const sick = bench();
    sick.disk.failNextCalls("append", "ENOSPC", 99);
    sick.keep("b");
    await idle();
    await sick.keeper.close();

    expect(sick.notes.at(-1)).toMatchObject({ level: "error", details: { lost: 1 } });
    expect(sick.timers.size).toBe(0);
  });
});
