import { describe, expect, it } from "vitest";
import { createMetricsRegistry } from "../../environment/metrics-registry.ts";
import { flushPromises, followEvents, openEventStreamFixture } from "../../testing/event-stream-fixture.ts";
import { eventLimits } from "../events/event-routes.ts";
import { StreamBudget, streamBudgetLimits } from "./stream-budget.ts";

const KiB = 1024;

function openReaders(limits: ConstructorParameters<typeof StreamBudget>[1] = {}) {
  const metrics = createMetricsRegistry();
  const budget = new StreamBudget(metrics, { checkBytes: 1, ...limits });
  const add = (name: string, waitingBytes = 0, tenant = "default") => {
    const reader = { name, tenant, user: name, isCut: false, sink: { waitingBytes, destroy: () => undefined } };
    const remove = budget.add({
      ...reader,
      sink: {
        get waitingBytes() {
          return reader.sink.waitingBytes;
        },
        destroy: () => {
          reader.isCut = true;
        },
      },
      onEvicted: () => remove(),
    });
    return Object.assign(reader, { remove });
  };
  return { budget, metrics, add };
}

describe("what all readers of streams may cost", () => {
  it("[A651] the slowest readers are cut off when too much waits for all of them, those that keep up are not, and it is counted", () => {
    const { budget, metrics, add } = openReaders({ waitingBytesTotalMax: 1_000 * KiB });
    const readers = [add("a", 100 * KiB), add("b", 500 * KiB), add("c", 300 * KiB, "other"), add("d"), add("e", 90 * KiB)];

    budget.countWritten(1);
    expect(readers.filter(({ isCut }) => isCut)).toEqual([]);
    add("f", 200 * KiB);
    budget.countWritten(1);

    expect(readers.filter(({ isCut }) => isCut).map(({ name }) => name)).toEqual(["b"]);
    const page = metrics.render();
    expect(page).toContain('sse_streams_evicted_total{tenant="default"} 1');
    expect(page).toContain("sse_streams_open 5");
    expect(page).toContain(`sse_waiting_bytes ${690 * KiB}`);
  });

  it("[A651] what waits is measured once in a megabyte that was written, not with every write", () => {
    let measured = 0;
    const budget = new StreamBudget();
    const sink = {
      get waitingBytes() {
        measured += 1;
        return 0;
      },
      destroy: () => undefined,
    };
    budget.add({ tenant: "default", user: "ann", sink, onEvicted: () => undefined });

    for (let n = 0; n < 2_048; n += 1) budget.countWritten(KiB);

    expect(measured).toBe(2);
  });

  it("[A652] each reader is fed less where there are many, and together half of the total at most", () => {
    const { budget, add } = openReaders();
    const readers = Array.from({ length: 1_000 }, (_, n) => add(`u-${n}`));

    expect(budget.feedBytesMax).toBeLessThanOrEqual(streamBudgetLimits.waitingBytesTotalMax / 2 / 1_000);
    for (const { remove } of readers.slice(1)) remove();
    expect(budget.feedBytesMax).toBe(streamBudgetLimits.feedBytesMax);
  });

  it("[A653] a user and the scheduler have so many streams at once; one that ends makes room", () => {
    const { budget, add } = openReaders({ streamsMax: 4, streamsPerUserMax: 2 });
    const first = add("ann");
    add("ann");
    const ann = { tenant: "default", user: "ann" };

    expect(budget.capacityFault(ann)).toMatchObject({
      code: "E.OVERLOADED",
      message: expect.stringContaining("ann has 2 streams"),
    });
    expect(budget.capacityFault({ ...ann, tenant: "other" })).toBeNull();
    add("bob");
    add("cat");
    expect(budget.capacityFault({ ...ann, user: "dan" })?.message).toContain("this scheduler has 4 streams");
    first.remove();
    first.remove();
    expect(budget.capacityFault(ann)).toBeNull();
  });
});

describe("readers of events that never read", () => {
  it("[A653] a reader beyond the streams of its user is refused, also where many come at once, and another user is not", async () => {
    const scene = openEventStreamFixture([], { streamLimits: { streamsPerUserMax: 2 } });
    const both = await Promise.all([1, 2, 3].map(() => followEvents(scene)));

    expect(both.filter(({ sink }) => sink.isEnded)).toHaveLength(1);
    await expect(followEvents(scene)).rejects.toMatchObject({ code: "E.OVERLOADED" });
    await followEvents(scene, {}, undefined, "default", ["view"], "bob");
  });

  it("[A655] the last stretch of the log is kept for a few tenants that nobody reads any more, and read again for the others", async () => {
    const scene = openEventStreamFixture([]);
    const readsOf = async (tenant: string): Promise<number> => {
      const before = scene.counts.events;
      const { gone } = await followEvents(scene, {}, undefined, tenant);
      await flushPromises();
      gone();
      return scene.counts.events - before;
    };
    const names = Array.from({ length: eventLimits.idleTailsMax + 2 }, (_, n) => `t-${n}`);
    for (const name of names) await readsOf(name);

    const kept = await readsOf(names[0] ?? "");
    const dropped = await readsOf(names.at(-1) ?? "");

    expect(dropped - kept).toBe(1);
  });

  it("[A651] a reader that was cut off continues from its cursor without a gap", async () => {
    const facts = Array.from({ length: 40 }, () => ({ type: "run.started" }));
    const scene = openEventStreamFixture(facts, { streamLimits: { waitingBytesTotalMax: 64 * KiB, checkBytes: 1 } });
    const silent = await followEvents(scene, {}, "0", "default", ["view"], "slow");
    await flushPromises();
    const seen = silent.namedEvents();
    silent.sink.waitingBytes = 65 * KiB;
    const other = await followEvents(scene, {}, undefined, "default", ["view"], "bob");
    scene.grow({ type: "run.started" });
    await flushPromises();

    expect([silent.sink.isDestroyed, other.sink.isDestroyed]).toEqual([true, false]);
    const back = await followEvents(scene, {}, seen.at(-1)?.id, "default", ["view"], "slow");
    await flushPromises();

    const ids = [...seen, ...back.namedEvents()].map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.at(-1)).toBe("41");
  });
});
